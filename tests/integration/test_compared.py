"""What the processes have sent is compared where the kernel waits for a cell, and proven where it does not."""

from __future__ import annotations

from typing import Any

import pytest

from nbdist import Session
from nbdist.contract.calls.stepping import AskSent

SETUP = """
import jax, numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
mesh = jax.make_mesh((jax.device_count(),), ("d",), axis_types=(AxisType.Auto,))
x = jax.make_array_from_callback((24,), NamedSharding(mesh, P("d")), lambda part: np.ones(24)[part])
total = jax.jit(lambda x: x.sum())
"""


def states(session: Session, name: str) -> set[Any]:
    engines = session._life.engines
    assert engines is not None
    return {getattr(engines.send(p, AskSent()).get(60)[0].sent, name) for p in session.hosts}


@pytest.fixture
def started(session: Session) -> Session:
    session.recover()  # counts from here on
    return session


def test_a_cell_that_is_waited_for_is_compared_and_the_next_counts_from_there(
    started: Session,
) -> None:
    (before,) = states(started, "proven")
    started.run("q = total(x)")
    assert states(started, "programs") == {1}
    assert states(started, "proven") == {before}
    started.run("pass")
    assert states(started, "programs") == {0}


def test_a_cell_in_the_background_is_proven(started: Session) -> None:
    (before,) = states(started, "proven")
    started.run("q = total(x)", wait=False).wait()
    (after,) = states(started, "proven")
    assert after is not None
    assert after != before
    assert states(started, "programs") == {0}
