"""Reported texts of names: those of an ended process are compared with those of a living one."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from nbdist.contract.snapshot import Report
from nbdist.engine.probe.samples import OPEN, READ, digest_of

KEPT = 6
"""The number of last cells whose reports are kept."""


After = Mapping[int, Mapping[str, str]]
"""A text for each name, by the run of the cell after which it was taken."""


class Samples:
    """The samples of one process; see `nbdist.engine.probe.samples`.

    Attributes:
      after: The texts after each of the last cells.
    """

    def __init__(self) -> None:
        self.after: dict[int, Mapping[str, str]] = {}
        self._pid: int | None = None

    def take(self, report: Report) -> None:
        """Take in a report; a new process has none of the samples of the one before it."""
        if report.pid != self._pid:
            self._pid, self.after = report.pid, {}
        if report.samples is not None:
            self.after[report.samples.run] = report.samples.texts
            while len(self.after) > KEPT:
                del self.after[min(self.after)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """Names of a process that has ended, compared with those of another: as both were, and as the other's are now.

    Attributes:
      had: The ended process's texts of names that neither has changed since both were seen.
      same: Names of `had` for which the other has the same text.
      other: Names whose values differed.
      changed: Names whose values were equal before one of the two changed them.
    """

    had: Mapping[str, str]
    same: frozenset[str]
    other: frozenset[str] = frozenset()
    changed: frozenset[str] = frozenset()


def compared(ended: After, alive: After) -> Compared:
    """Compare what both had after the last cell after which both were seen.

    Args:
      ended: The samples of the process that has ended.
      alive: The samples of a living process, as they are now.
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
    """Return the names that differ between processes after a cell, and were equal or unset on all before it.

    Leaves out a name whose value is the number of its process.
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
    """Return whether texts of one name stand for different values; values that were not read do not count."""
    parts = [("", "", "") if text is None else text.partition(READ) for text in texts]
    return (
        (None in texts and len(texts) > 1)
        or len({text.removesuffix(OPEN) for text, _, _ in parts}) > 1
        or len({read for _, _, read in parts if read}) > 1
    )
