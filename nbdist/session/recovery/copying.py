"""Copies of arrays that processes keep for each other, and the rollback of lost arrays to these copies."""

from __future__ import annotations

import time
from collections.abc import Collection

from nbdist.contract.cells import Doubt
from nbdist.errors import NbdistError
from nbdist.notation import bytes_text
from nbdist.session.cells.doubt import root_name
from nbdist.session.engine_group import EngineGroup
from nbdist.session.recovery.consequences import RolledBack
from nbdist.session.values.copies import KeptCopies, go_back, make_copies
from nbdist.session.values.flow import Progress


class LiveProcesses:
    """The processes of a session as they are now: unlike `EngineGroup`, without ended ones that were replaced."""

    def __init__(self, engines: EngineGroup) -> None:
        self._engines = engines
        self.send = engines.send
        self.where = engines.where

    def gone(self, process_id: int) -> str | None:
        """Return how a process has ended; None while it, or its replacement, lives."""
        end = self._engines.cluster.exits.get(process_id)
        return None if end is None else str(end)


MOVE_SECONDS = 60.0
"""Seconds after which making or using copies is given up if nothing moves."""


def due(engines: EngineGroup) -> bool:
    """Return whether copies are to be made now, between two cells."""
    facts = engines.facts
    return (
        engines.copies.due
        and engines.proves
        and len(facts.workers) > 1
        and not facts.out_of_step
        and not facts.silent
        and facts.workers.isdisjoint({*facts.lost, *facts.stuck, *engines.cluster.exits})
    )


def make(engines: EngineGroup, cell: int) -> str | None:
    """Make copies; return why none were made, or None.

    Args:
      engines: The processes; none is in a cell, and all are in step.
      cell: The number of the last cell.
    """
    return _make(engines, cell, time.monotonic())


def make_after_repair(engines: EngineGroup, returned: RolledBack) -> str | None:
    """Make copies after a repair, so that new processes have some as well; return what `make` returns."""
    before, copies = engines.copies.kept, engines.copies
    if copies.every_s is None or len(engines.facts.workers) < 2:
        return None
    if before is not None and returned.paths:
        # These copies show the state that was just restored.
        return _make(engines, before.cell, before.at)
    return _make(engines, engines.facts.last_cell, time.monotonic())


def _make(engines: EngineGroup, cell: int, at: float) -> str | None:
    began = time.monotonic()
    try:
        copied = make_copies(
            LiveProcesses(engines),
            {p: engines.plan.hosts[p] for p in engines.facts.workers},
            number=engines.next_number(),
            in_step=engines.in_step_at,
            timeout_s=MOVE_SECONDS,
            progress=_until(engines),
        )
    except NbdistError as error:
        return f"no copies were made after this cell: {error}"
    finally:
        engines.copies.tried()
    engines.copies.kept = KeptCopies(
        copied=copied, cell=cell, at=at, seconds=time.monotonic() - began
    )
    return None


def roll_back(
    engines: EngineGroup,
    lost: Collection[str],
    *,
    new: Collection[int] = (),
    gone: Collection[int] = (),
) -> RolledBack:
    """Set lost arrays, and others that have changed since, back to the last copies.

    Args:
      engines: The processes; none is in a cell.
      lost: The paths of arrays that have no values any more.
      new: Processes that have replaced ended ones, and have joined the others.
      gone: Ended processes that were not replaced.

    Raises:
      NbdistError: A process has ended in the meantime, or did not answer.
    """
    kept = engines.copies.kept
    if kept is None or not lost:
        return RolledBack()
    found = go_back(
        LiveProcesses(engines),
        sorted(engines.facts.workers - {*new, *gone}),
        sorted(new),
        number=kept.copied.number,
        token=str(engines.next_number()),
        lost=lost,
        timeout_s=MOVE_SECONDS,
    )
    names = dict.fromkeys(_roots(found.newer), Doubt(kind="newer", of=kept.cell))
    if found.older:
        names |= dict.fromkeys(_roots(found.paths), Doubt(kind="older", of=kept.cell))
    return RolledBack(
        paths=frozenset(found.paths),
        older=found.older,
        newer=found.newer,
        names=names,
        age=kept.age,
        why_not=found.why_not,
    )


def _roots(leading: Collection[str]) -> list[str]:
    """Return the names with which texts begin: paths, and texts such as `average (through a cell)`."""
    return sorted(root for root in set(map(root_name, leading)) if root.isidentifier())


def _until(engines: EngineGroup) -> Progress:
    """Return a `Progress` that stops a round of copies after an interrupt."""

    def progress(done: int, total: int) -> None:
        if engines.hurry.is_set():
            raise NbdistError(f"interrupted, with {bytes_text(done)} of {bytes_text(total)} sent")

    return progress
