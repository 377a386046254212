"""Times in which this process did not run: stopped (Ctrl-Z, SIGSTOP), starved, or on a machine that slept.

What others have said meanwhile is not read yet when it runs again, so no limit on their silence may count them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

PAUSE_SECONDS = 5.0
"""A process that looks once a second and finds so much time gone has not run."""


def clock_of_sleep() -> float:
    """Seconds that count on while the machine sleeps, as `time.monotonic` does not (Linux, macOS)."""
    # macOS has no CLOCK_BOOTTIME; there CLOCK_MONOTONIC counts sleep, and time.monotonic, another clock, does not.
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Pauses:
    """Notices that this process did not run. `ran_since` must be asked about once a second; from any thread.

    Args:
      clock: Seconds that count on whatever happens to this process.
    """

    def __init__(self, *, clock: Callable[[], float] = clock_of_sleep) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._looked = clock()
        self._resumed = time.monotonic()

    def ran_since(self, moment: float) -> float:
        """Seconds since a moment (`time.monotonic`), or since the end of the last pause where that is later."""
        with self._lock:
            looked, self._looked = self._looked, self._clock()
            now = time.monotonic()
            if self._looked - looked > PAUSE_SECONDS:
                self._resumed = now
            return now - max(moment, self._resumed)
