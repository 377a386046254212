"""The cells that are followed on threads: those that nobody waits for, and those of an earlier kernel."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from nbdist.cells.followed import FollowedRun
from nbdist.errors import ProcessError, SessionError
from nbdist.quantities import names_text, processes_text
from nbdist.spelling import command


class Background:
    """The followed cells of one session, in the order in which they were sent."""

    def __init__(self, runs: Iterable[FollowedRun] = ()) -> None:
        self._runs = list(runs)

    @property
    def runs(self) -> tuple[FollowedRun, ...]:
        """Return the cells that are not over."""
        self._runs = [run for run in self._runs if not run.done or run.unseen]
        return tuple(run for run in self._runs if not run.done)

    def add(self, run: FollowedRun) -> None:
        """Add a cell that has just been sent."""
        self._runs = [*self._runs, run]

    def unseen(self) -> tuple[FollowedRun, ...]:
        """Return the cells whose failure nobody has seen."""
        return tuple(run for run in self._runs if run.unseen)

    def refuse_unseen(self) -> None:
        """Raise if a cell has failed and nobody has seen how.

        Raises:
          ProcessError: A cell has failed, and its front end has dropped the error.
        """
        for failed in self.unseen():
            error = failed.error()
            if error is None:
                continue
            text = f"cell {failed.cell.number} failed in the background, and this cell was not run: {error}"
            said = f"{type(error).__name__}: {error}"
            body = getattr(error, "shown", "").removesuffix(said)
            raise ProcessError(text, getattr(error, "failures", ()), f"{body}ProcessError: {text}")

    def inside(self) -> dict[FollowedRun, tuple[int, ...]]:
        """Return the cells that some processes are still in, each with these processes.

        A cell that has ended on all processes is left out, though its last output may not be shown yet.
        """
        inside = {run: run.execution.still_in() for run in self.runs}
        return {run: processes for run, processes in inside.items() if processes}

    def busy(self) -> dict[int, int]:
        """Return the number of the last cell that each busy process is to run, by process id."""
        return {p: run.cell.number for run in self.runs for p in run.execution.still_in()}

    def at_prompt(self, process_ids: Iterable[int]) -> FollowedRun | None:
        """Return the cell in which one of these processes waits at a debugger's prompt; None where none does."""
        asked = frozenset(process_ids)
        found = (run for run in self.runs if not asked.isdisjoint(run.execution.prompts()))
        return next(found, None)

    def find(self, number: int) -> FollowedRun:
        """Return the cell of this number.

        Raises:
          SessionError: No cell of this number runs.
        """
        runs = self.runs
        for run in reversed(runs):
            if run.cell.number == number:
                return run
        there = names_text(str(run.cell.number) for run in runs) if runs else "none"
        raise SessionError(f"No cell {number} runs in the background; those that do: {there}.")

    def interrupt(self) -> dict[int, tuple[int, ...]]:
        """Interrupt all cells; return the processes that were in each, by the cell's number.

        The last cell goes first: a waiting cell is taken back before the cell ahead of it ends and lets it begin.
        """
        inside = self.inside()
        for run in reversed(inside):
            run.interrupt()
        return {run.cell.number: processes for run, processes in inside.items()}

    def leave(self) -> None:
        """Stop following the cells; they go on."""
        for run in self.runs:
            run.leave()


def queued_text(ahead: Mapping[int, int]) -> str | None:
    """Return `queued behind cell 83 (process 0)`; None where nothing is ahead.

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


def stopping_text(number: int, inside: Sequence[int], steps: Mapping[int, int | None]) -> str:
    """Return a sentence that says what becomes of a request to stop a cell at a step.

    Args:
      number: The cell's number.
      inside: The processes in the cell.
      steps: How many steps have begun on each process that has answered; None where the cell does not run.
    """
    cell = f"cell {number}"
    silent = [p for p in inside if p not in steps]
    waiting = [p for p in inside if p in steps and steps[p] is None]
    if silent:
        return (
            f"{cell}: {processes_text(silent)} did not answer; {command('interrupt')} interrupts it"
        )
    if waiting:
        return (
            f"{cell} has not started on {processes_text(waiting)}; "
            f"{command('interrupt_cell', number)} cancels it"
        )
    if not any(steps.values()):
        return (
            f"{cell} stops at its first step, but has started none: it needs nbdist.checkpoint() in its loop, "
            "or Keras' fit"
        )
    return f"{cell} stops before the same step on {processes_text(inside)}"
