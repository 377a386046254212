"""Questions that processes answer past their main threads, also in the middle of a cell.

The agents of the processes pass the question on. Each process answers with a message of its own, which the
monitor reads: on two cores this takes half the time of a request to each of four processes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from nbdist.contract.asides import Aside
from nbdist.contract.iopub import AsideAnswer
from nbdist.contract.questions import LETTERS, Answer, Question, What
from nbdist.interrupts import put_off

T = TypeVar("T")

WITHIN_SECONDS = 1.0
"""A process answers within milliseconds, unless its interpreter is busy in one long call."""

LOOK_SECONDS = 0.1
"""How long an interrupt may take to end the wait."""


class Asking:
    """Asks processes, one question at a time; used from any thread.

    Args:
      send: Sends a question to processes: its letter, the process ids, and the question.
    """

    def __init__(self, send: Callable[[Aside, Sequence[int], Question], None]) -> None:
        self._send = send
        self._one = threading.Lock()
        self._came = threading.Condition()
        self._number = -1
        self._found: dict[int, Answer] = {}

    def ask(
        self,
        what: What,
        process_ids: Sequence[int],
        answer: type[T],
        *,
        within_s: float = WITHIN_SECONDS,
    ) -> dict[int, T]:
        """Return the answers of these processes, by process id, as far as they come in time.

        Args:
          what: The question.
          process_ids: The processes to ask.
          answer: The type of an answer; any other is left out.
          within_s: How long to wait for answers.
        """
        with self._one:
            deadline = time.monotonic() + within_s
            with put_off():
                with self._came:
                    number = self._number = time.time_ns()  # rises, whichever kernel asks
                    self._found = {}
                self._send(LETTERS[type(what)], process_ids, Question(number=number, what=what))
            while not self._all_here(process_ids, deadline - time.monotonic()):
                pass
            found = dict(self._found)
        return {p: one for p, one in found.items() if p in process_ids and isinstance(one, answer)}

    def _all_here(self, process_ids: Sequence[int], left_s: float) -> bool:
        """Return whether all have answered, or no time is left; otherwise wait for the next answer."""
        with put_off(), self._came:
            if left_s <= 0 or self._found.keys() >= set(process_ids):
                return True
            self._came.wait(min(left_s, LOOK_SECONDS))
            return False

    def put(self, answer: AsideAnswer) -> None:
        """Take an answer, from any thread; an answer to an older question is left out."""
        with self._came:
            if answer.number == self._number:
                self._found[answer.process_id] = answer.answer
                self._came.notify_all()
