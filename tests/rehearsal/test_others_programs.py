"""Programs of libraries that know nothing of rehearsals, unchanged."""

from __future__ import annotations

import pytest

from nbdist.rehearsing.asked import read_asked
from nbdist.rehearsing.process import RehearsalProcess
from tests.rehearsal.test_cells import START, Shown

FLAX = """
import optax
from flax import nnx

class Model(nnx.Module):
    def __init__(self, *, rngs):
        self.first = nnx.Linear(256, 1024, rngs=rngs)
        self.norm = nnx.BatchNorm(1024, rngs=rngs)
        self.drop = nnx.Dropout(0.1, rngs=rngs)
        self.second = nnx.Linear(1024, 256, rngs=rngs)

    def __call__(self, x):
        return self.second(self.drop(nnx.relu(self.norm(self.first(x)))))

model = Model(rngs=nnx.Rngs(0))
optimizer = nnx.Optimizer(model, optax.adamw(1e-3), wrt=nnx.Param)

@nnx.jit
def train_step(model, optimizer, x):
    loss, gradients = nnx.value_and_grad(lambda model: ((model(x) - x) ** 2).mean())(model)
    optimizer.update(model, gradients)
    return loss

nnx.update((model, optimizer), jax.device_put(nnx.state((model, optimizer)), NamedSharding(mesh, P())))
for _ in range(2):
    loss = train_step(model, optimizer, x)
print("after", loss.shape, model.first.kernel.shape)
"""

EQUINOX = """
import equinox as eqx, optax
model = eqx.filter_shard(eqx.nn.MLP(256, 256, 512, 3, key=jax.random.key(0)), NamedSharding(mesh, P()))
optimizer = optax.adam(1e-3)
state = optimizer.init(eqx.filter(model, eqx.is_array))

@eqx.filter_jit(donate="all-except-first")
def train_step(x, model, state):
    loss, gradients = eqx.filter_value_and_grad(lambda model: (jax.vmap(model)(x) ** 2).mean())(model)
    updates, state = optimizer.update(gradients, state, model)
    return eqx.apply_updates(model, updates), state, loss

for _ in range(2):
    model, state, loss = train_step(x, model, state)
print("after", loss.shape, model.layers[0].weight.shape)
"""

KERAS = """
import os
os.environ["KERAS_BACKEND"] = "jax"
import keras
devices = keras.distribution.list_devices()
keras.distribution.set_distribution(keras.distribution.DataParallel(devices=devices, auto_shard_dataset=False))
model = keras.Sequential([keras.layers.Input((64,)), keras.layers.Dense(128, "relu"), keras.layers.Dense(1)])
model.compile("adam", "mse")
model.fit(np.ones((256, 64), np.float32), np.ones((256, 1), np.float32), batch_size=128, verbose=0)
print("after", len(devices))
"""


@pytest.mark.parametrize(
    ("package", "code", "along", "programs"),
    [
        ("flax", FLAX, "data", 1),
        # The optimizer's first state lies on one device because nobody chose, and then on all: on a pod, too, JAX
        # compiles the second call anew.
        ("equinox", EQUINOX, "data", 2),
        ("keras", KERAS, "batch", 1),
    ],
)
def test_training_as_their_own_pages_write_it_is_compiled_for_the_pod(
    package, code, along, programs
):
    process = RehearsalProcess(read_asked("v5e:4x4", "data=4,model=4"))
    shown = Shown(process)
    try:
        shown.run(START)
        # Keras reads metrics; the others ask for no value.
        said = shown.run(code, value=1.0 if package == "keras" else None)
    finally:
        process.end()
    assert said.count("jit_train_step: fits") == programs
    assert f"along {along}: " in said
    assert "after" in said
