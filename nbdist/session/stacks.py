"""What processes are in the middle of, as text."""

from __future__ import annotations

from nbdist.cells.stacks import native_text, stacks_text
from nbdist.cells.target_selector import Targets
from nbdist.session.engine_group import EngineGroup


def stacks(engines: EngineGroup, on: Targets, *, native: bool) -> str:
    """The stacks of processes, also while they run a cell; see `nbdist.session.session.Session.stacks`."""
    asked = engines.choice.there(on)
    found = engines.asides.stacks(asked, native=native)
    missing = [p for p in asked if p not in found]
    if native:
        return native_text({p: answer["native"] for p, answer in found.items()}, missing)
    threads = {p: answer["threads"] for p, answer in found.items()}
    return stacks_text(threads, missing, whole=on is not None)
