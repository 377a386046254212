"""More processes than the tour has, on one machine."""

from __future__ import annotations

import numpy as np
import pytest

import nbdist

SUM = """
import jax, numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P
n = jax.device_count()
mesh = jax.make_mesh((n,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
whole = np.arange(2 * n, dtype=np.float32)
x = jax.make_array_from_callback((2 * n,), NamedSharding(mesh, P("d")), lambda i: whole[i])
total = float(jax.jit(lambda x: x.sum())(x))
"""


@pytest.mark.parametrize("count", [8, 16, 24])
def test_many_processes_start_compute_and_stop(count: int) -> None:
    with nbdist.start(count, devices_per_process=2, platform="cpu") as session:
        session.run(SUM)
        assert session.pull("total") == sum(range(4 * count))
        np.testing.assert_array_equal(session.pull("x"), np.arange(4 * count))
        assert len(session.snapshot().devices) == 2 * count
