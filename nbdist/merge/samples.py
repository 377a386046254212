"""What processes have reported of their names: what one that has ended had is compared with what another has."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from nbdist.contract.snapshot import Report
from nbdist.engine.probe.samples import OPEN, READ, digest_of

KEPT = 6
"""Of so many cells is kept what was reported after them."""


After = Mapping[int, Mapping[str, str]]
"""A text for each name, by the run of the cell after which they were taken."""


class Samples:
    """Those of one process; see `nbdist.engine.probe.samples`.

    Attributes:
      after: Of the last cells.
    """

    def __init__(self) -> None:
        self.after: dict[int, Mapping[str, str]] = {}
        self._pid: int | None = None

    def take(self, report: Report) -> None:
        """Takes what a report says; a new process has nothing of the one before it."""
        if report.pid != self._pid:
            self._pid, self.after = report.pid, {}
        if report.samples is not None:
            self.after[report.samples.run] = report.samples.texts
            while len(self.after) > KEPT:
                del self.after[min(self.after)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """Names of a process that has ended, as another had them at the same time and has them now.

    Attributes:
      had: Its texts, of names that neither has changed since both were seen.
      same: Those of which the other has the same.
      other: Names of which they had not the same.
      changed: Names of which they had the same, before one of them has changed them.
    """

    had: Mapping[str, str]
    same: frozenset[str]
    other: frozenset[str] = frozenset()
    changed: frozenset[str] = frozenset()


def compared(ended: After, alive: After) -> Compared:
    """Compares what both had after the last cell after which both were seen.

    Args:
      ended: Of the process that has ended.
      alive: Of one that has lived on, as it is now.
    """
    both = max(ended.keys() & alive.keys(), default=None)
    if both is None:
        return Compared(had={}, same=frozenset())
    mine, its = ended[both], alive[both]
    last, now = ended[max(ended)], alive[max(alive)]
    still = {n for n in mine if last.get(n) == mine[n] and now.get(n) == its.get(n)}
    equal = {n for n, text in mine.items() if its.get(n) == text and not text.endswith(OPEN)}
    changed = {n for n in equal if _differ({last.get(n), mine[n]}) or _differ({now.get(n), its[n]})}
    return Compared(
        had={name: mine[name] for name in still},
        same=frozenset(equal & still),
        other=frozenset(n for n, text in mine.items() if n in now and _differ({its.get(n), text})),
        changed=frozenset(n for n in changed if n in now),
    )


def apart(reported: Mapping[int, After], run: int) -> tuple[str, ...]:
    """Names of which processes do not have the same after a cell, and had the same before or had none.

    A name that has the number of its process is none of them.

    Args:
      reported: By process.
      run: Of the cell.
    """
    now = {p: after[run] for p, after in reported.items() if run in after}
    if len(now) < len(reported):
        return ()
    every = [{n for n in after if n < run} for after in reported.values()]
    both = max(set.intersection(*every), default=None) if every else None
    then = [] if both is None else [after[both] for after in reported.values()]
    return tuple(
        name
        for name in sorted({name for one in now.values() for name in one})
        if _differ({one.get(name) for one in now.values()})
        and not _differ({one.get(name) for one in then})
        and any(one.get(name) != digest_of(p) for p, one in now.items())
    )


def _differ(texts: Collection[str | None]) -> bool:
    """Whether texts of one name are of different values; values that were not read say nothing."""
    parts = [("", "", "") if text is None else text.partition(READ) for text in texts]
    return (
        (None in texts and len(texts) > 1)
        or len({text.removesuffix(OPEN) for text, _, _ in parts}) > 1
        or len({read for _, _, read in parts if read}) > 1
    )
