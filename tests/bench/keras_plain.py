"""The floor of a start with Keras: one plain Python process of a cluster, to its first collective.

Run as `python keras_plain.py PROCESS_ID PROCESSES PORT`; prints when the collective was done, in Unix seconds.
"""

import os
import sys
import time

process_id, processes, port = map(int, sys.argv[1:])
os.environ["KERAS_BACKEND"] = "jax"
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"

import keras  # noqa: E402 - the back end is chosen by then

keras.distribution.initialize(f"127.0.0.1:{port}", processes, process_id)
keras.distribution.set_distribution(keras.distribution.DataParallel(auto_shard_dataset=False))
layer = keras.layers.Dense(4)
layer.build((None, 8))
assert len(keras.distribution.list_devices()) == 2 * processes
print(time.time())
