"""What processes have reported of their names: what one that has ended had is compared with what another has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nbdist.contract.snapshot import Report

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
        self._newest: Mapping[str, str] | None = None
        self._pid: int | None = None

    def take(self, report: Report) -> None:
        """Takes what a report says; a new process has nothing of the one before it."""
        if report.pid != self._pid:
            self._pid, self._newest, self.after = report.pid, None, {}
        if report.samples is not None:
            self._newest = report.samples
        if report.content_run is not None and self._newest is not None:
            self.after[report.content_run] = self._newest
            while len(self.after) > KEPT:
                del self.after[min(self.after)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """Names of which is known what a process that has ended had, as another had it then and has it now.

    Attributes:
      had: What it had, by name.
      same: Names of which the other has the same.
    """

    had: Mapping[str, str]
    same: frozenset[str]

    @property
    def other(self) -> frozenset[str]:
        """Names of which the other has something else."""
        return frozenset(self.had) - self.same


def compared(ended: After, alive: After) -> Compared:
    """Compares what both had after the same cell, and the one that lives has still.

    Args:
      ended: Of the process that has ended.
      alive: Of one that has lived on, as it is now.
    """
    newest = max(ended, default=None)
    if newest is None or newest not in alive:
        return Compared(had={}, same=frozenset())
    then, now = alive[newest], alive[max(alive)]
    unchanged = {name: text for name, text in now.items() if then.get(name) == text}
    had = {name: text for name, text in ended[newest].items() if name in unchanged}
    return Compared(had=had, same=frozenset(n for n, text in had.items() if now[n] == text))
