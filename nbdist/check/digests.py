"""Digests that processes send past ipyparallel's requests, which take longer than what they bring.

The parents of the processes pass the question on, and each process answers with a message of its own, which the
monitor reads: on two cores half of the time of a request to each of four processes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

WITHIN_SECONDS = 1.0
"""An idle process answers within milliseconds; after so long each is sent a request."""

Found = dict[int, dict[str, str]]
"""Digests by topic, by process id; see `nbdist.engine.agreement.facts`."""


class Digests:
    """Asks processes that are idle, one question at a time.

    Args:
      send: Has the question sent to processes: its number and the cell.
    """

    def __init__(self, send: Callable[[Sequence[int], Mapping[str, Any]], None]) -> None:
        self._send = send
        self._came = threading.Condition()
        self._number = -1
        self._found: Found = {}

    def ask(
        self, process_ids: Sequence[int], code: str, *, within_s: float = WITHIN_SECONDS
    ) -> Found | None:
        """What these processes answer; None where not all have in time."""
        deadline = time.monotonic() + within_s
        with self._came:
            number = self._number = time.time_ns()  # rises, whichever kernel asks
            self._found = {}
        self._send(process_ids, {"number": number, "code": code})
        with self._came:
            while not self._found.keys() >= set(process_ids):
                left = deadline - time.monotonic()
                if left <= 0:
                    return None
                self._came.wait(left)
            return {p: self._found[p] for p in process_ids}

    def put(self, answer: Mapping[str, Any]) -> None:
        """Takes an answer, from any thread; one to an older question is left out."""
        process_id, digests = int(answer["process_id"]), dict(answer["digests"])
        with self._came:
            if answer["number"] == self._number:
                self._found[process_id] = digests
                self._came.notify_all()
