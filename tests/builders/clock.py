"""Time for modules that wait: it passes while they wait in vain, and never while something comes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

LOOK_SECONDS = 1.0
"""What passes from look to look."""


class Clock:
    """Stands for the module `time` in modules that look again and again.

    Args:
      quiet: Whether all that was said has been taken; until then no time passes, however slow the machine is.
      tick: Called before each second that passes.
    """

    def __init__(
        self, quiet: Callable[[], bool] = lambda: True, tick: Callable[[], None] = lambda: None
    ) -> None:
        self.now = 1000.0
        self._quiet = quiet
        self._tick = tick

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        time.sleep(0.0005)
        if self._quiet():
            self._tick()
            self.now += LOOK_SECONDS

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)
