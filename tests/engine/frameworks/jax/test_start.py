"""What a cell cannot take from its process."""

import sys
import types

import pytest

from nbdist.engine.frameworks.jax.start import refuse_clearing
from nbdist.errors import SessionError


def test_back_ends_are_cleared_between_cells_only(monkeypatch):
    cleared, cells = [], [True]
    bridge = types.SimpleNamespace(_clear_backends=lambda: cleared.append(1))
    monkeypatch.setitem(sys.modules, "jax._src.xla_bridge", bridge)
    refuse_clearing(lambda: cells[0])
    with pytest.raises(SessionError, match="Nothing was cleared"):
        bridge._clear_backends()
    assert not cleared
    cells[0] = False
    bridge._clear_backends()
    assert cleared
