"""Eight CPU devices in the process that runs these tests."""

import os
from unittest import mock

import jax
import pytest

# Keras reads it when it is imported, and takes TensorFlow otherwise.
os.environ["KERAS_BACKEND"] = "jax"


@pytest.fixture(scope="session", autouse=True)
def devices():
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", 8)
    # JAX would warn, in this process and for good, of each fork; other tests open terminals.
    with mock.patch("os.register_at_fork"):
        assert len(jax.devices()) == 8


@pytest.fixture
def mesh():
    return jax.make_mesh((4, 2), ("data", "model"))
