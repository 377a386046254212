"""The cells that are followed on threads: those that nobody waits for, and those of a kernel before this one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from nbdist.errors import SessionError
from nbdist.quantities import names_text, processes_text
from nbdist.run.followed import FollowedRun


class Background:
    """The followed cells of one session, in the order in which they were sent."""

    def __init__(self, runs: Iterable[FollowedRun] = ()) -> None:
        self._runs = list(runs)

    @property
    def runs(self) -> tuple[FollowedRun, ...]:
        """Those that are not over."""
        self._runs = [run for run in self._runs if not run.done]
        return tuple(self._runs)

    def add(self, run: FollowedRun) -> None:
        """One that has just been sent."""
        self._runs = [*self.runs, run]

    def busy(self) -> dict[int, int]:
        """The number of the last cell that each busy process is to run, by process id."""
        return {p: run.cell.number for run in self.runs for p in run.execution.still_in()}

    def find(self, number: int) -> FollowedRun:
        """The cell of this number.

        Raises:
          SessionError: None runs.
        """
        runs = self.runs
        for run in reversed(runs):
            if run.cell.number == number:
                return run
        there = names_text(str(run.cell.number) for run in runs) if runs else "none"
        raise SessionError(f"No cell {number} runs in the background; those that do: {there}.")

    def interrupt(self) -> dict[int, tuple[int, ...]]:
        """Interrupts all of them; the processes that were in each, by its number."""
        stopped = {}
        for run in self.runs:
            stopped[run.cell.number] = run.execution.still_in()
            run.interrupt()
        return stopped

    def leave(self) -> None:
        """Follows them no longer; they go on."""
        for run in self.runs:
            run.leave()


def queued_text(ahead: Mapping[int, int]) -> str | None:
    """`queued behind cell 83 (process 0)`; None where nothing is ahead.

    Args:
      ahead: The number of the cell that each busy process runs first, by process id.
    """
    cells: dict[int, list[int]] = {}
    for process_id, number in sorted(ahead.items()):
        cells.setdefault(number, []).append(process_id)
    if not cells:
        return None
    behind = ", ".join(f"cell {number} ({processes_text(ids)})" for number, ids in cells.items())
    return f"queued behind {behind}"
