"""Eight CPU devices in the process that runs these tests, in place of a pod's."""

from __future__ import annotations

from unittest import mock

import jax
import pytest


@pytest.fixture(scope="session", autouse=True)
def devices():
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", 8)
    # JAX would warn, in this process and for good, of each fork; other tests open terminals.
    with mock.patch("os.register_at_fork"):
        assert len(jax.devices()) == 8


@pytest.fixture(autouse=True)
def kept_folder(tmp_path, monkeypatch):
    """What a test compiles is not kept for the next."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "nbdist" / "programs"


@pytest.fixture
def mesh():
    return jax.make_mesh((4, 2), ("data", "model"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
