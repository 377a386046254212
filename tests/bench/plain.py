"""The floor of a start: one plain Python process of a JAX cluster, to its first collective.

Run as `python plain.py PROCESS_ID PROCESSES PORT [HOST]`, port and host the coordinator's; prints when the
collective was done, in Unix seconds.
"""

import sys
import time

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

jax.config.update("jax_num_cpu_devices", 2)
process_id, processes, port = map(int, sys.argv[1:4])
host = sys.argv[4] if len(sys.argv) > 4 else "127.0.0.1"
jax.distributed.initialize(f"{host}:{port}", processes, process_id)
mesh = jax.make_mesh((2 * processes,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
ones = jax.make_array_from_callback(
    (2 * processes,), NamedSharding(mesh, PartitionSpec("data")), lambda index: np.ones(1)
)
total = jax.jit(lambda x: x.sum(), out_shardings=NamedSharding(mesh, PartitionSpec()))(ones)
assert float(total) == 2 * processes
print(time.time())
