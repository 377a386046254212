"""Keras 3 on TensorFlow and tf_keras in reports: variables by expressions, models, results."""

import os
import subprocess
import sys

SEEN = """
import threading
import numpy as np, tensorflow as tf, tf_keras, keras
from nbdist.engine.frameworks import frameworks
from nbdist.engine.probe import activity as progress
from nbdist.engine.frameworks.keras.objects import unwrapped
from nbdist.engine.probe.observer import NamespaceLook as Look
from nbdist.engine.frameworks.tensorflow.observe import remember
from nbdist.engine.probe.walk import Bounds

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
remember(strategy)

def own(package):
    class Own(package.Model):
        def __init__(self):
            super().__init__()
            self.blocks = [package.layers.Dense(4), package.layers.Dense(4)]
            self.norm = package.layers.BatchNormalization()

        def call(self, x):
            for block in self.blocks:
                x = block(x)
            return self.norm(x)

    return Own()

names = {}
x, y = np.ones((8, 4), np.float32), np.ones((8, 3), np.float32)
look = Look(frameworks(), main_thread=threading.get_ident(), process_id=0, bounds=Bounds())
look.note(), look.hook()
for name, package in (("three", keras), ("two", tf_keras)):
    with strategy.scope():
        layers = [package.Input((4,)), package.layers.Dense(3, name="dense")]
        model = package.Sequential(layers)
        model.compile(package.optimizers.Adam(), "mse", jit_compile=False)
        other = own(package)
        other(x)
    result = model.fit(x, y, verbose=0, epochs=2, validation_data=(x, y)).history
    (newest,) = progress.newest()
    assert newest.what == "fit, epoch 2 of 2", newest
    assert {m.name: m.value for m in newest.metrics} == {k: v[-1] for k, v in result.items()}
    loss = model.evaluate(x, y, verbose=0)
    (newest,) = progress.newest()
    assert newest.what == "evaluate", newest
    assert abs(newest.metrics[0].value - loss) < 1e-6
    names |= {name: model, f"{name}_own": other}

seen = look.now(names)
arrays = {one.path: one for one in seen.arrays}
for path, one in arrays.items():
    variable = unwrapped(eval(path, dict(names)))
    assert isinstance(variable, tf.Variable), path
    assert one.shape == tuple(variable.shape), path
    assert one.sharding.kind == "named", path
for name, model in names.items():
    optimizer = list(model.optimizer.variables) if getattr(model, "optimizer", None) else []
    (described,) = [one for one in seen.models if one.path == name]
    variables = described.variables
    assert len(variables) == len(model.variables) + len(optimizer), name
    assert {one.array for one in variables} <= arrays.keys(), name
    groups = [one.group for one in variables]
    assert groups.count("trainable") == len(model.trainable_variables), name
    assert groups.count("optimizer") == len(optimizer), name
    (total,) = described.totals
    assert total.devices == ("0:0", "0:1")
    assert total.nbytes == sum(one.nbytes for one in variables)
assert {"three.layers[0].kernel", "two.layers[0].kernel"} <= arrays.keys()
assert {"three_own.layers[2].moving_mean", "two_own.layers[2].moving_mean"} <= arrays.keys()

keras.distribution.set_distribution(keras.distribution.DataParallel(devices=["cpu:0", "cpu:1"]))
look.note()
(of_keras,) = [one for one in look.now(names).distributions if one.noun == "distribution"]
assert (of_keras.kind, of_keras.mesh) == ("DataParallel", None)
assert "tensorflow back end" in of_keras.problem
look.unhook()
print("as it should be")
"""


def test_models_of_keras_and_tf_keras_their_variables_and_results_are_seen():
    environment = {**os.environ, "KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(
        [sys.executable, "-c", SEEN],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env=environment,
    )
    assert done.stdout.strip().endswith("as it should be"), done.stderr
