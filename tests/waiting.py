"""Waiting for what comes, however slow the machine is."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import psutil

T = TypeVar("T")

WAIT_SECONDS = 120.0
PERIOD_SECONDS = 0.02


def has_ended(process: psutil.Process) -> bool:
    """Return whether a process has ended, also where nobody has waited for it yet, or at this very moment."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def wait_for(condition: Callable[[], T], *, within_s: float = WAIT_SECONDS) -> T:
    """Answers the first true value of `condition`; fails when there is none in that time."""
    deadline = time.monotonic() + within_s
    while not (found := condition()):
        assert time.monotonic() < deadline, f"not within {within_s:g} s; last: {found!r}"
        time.sleep(PERIOD_SECONDS)
    return found
