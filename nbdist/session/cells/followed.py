"""Cells that are followed to their ends on their own threads, whether or not anybody waits for them.

These are cells in the background, and cells of an earlier kernel (`nbdist.session.cells.attached_cell`).
`Background` holds the followed cells of a session.
"""

from __future__ import annotations

import contextlib
import contextvars
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from IPython import get_ipython

from nbdist.errors import NbdistError, ProcessError, SessionError
from nbdist.interrupts import put_off
from nbdist.message_guard import MessageGuard
from nbdist.notation import names_text, processes_text
from nbdist.session.cells.cellrun import CellHandle, CellRun, error_text
from nbdist.session.cells.failure import ending_text
from nbdist.session.cells.outcome import ProcessOutcome
from nbdist.session.cells.prompts import Prompts
from nbdist.spelling import command
from nbdist.view.output import (
    Renderer,
    drops_later_output,
    renderer_elsewhere,
    show_end,
)

logger = logging.getLogger(__name__)

MOST_ENDED = 3
"""The newest cells, of which the output and the error are known once they are over."""

WAIT_SECONDS = 0.05
STEP_SECONDS = 0.5

MOST_FAILED_STEPS = 20
"""The most failed steps in succession, `STEP_SECONDS` apart; after one more, the cell is no longer followed."""


