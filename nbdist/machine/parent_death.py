"""A process that ends when its parent does; Linux only."""

from __future__ import annotations

import os
import signal
import sys


def die_with(parent: int, death_signal: int = signal.SIGKILL) -> None:
    """Asks the operating system to signal this process when its parent ends (Linux only)."""
    if not signal_at_end_of(parent, death_signal):
        os._exit(1)


def signal_at_end_of(parent: int, death_signal: int) -> bool:
    """Has the operating system signal this process when its parent ends; answers whether it is still there.

    Source: prctl(2), PR_SET_PDEATHSIG = 1.
    """
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None, use_errno=True).prctl(1, int(death_signal))
    return os.getppid() == parent
