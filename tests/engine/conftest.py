"""Eight CPU devices in the process that runs these tests."""

import os
import threading
from unittest import mock

import jax
import pytest

from nbdist.engine.frameworks.jax.step.dispatched import hook_programs
from nbdist.engine.probe.observer import NamespaceLook

# Keras reads it when it is imported, and takes TensorFlow otherwise.
os.environ["KERAS_BACKEND"] = "jax"


@pytest.fixture(scope="session", autouse=True)
def devices():
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", 8)
    # JAX would warn, in this process and for good, of each fork; other tests open terminals.
    with mock.patch("os.register_at_fork"):
        assert len(jax.devices()) == 8


@pytest.fixture(autouse=True)
def looks_compute_nothing():
    """A program that the probe's thread sends takes the place of one of the user's on another process."""
    original = NamespaceLook.now

    def now(self, namespace):
        here, sent = threading.get_ident(), []

        def note(program, *_):
            if threading.get_ident() == here:
                sent.append(program)

        unhook = hook_programs(note, note)  # None where a test has no JAX
        try:
            return original(self, namespace)
        finally:
            if unhook is not None:
                unhook()
            assert sent == []

    with mock.patch.object(NamespaceLook, "now", now):
        yield


@pytest.fixture
def mesh():
    return jax.make_mesh((4, 2), ("data", "model"))