class FollowedRun(CellRun):
    """A cell that a thread follows; other threads may wait for it. Arguments as for `CellRun`.

    Attributes:
      when_over: Called once the cell is over, or no longer followed.
    """

    AWAITED = False

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._error: Exception | None = None
        self._over = threading.Event()
        self._left = threading.Event()
        self._draws = False
        self._dropped = False
        self.when_over: Callable[[], None] = lambda: None

    def follow(self, *, shown: bool) -> CellHandle:
        """Begin to follow; `shown` says whether output is drawn at once, or only once somebody waits."""
        self._draws = shown
        self._dropped = shown and drops_later_output(get_ipython())
        self._refresh()
        # With this context, output from the thread goes below this cell of the notebook.
        context = contextvars.copy_context()
        threading.Thread(
            target=context.run, args=(self._follow,), name="nbdist-followed", daemon=True
        ).start()
        return CellHandle(self)

    @property
    def started(self) -> float:
        """The Unix time at which the cell was sent."""
        return self._started

    @property
    def has_left(self) -> bool:
        """Whether every process has left the cell; its end may not have been handled yet."""
        return super().done

    @property
    def ending(self) -> bool:
        """Whether the cell's end has begun: it was interrupted, or a process has failed.

        A cell sent now would be aborted on some processes, or run during a repair.
        """
        if self._supervisor.watch.stopping:
            return True
        return any(
            s.outcome not in ("running", "finished") for s in self.execution.outcomes().values()
        )

    @property
    def done(self) -> bool:
        """Whether every process has left the cell, and it is known whether all are in step."""
        return self._over.is_set()

    @property
    def unseen(self) -> bool:
        """Whether the cell failed unseen: its front end dropped the error, and nobody waited for the cell."""
        return self._dropped and self.done and self._error is not None and not self.stopped

    @property
    def stopped(self) -> bool:
        """Whether somebody has ended the cell, and therefore knows that it failed."""
        first = (
            next(iter(self._error.failures), None)
            if isinstance(self._error, ProcessError)
            else None
        )
        return isinstance(first, ProcessOutcome) and first.outcome in ("interrupted", "not run")

    def take_error(self) -> Exception | None:
        """Return the error with which the cell ended, for the caller to raise; later calls return None."""
        error, self._error = self._error, None
        return error

    def _follow(self) -> None:
        guard = MessageGuard(f"A look at cell {self.cell.number}", logger, self.output.note)
        try:
            final = follow(self._supervisor.step_until, self._left, guard)
            if final is None:
                return
            self._error = self._finish(final)
            if self._draws and self._error is not None:
                show_end(self._renderer, self.output, error_text(self._error), raised=False)
            if self._draws:
                self._show_details(after_error=False)
        except Exception as error:  # noqa: BLE001 - raised by whoever waits
            self._error = error
        finally:
            # From here on only output of threads that the cell has left behind can arrive.
            self._over.set()
            self.when_over()

    def _stop_listening(self) -> None:
        """Stop receiving output of the cell."""

    def _answer_awaited(self) -> None:
        """Do nothing: `wait` and `watch` ask the person instead."""

    def _answer(self, prompts: Prompts) -> None:
        if not self._supervisor.watch.stopping:
            prompts.answer()

    def _refresh(self) -> None:
        if self._draws:
            super()._refresh()

    def _draw(self) -> None:
        if self._draws:
            super()._draw()

    def _note_end(self, outcomes: dict[int, ProcessOutcome]) -> None:
        seconds = time.time() - self._started
        self.output.note(ending_text(self.cell.number, outcomes, seconds))

    def leave(self) -> None:
        """Stop following the cell; it goes on."""
        self._left.set()
        self._stop_listening()

    def wait(self, timeout_s: float | None, *, show: bool = True) -> None:
        """Show the output until the cell ends, and raise its error; the notebook's interrupt interrupts the cell.

        Args:
          timeout_s: As in `CellHandle.wait`.
          show: Whether to show all output here as well if it is already drawn under the cell itself.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        here: Renderer | None = self._renderer
        if self._draws:
            here = renderer_elsewhere(get_ipython()) if show else None
        prompts = self._prompts if here is None else self._prompts_at(here)
        interrupted: KeyboardInterrupt | None = None
        while not self._over.is_set():
            try:
                with put_off():
                    self._over.wait(WAIT_SECONDS)
                    if here is not None:
                        here.refresh(self.output)
                    self._answer(prompts)
            except KeyboardInterrupt as interrupt:
                if interrupted is not None or self.context.leaves():
                    raise
                interrupted = interrupt
                with put_off():
                    self.interrupt()
            if deadline is not None and time.monotonic() > deadline:
                raise TimeoutError(f"cell {self.cell.number} still runs after {timeout_s:g} s.")
        if here is not None:
            here.refresh(self.output, final=True)
        error = self.take_error()
        if interrupted is not None:
            raise interrupted
        if error is not None:
            self._show_details(after_error=True)
            raise error

    def watch(self) -> None:
        """Show all output until the cell ends, and answer the prompts of its processes.

        An interrupt of the notebook ends only this call.
        """
        here = renderer_elsewhere(get_ipython()) or self._renderer
        prompts = self._prompts_at(here)
        try:
            while not self._over.is_set():
                with put_off():
                    self._over.wait(WAIT_SECONDS)
                    here.refresh(self.output)
                    self._answer(prompts)
        except KeyboardInterrupt:
            self.output.note("no longer followed here; the cell goes on")
        here.refresh(self.output, final=True)


def follow(
    step_until: Callable[[float], dict[int, ProcessOutcome] | None],
    left: threading.Event,
    guard: MessageGuard,
) -> dict[int, ProcessOutcome] | None:
    """Step until a cell has ended, even if a step fails; return None once `left` is set.

    Args:
      step_until: Returns the final outcomes, or None at the given deadline (monotonic clock).
      left: Set when the cell is no longer to be followed.
      guard: Guards each step.

    Raises:
      Exception: The error of a step after `MOST_FAILED_STEPS` failed ones in succession.
    """
    failed = 0
    while not left.is_set():
        before = guard.failures
        with guard if failed < MOST_FAILED_STEPS else contextlib.nullcontext():
            final = step_until(time.monotonic() + STEP_SECONDS)
            if final is not None:
                return final
        failed = failed + 1 if guard.failures > before else 0
        if failed:
            left.wait(STEP_SECONDS)
    return None


class Background:
    """The followed cells of one session, in the order in which they were sent."""

    def __init__(self, runs: Iterable[FollowedRun] = ()) -> None:
        self._runs = list(runs)
        self._newest = deque(self._runs, maxlen=MOST_ENDED)

    @property
    def runs(self) -> tuple[FollowedRun, ...]:
        """The cells that are not over."""
        self._runs = [run for run in self._runs if not run.done or run.unseen]
        return tuple(run for run in self._runs if not run.done)

    def add(self, run: FollowedRun) -> None:
        """Add a cell that has just been sent."""
        self._runs = [*self._runs, run]
        self._newest.append(run)

    def unseen(self) -> tuple[FollowedRun, ...]:
        """Return the cells whose failure nobody has seen."""
        return tuple(run for run in self._runs if run.unseen)

    def refuse_unseen(self) -> None:
        """Raise if a cell has failed and nobody has seen its error.

        Raises:
          ProcessError: A cell has failed, and its front end dropped the error.
        """
        for failed in self.unseen():
            error = failed.take_error()
            if error is None:
                continue
            known = error if isinstance(error, NbdistError) else NbdistError(error_text(error))
            why = f"This cell was not run, because cell {failed.cell.number} has failed in the background"
            above = getattr(error, "above", "")
            raise ProcessError(
                replace(known.notice, title=f"{why}: {known.notice.title}"),
                getattr(error, "failures", ()),
                above,
                f"{why}." if above else "",
            )

    def inside(self) -> dict[FollowedRun, tuple[int, ...]]:
        """Return the cells that some processes are still in, each with these processes.

        A cell that has ended on all processes is left out, though its last output may not be shown yet.
        """
        inside = {run: run.execution.still_in() for run in self.runs}
        return {run: processes for run, processes in inside.items() if processes}

    def busy(self) -> dict[int, int]:
        """Return the number of the last cell that each busy process still has to run, by process id."""
        return {p: run.cell.number for run in self.runs for p in run.execution.still_in()}

    def at_prompt(self, process_ids: Iterable[int]) -> FollowedRun | None:
        """Return the cell in which one of these processes waits at a debugger's prompt; None if none does."""
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

    def newest(self, number: int) -> FollowedRun:
        """Return the cell of this number, even if it is over and one of the newest.

        Raises:
          SessionError: No cell of this number runs, or is one of the newest.
        """
        ended = (run for run in reversed(self._newest) if run.done and run.cell.number == number)
        return next((run for run in self.runs if run.cell.number == number), None) or (
            next(ended, None) or self.find(number)
        )

    def interrupt(self) -> dict[int, tuple[int, ...]]:
        """Interrupt all cells; return the processes that were in each, by the cell's number.

        The last cell is interrupted first, so that a waiting cell is taken back before the cell ahead of it ends.
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
    """Return `queued behind cell 83 (process 0)`; None if nothing is ahead.

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
      steps: How many steps have begun on each process that has answered; None if the cell does not run there.
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
