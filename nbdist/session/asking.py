"""Questions that processes answer past their main threads, also in the middle of a cell.

The agents of the processes pass the question on, and each process answers with a message of its own, which the
monitor reads: on two cores that takes half of the time of a request to each of four processes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nbdist.contract.asides import Aside

WITHIN_SECONDS = 1.0
"""A process answers within milliseconds, where its interpreter is not busy in one long call."""

Answers = dict[int, dict[str, Any]]
"""By process id."""


class Asking:
    """Asks processes, one question at a time; used from any thread.

    Args:
      send: Has the question sent to processes: what it is, to whom, and its number with what goes with it.
    """

    def __init__(self, send: Callable[[Aside, Sequence[int], Mapping[str, Any]], None]) -> None:
        self._send = send
        self._one = threading.Lock()
        self._came = threading.Condition()
        self._number = -1
        self._found: Answers = {}

    def ask(
        self,
        what: Aside,
        process_ids: Sequence[int],
        *,
        within_s: float = WITHIN_SECONDS,
        **question: Any,
    ) -> Answers:
        """What these processes answer; only those that do in time.

        Args:
          what: The question.
          process_ids: Whom to ask.
          within_s: How long is waited for answers.
          **question: What goes with it; see `nbdist.contract.asides.QUESTION`.
        """
        with self._one:
            deadline = time.monotonic() + within_s
            with self._came:
                number = self._number = time.time_ns()  # rises, whichever kernel asks
                self._found = {}
            self._send(what, process_ids, {"number": number, **question})
            with self._came:
                while not self._found.keys() >= set(process_ids):
                    left = deadline - time.monotonic()
                    if left <= 0:
                        break
                    self._came.wait(left)
                return {p: self._found[p] for p in process_ids if p in self._found}

    def put(self, answer: Mapping[str, Any]) -> None:
        """Takes an answer, from any thread; one to an older question is left out."""
        process_id, content = int(answer["process_id"]), dict(answer["answer"])
        with self._came:
            if answer["number"] == self._number:
                self._found[process_id] = content
                self._came.notify_all()
