"""Lines for a debugger: asked for in the output of the cell, given past the main thread that waits for them."""

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
    """A line of the cell that runs, by the notebook's number, and its text; None where that is not known."""

    cell: int
    line: int | None
    source: str | None


class Lines:
    """What one engine asks its kernel for; all but `put` is for the main thread.

    Args:
      publish: Shows a question in the output of the cell, behind all that was shown before; None ends it.
      where: Answers where the main thread stands; None where no cell runs.
      leaving: Answers whether an interrupt was raised just now.

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
        """A debugger reads commands in it; `what` says why, such as `at a breakpoint`.

        Raises:
          SessionError: Nobody can give it any.
        """
        self._stands()
        self.wanted, self._what = True, what
        try:
            yield
        finally:
            self.wanted = False
            # Also where an interrupt has ended it: nobody is to be asked any longer.
            self._publish(None)

    def ask(self, prompt: str) -> str:
        """Waits until somebody has typed a line.

        Raises:
          EOFError: They want no more.
          Interrupt: The cell was interrupted, and a command of the debugger has kept that to itself.
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
        """Takes the reply to a question, from one other thread; answers whether that is, or was, the one asked.

        Args:
          number: Of the question.
          reply: What a person has typed, if anybody has.
        """
        if number == self._asked and not self._came.is_set():
            self._reply, self._taken = reply, number
            self._came.set()
        return number == self._taken

    def _stands(self) -> Where:
        """Where the main thread does, which can be given a line there."""
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
    """An error that IPython shows without the frames of the debugger, which explain nothing."""
    error = SessionError(text)
    shown = [
        f"SessionError: {text}",
        f"   Cell In[{stands.cell}], line {stands.line}: {stands.source}",
    ]
    error._render_traceback_ = lambda: shown  # type: ignore[attr-defined]
    return error
