"""Input lines for a debugger: asked for in the output of the cell, delivered past the main thread that waits."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from nbdist.contract.iopub import Prompt
from nbdist.contract.questions import EndOfInput, LineReply, NobodyAnswers, TypedLine
from nbdist.engine.cell.interrupts import Interrupt
from nbdist.errors import SessionError


class Where(NamedTuple):
    """A line of the running cell, by the notebook's number, and its text; None where that is not known."""

    cell: int
    line: int | None
    source: str | None


class Lines:
    """Questions of one engine to its kernel; all but `put` is for the main thread.

    Args:
      publish: Shows a question in the output of the cell, after all earlier output; None ends the question.
      where: Returns where the main thread stands; None where no cell runs.
      leaving: Returns whether an interrupt was raised just now.

    Attributes:
      reachable: Whether a line can arrive while the main thread is busy.
      wanted: Whether a debugger is in its loop of commands, so that `input()` is its question.
    """

    def __init__(
        self,
        publish: Callable[[Prompt | None], None],
        *,
        where: Callable[[], Where | None],
        leaving: Callable[[], bool],
    ) -> None:
        self.reachable = False
        self.wanted = False
        self._publish = publish
        self._where = where
        self._leaving = leaving
        self._what = ""
        self._asked: int | None = None
        self._taken: int | None = None
        self._reply: LineReply = EndOfInput()
        self._came = threading.Event()

    @contextlib.contextmanager
    def open(self, what: str) -> Iterator[None]:
        """Enter a debugger's loop of commands; `what` says why, such as `at a breakpoint`.

        Raises:
          SessionError: Nobody can give the debugger lines.
        """
        self._stands()
        self.wanted, self._what = True, what
        try:
            yield
        finally:
            self.wanted = False
            # Also where an interrupt has ended the loop: nobody is to be asked any longer.
            self._publish(None)

    def ask(self, prompt: str) -> str:
        """Wait until somebody has typed a line, and return it.

        Raises:
          EOFError: The person wants no more lines.
          Interrupt: The cell was interrupted, and a command of the debugger has caught the interrupt.
          SessionError: Nobody can answer.
        """
        stands = self._stands()
        if self._leaving():
            raise Interrupt
        self._came.clear()
        number = self._asked = time.time_ns()
        try:
            self._publish(
                Prompt(
                    number=number,
                    text=prompt,
                    what=self._what,
                    line=stands.line,
                    source=stands.source,
                )
            )
            self._came.wait()
        finally:
            self._asked = None
        match self._reply:
            case NobodyAnswers(why=why):
                raise _unanswered(
                    f"A debugger waits for input, and nobody can answer: {why}", stands
                )
            case EndOfInput():
                raise EOFError
            case TypedLine(text=text):
                return text

    def put(self, number: int, reply: LineReply) -> bool:
        """Take the reply to a question, from one other thread; return whether that question is, or was, asked."""
        if number == self._asked and not self._came.is_set():
            self._reply, self._taken = reply, number
            self._came.set()
        return number == self._taken

    def _stands(self) -> Where:
        """Return the main thread's position, where it can be given a line; raise where it cannot."""
        stands = self._where()
        if stands is None:
            raise SessionError(
                "A debugger was started outside of a cell, where nobody can answer it."
            )
        if threading.current_thread() is not threading.main_thread():
            raise _unanswered(
                f"A debugger was started in the thread {threading.current_thread().name}; only the main thread of "
                "a process can wait for lines.",
                stands,
            )
        if not self.reachable:
            raise _unanswered(
                "A debugger cannot be answered on this process: nbdist has not started it, and nothing reaches it "
                "while it runs a cell.",
                stands,
            )
        return stands


def _unanswered(text: str, stands: Where) -> SessionError:
    """Return an error that IPython shows without the debugger's frames, which explain nothing."""
    error = SessionError(text)
    shown = [
        f"SessionError: {text}",
        f"   Cell In[{stands.cell}], line {stands.line}: {stands.source}",
    ]
    error._render_traceback_ = lambda: shown  # type: ignore[attr-defined]
    return error
