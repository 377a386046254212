"""Code of cells that several tests run, and what they wait for."""

from __future__ import annotations

from pathlib import Path

SPREAD = """
import os, time
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P
me = jax.process_index()
mesh = jax.make_mesh((jax.device_count(),), ("x",))
def spread(host, *axes):
    # Each process for itself: `device_put` of the same would compare values in a collective.
    host = np.asarray(host)
    return jax.make_array_from_callback(host.shape, NamedSharding(mesh, P(*axes)), lambda part: host[part])
w = spread(np.ones(8, "float32"), "x")
"""
"""A mesh over all devices, an array on it, and a function that makes others."""

SUM = "processes 0, 1   8.0"
"""Text that two processes show of the sum of that array."""


def until(path: Path) -> str:
    """Lines that wait until the test makes a file."""
    return f"import os, time\nwhile not os.path.exists({str(path)!r}): time.sleep(0.02)\n"
