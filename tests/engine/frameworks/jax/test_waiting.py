"""JAX's own collectives between processes wait where an interrupt ends it; without the private name as shipped."""

from __future__ import annotations

import numpy as np
import pytest
from jax.experimental import multihost_utils

from nbdist.engine.frameworks.jax import start


class Sent:
    """An array that others have sent once somebody has waited for it."""

    ready = False

    def block_until_ready(self) -> None:
        self.ready = True

    def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
        assert self.ready, "waits where no interrupt arrives"
        return np.arange(3)


@pytest.fixture(autouse=True)
def as_shipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multihost_utils, "np", np)


def test_arrays_are_waited_for_before_numpy_converts_them() -> None:
    assert start.place()
    assert multihost_utils.np.asarray(Sent()).tolist() == [0, 1, 2]
    assert multihost_utils.np.asarray([1, 2], dtype="float32").dtype == "float32"
    assert multihost_utils.np.uint32 is np.uint32


def test_what_is_gathered_stays_the_same() -> None:
    before = multihost_utils.process_allgather(np.ones((2, 3)))
    assert start.place()
    assert (multihost_utils.process_allgather(np.ones((2, 3))) == before).all()
    multihost_utils.sync_global_devices("here")


def test_a_second_call_changes_nothing() -> None:
    assert start.place()
    first = multihost_utils.np
    assert start.place()
    assert multihost_utils.np is first
