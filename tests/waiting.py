"""Waiting for what comes, however slow the machine is."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

WAIT_SECONDS = 60.0


def wait_for(condition: Callable[[], T]) -> T:
    """Answers the first true value of `condition`; fails after `WAIT_SECONDS`."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not (found := condition()):
        assert time.monotonic() < deadline, f"not within {WAIT_SECONDS:g} s; last: {found!r}"
        time.sleep(0.02)
    return found
