"""The cells that were asked for here, beyond the call that asked.

A thread sends each cell, since a cell waits in line while another kernel computes. A caller waits as long as it
may, and finds the cell again by its number. A cell that has been sent goes on when its caller goes, and the next
kernel follows it, as after the end of any kernel; one that still waits in line is never sent.
"""

from __future__ import annotations

import contextvars
import threading
import time

from nbdist.errors import NbdistError, SessionError
from nbdist.notation import seconds_text
from nbdist.session.cells.cellrun import CellHandle
from nbdist.session.cells.failure import outcome_text
from nbdist.session.cells.history import ListedCell
from nbdist.session.cells.outcome import outcome_of_cell
from nbdist.session.session import Session
from nbdist.tools.answers import (
    MOST_PROCESSES,
    Cell,
    CellState,
    CellStateName,
    bounded,
    cell_processes,
    failure_of,
)
from nbdist.tools.arguments import OfRunCell
from nbdist.tools.participant import Say
from nbdist.view.output import CellOutput, blocks_text

LOOK_SECONDS = 0.02
"""How often to look whether a cell has ended."""

MOST_ENDED = 20
"""How many cells are known after they have ended, the newest ones."""


class Unseen:
    """A renderer that shows nothing: the output is read from the cell."""

    def refresh(self, output: CellOutput, *, final: bool = False) -> None:
        """Show nothing."""


class AskedCell:
    """One cell, from the moment it is asked for.

    Args:
      number: Its number.
      session: The session.
      handle: Its handle, if it has been sent before.
    """

    def __init__(self, number: int, session: Session, handle: CellHandle | None = None) -> None:
        self.number = number
        self._session = session
        self._handle = handle
        self._refused: Exception | None = None
        self._error: Exception | None = None
        self._began = time.monotonic() - (0.0 if handle is None else self._seconds_so_far())
        self._ended: float | None = None
        self._lock = threading.Lock()

    def send(self, asked: OfRunCell) -> None:
        """Send the cell from a thread, as soon as it is its turn."""
        context = contextvars.copy_context()
        threading.Thread(
            target=context.run, args=(self._send, asked), name="nbdist-asked-cell", daemon=True
        ).start()

    def _send(self, asked: OfRunCell) -> None:
        try:
            self._handle = self._session.run(
                asked.code,
                on=asked.on or None,
                timeout_s=asked.timeout_s,
                wait=False,
                cell=self.number,
                renderer=Unseen(),
            )
        except Exception as error:  # noqa: BLE001 - told to whoever asks for the cell
            self._refused = error

    @property
    def over(self) -> bool:
        """Whether the cell has ended, or will never be sent."""
        if self._refused is not None:
            return True
        handle = self._handle
        if handle is None or not handle.done:
            return False
        with self._lock:
            if self._ended is None:
                self._error = _error_of(handle)
                self._ended = time.monotonic()
        return True

    def wait(self, seconds: float | None, say: Say, *, ended: bool) -> None:
        """Wait until the cell is over; an interrupt interrupts the cell, a second one ends only the wait.

        Args:
          seconds: The longest wait; None: without a limit.
          ended: Whether to wait for its end; otherwise only until it has been sent.
          say: Called with what the cell is queued behind, once.

        Raises:
          KeyboardInterrupt: The second interrupt, or one before the cell was sent.
        """
        until = None if seconds is None else time.monotonic() + seconds
        said = interrupted = False
        while not self.over and (until is None or time.monotonic() < until):
            if not ended and self._handle is not None:
                return
            try:
                if not said and (behind := self._queued()):
                    said = True
                    say(behind)
                time.sleep(LOOK_SECONDS)
            except KeyboardInterrupt:
                if interrupted or self._handle is None:
                    raise
                interrupted = True
                self.interrupt()

    def interrupt(self) -> str:
        """Interrupt the cell; return one line that says so.

        Raises:
          SessionError: It has not been sent.
        """
        if self.over:
            return f"cell {self.number} has ended"
        if self._handle is None:
            raise SessionError(
                f"Cell {self.number} is {self._queued() or 'about to be sent'}: nothing of it runs. A cell with "
                "timeout_s waits in line no longer than that."
            )
        return self._session.interrupt(self.number)

    def state(self) -> CellState:
        """Return its state."""
        name, says = self._state()
        return CellState(cell=self.number, state=name, says=says)

    def facts(self, most_characters: int) -> Cell:
        """Return all that is known of it, with at most so many characters of its output."""
        state, says = self._state()
        handle, error = self._handle, self._refused or self._error
        processes = cell_processes(handle.outcomes.values()) if handle else ()
        text = blocks_text(handle.blocks()) if handle else ""
        output, left_out = bounded(text, most_characters)
        return Cell(
            cell=self.number,
            state=state,
            says=says,
            seconds=round((self._ended or time.monotonic()) - self._began, 3),
            processes=processes[:MOST_PROCESSES],
            processes_left_out=len(processes[MOST_PROCESSES:]),
            output=output,
            characters_left_out=left_out,
            error=None if error is None else failure_of(error),
        )

    def _state(self) -> tuple[CellStateName, str]:
        cell = f"cell {self.number}"
        if self.over:
            if self._refused is not None:
                return "not sent", f"{cell} was not sent"
            assert self._handle is not None
            outcomes = self._handle.outcomes
            says = f"{cell}: {outcome_text(outcomes)}"
            if self._error is None:
                return "finished", says
            stopped = outcome_of_cell(outcomes.values()) in ("interrupted", "not run")
            return "interrupted" if stopped else "failed", says
        more = "follow_cell follows it, interrupt_cell interrupts it"
        if self._handle is None:
            behind = self._queued()
            return "queued", f"{cell}: {behind or 'about to be sent'}; follow_cell follows it"
        return "running", f"{cell}: {self._listed() or 'running'}; {more}"

    def _queued(self) -> str | None:
        """Return what the cell is queued behind; None if it has been sent or is about to be."""
        if self._handle is not None or time.monotonic() - self._began < QUEUED_SECONDS:
            return None
        listed = self._listed()
        return listed if listed and listed.startswith("queued") else None

    def _listed(self) -> str | None:
        return next((one.state for one in self._rows()), None)

    def _seconds_so_far(self) -> float:
        return next((one.seconds for one in self._rows()), 0.0)

    def _rows(self) -> list[ListedCell]:
        """Return the rows of the session's list that have this number, the newest first."""
        return [one for one in reversed(self._session.cells()) if one.number == self.number]


