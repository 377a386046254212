"""Time for modules that wait: it passes while they wait in vain, and never while something comes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


class Clock:
    """Stands for the module `time` in modules that look again and again.

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
        self.now = 1000.0
        self._quiet = quiet
        self._tick = tick
        self._look_s = look_s

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        time.sleep(0.0005)
        if self._quiet():
            self._tick()
            self.now += self._look_s

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)
