"""The pace at which work may repeat so that it takes no more than its share of the time."""

from __future__ import annotations

import threading
import time


class Pace:
    """Spacing of work so that its processor time stays under a share of wall time.

    Only the processor time of the calling thread counts: while that thread waits for the interpreter's lock it
    takes nothing from anyone.

    Args:
      share: The share of wall time, such as 0.005.
      least_seconds: From the start of one turn to the next, however cheap it is.
      most_seconds: From one turn to the next, however expensive it was. Python may collect all garbage in the
        middle of a turn, which says nothing of what a turn costs, and must not silence a process for a minute.
    """

    def __init__(self, *, share: float, least_seconds: float, most_seconds: float) -> None:
        self._share = share
        self._least = least_seconds
        self._most = most_seconds
        self._next = 0.0
        self._began = threading.local()

    def due(self) -> bool:
        """Return whether the next turn may start now."""
        return time.monotonic() >= self._next

    def hurry(self) -> None:
        """Make the next turn due now, as when a person asks."""
        self._next = 0.0

    def __enter__(self) -> None:
        """Start the clock; processor time inside the block counts."""
        self._began.at = time.thread_time()
        self._next = max(self._next, time.monotonic())

    def __exit__(self, *exception: object) -> None:
        cost = time.thread_time() - self._began.at
        latest = time.monotonic() + self._most
        self._next = min(self._next + cost / self._share, latest)

    def turn(self) -> Pace:
        """Begin a new turn, for `with pace.turn():`; a plain `with pace:` adds work to the last turn."""
        self._next = time.monotonic() + self._least
        return self