QUEUED_SECONDS = 0.3
"""Seconds after which a cell that has not been sent counts as queued."""


def _error_of(handle: CellHandle) -> Exception | None:
    try:
        handle.wait()
    except Exception as error:  # noqa: BLE001 - told to whoever asks for the cell; raised only once
        return error
    return None


class AskedCells:
    """The cells that were asked for in one session, and those of ended kernels that still run there."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._cells: dict[int, AskedCell] = {}
        self._lock = threading.Lock()

    def ask(self, asked: OfRunCell) -> AskedCell:
        """Send a cell, or put it in line; return it at once."""
        with self._lock:
            self._forget()
            cell = AskedCell(self._next_number(), self._session)
            self._cells[cell.number] = cell
        cell.send(asked)
        return cell

    def of(self, number: int) -> AskedCell:
        """Return the cell of this number.

        Raises:
          SessionError: No such cell was asked for here, or is left of an ended kernel; or too many ended since.
        """
        with self._lock:
            if number not in self._cells:
                self._cells[number] = AskedCell(number, self._session, self._handle(number))
            return self._cells[number]

    def _handle(self, number: int) -> CellHandle:
        """Return the handle of a cell of an ended kernel."""
        try:
            return self._session.cell(number)
        except NbdistError as error:
            past = (cell for cell in reversed(self._session.history) if cell.number == number)
            if (ended := next(past, None)) is not None:
                raise SessionError(
                    f"Cell {number} ended after {seconds_text(ended.seconds)}: {ended.outcome}. Another kernel "
                    "followed it to its end; its output is not known here."
                ) from error
            known = ", ".join(map(str, self._cells)) or "none"
            raise SessionError(
                f"No cell {number} was asked for here; those that were: {known}. status shows what the processes "
                "run."
            ) from error

    def states(self) -> tuple[CellState, ...]:
        """Return the state of each cell."""
        with self._lock:
            cells = tuple(self._cells.values())
        return tuple(cell.state() for cell in cells)

    def _next_number(self) -> int:
        """Return a number that no cell has, as far as is known; a notebook counts its cells for itself."""
        listed = (one.number for one in self._session.cells())
        running = (one.cell or 0 for one in self._session.snapshot().processes)
        return 1 + max((*listed, *running, *self._cells), default=0)

    def _forget(self) -> None:
        ended = [number for number, cell in self._cells.items() if cell.over]
        for number in ended[: max(0, len(ended) - MOST_ENDED + 1)]:
            del self._cells[number]
