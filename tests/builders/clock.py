"""Time for modules that wait, in the place of the module `time`."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


class Clock:
    """Time passes only while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)


class Sleeping(Clock):
    """The real time, but for what is done in place of sleeping; threads of others sleep as ever.

    Args:
      sleep: Called with the seconds.
    """

    def __init__(self, sleep: Callable[[float], None]) -> None:
        self.sleep = sleep  # type: ignore[method-assign]
        self.monotonic = time.monotonic  # type: ignore[method-assign]


class PatientClock(Clock):
    """Time passes while somebody waits in vain, and never while something comes from another thread.

    Args:
      quiet: Whether all that was said has been taken; until then no time passes, however slow the machine is.
      tick: Called each time before some passes.
      look_s: What passes from look to look, in seconds.
    """

    def __init__(
        self,
        quiet: Callable[[], bool] = lambda: True,
        tick: Callable[[], None] = lambda: None,
        *,
        look_s: float = 1.0,
    ) -> None:
        super().__init__()
        self._quiet = quiet
        self._tick = tick
        self._look_s = look_s

    def sleep(self, seconds: float) -> None:
        time.sleep(0.0005)
        if self._quiet():
            self._tick()
            self.now += self._look_s
