"""The stacks of processes as text."""

from __future__ import annotations

from nbdist.cells.stacks import native_text, stacks_text
from nbdist.cells.target_selector import Targets
from nbdist.session.engine_group import EngineGroup


def stacks(engines: EngineGroup, on: Targets, *, native: bool) -> str:
    """Return the stacks of processes, also while they run a cell; see `nbdist.session.session.Session.stacks`."""
    asked = engines.choice.there(on)
    if native:
        read = engines.asides.native_stacks(asked)
        return native_text(read, [p for p in asked if p not in read])
    found = engines.asides.stacks(asked)
    return stacks_text(found, [p for p in asked if p not in found], whole=on is not None)
