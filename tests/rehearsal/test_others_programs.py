"""Programs that nobody here has written, from packages on PyPI, unchanged.

| program | package, version, licence | what is its own |
|---|---|---|
| a mixture of experts in Flax | nano-moe-jax 0.1.0, MIT | model, state, optimizer, and `train_step` |
| a U-Net in Equinox | pdequinox 0.1.2, MIT | all: the first block of code of its description on PyPI |
| MobileNetV2 in Keras | keras 3.15, Apache 2.0 | model (`keras.applications`), optimizer, and `fit` |

None of their code is copied here: it is imported, or read from the installed package. What is written here is what
a user would: sizes, inputs, and how these lie on the mesh. Of the U-Net's 100 epochs two are run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.metadata import metadata

import pytest

from tests.rehearsal.test_cells import START, Shown

pytestmark = pytest.mark.timeout(3600)  # for the compiler, on a machine with other work

FLAX = """
from nano_moe.config import NanoMoEConfig
from nano_moe.train import create_train_state, train_step
config = NanoMoEConfig(n_layers=1)
state = jax.device_put(create_train_state(jax.random.key(0), config), NamedSharding(mesh, P()))
tokens = jax.device_put(np.zeros((32, config.block_size), np.int32), NamedSharding(mesh, P("data")))
for _ in range(2):
    state, metrics = train_step(state, tokens, tokens, config)
numbers = sum(one.size for one in jax.tree.leaves(state.params))
moved = sum(each.bytes * each.times for each in pod.programs[-1].collectives)
print("after", metrics["loss"].shape, numbers, config.n_experts, moved)
"""

LAID_OUT = """
unet, opt_state = eqx.filter_shard((unet, opt_state), NamedSharding(mesh, P()))
rows = jax.device_put(np.zeros((32, *force_fields.shape[1:]), np.float32), NamedSharding(mesh, P("data")))
for _ in range(2):
    unet, opt_state, loss = update_fn(unet, opt_state, rows, rows)
print("after", loss.shape)
"""

KERAS = """
import os
os.environ["KERAS_BACKEND"] = "jax"
import keras
devices = keras.distribution.list_devices()
keras.distribution.set_distribution(keras.distribution.DataParallel(devices=devices, auto_shard_dataset=False))
model = keras.applications.MobileNetV2(input_shape=(32, 32, 3), alpha=0.35, weights=None, classes=10)
model.compile("adam", "sparse_categorical_crossentropy")
model.fit(np.ones((64, 32, 32, 3), np.float32), np.ones(64, np.int32), batch_size=32, verbose=0)
print("after", len(devices))
"""


@pytest.fixture
def shown() -> Iterator[Shown]:
    found = Shown()
    found.run(START)
    yield found
    found.process.end()


def first_program(package: str) -> str:
    """The first block of code in a package's description."""
    found = metadata(package)
    text = found["Description"] or found.get_payload()
    block = re.search(r"```python\n(.+?)```", text, re.DOTALL)
    assert block is not None
    return block[1]


def test_a_mixture_of_experts_in_flax(shown):
    said = shown.run(FLAX)
    assert said.count("jit_train_step: fits") == 1
    assert "along data: " in said and "along model: " not in said
    # Added up once, in 4 bytes each: all gradients, the loss, and of each expert its tokens and its probability.
    numbers, experts, moved = map(int, re.search(r"after \(\) (\d+) (\d+) (\d+)", said).groups())
    assert moved == 4 * (numbers + 1 + 2 * experts)
    assert "pod.py" not in said


def test_a_u_net_in_equinox_from_its_own_page(shown):
    program = first_program("pdequinox")
    assert program.count("range(100)") == 1
    said = shown.run(program.replace("range(100)", "range(2)"))
    # Nobody has laid anything out: all of it is on one device, and compiled once.
    assert said.count("jit_update_fn: fits") == 1
    assert "Its devices exchange nothing." in said
    said = shown.run(LAID_OUT)
    assert said.count("jit_update_fn: fits") == 1
    assert "all-reduce" in said and "along data: " in said
    assert said.rstrip().endswith("after ()")
    assert "pod.py" not in said


def test_mobilenet_in_keras(shown):
    # Keras reads metrics.
    said = shown.run(KERAS, value=1.0)
    assert said.count("jit_train_step: fits") == 1
    assert "along batch: " in said
    assert said.rstrip().endswith("after 16")
    assert "pod.py" not in said
