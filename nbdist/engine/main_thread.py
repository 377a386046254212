"""What the operating system says of one thread: its processor time, and what it is blocked in."""

from __future__ import annotations

import contextlib
import os
import platform
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import FrameType

FUTEX = {"x86_64": 202, "aarch64": 98}
"""Number of the `futex` system call, in which C++ code waits for another thread (Linux headers)."""


class MainThread:
    """One thread of this process, seen from others.

    Args:
      ident: Its `threading.Thread.ident`. It must outlive this object.
    """

    def __init__(self, ident: int) -> None:
        self.ident = ident
        self._clock = _clock_of(ident)
        self._system_call = _system_call_file(ident)
        self._looked = (0.0, 0.0)

    def frame(self) -> FrameType | None:
        """Its innermost Python frame. The caller must not keep it."""
        current: Mapping[int, FrameType] = sys._current_frames()
        return current.get(self.ident)

    def busy_share(self) -> float | None:
        """Processor time over wall time since the last call; None where the system does not say."""
        if self._clock is None:
            return None
        processor, wall = time.clock_gettime(self._clock), time.monotonic()
        before, self._looked = self._looked, (processor, wall)
        return (processor - before[0]) / max(wall - before[1], 1e-6)

    def waits_for_a_thread(self) -> bool | None:
        """Whether it is blocked until another thread goes on, not in a sleep or on a socket.

        None where the system does not say (not Linux, or forbidden there).
        """
        number = FUTEX.get(platform.machine())
        if number is None or self._system_call is None:
            return None
        try:
            blocked_in = self._system_call.read_text().split(maxsplit=1)[0]
        except (OSError, IndexError):
            return None
        return blocked_in == str(number)


def _clock_of(ident: int) -> int | None:
    # Not on macOS.
    getter = getattr(time, "pthread_getcpuclockid", None)
    if getter is None:
        return None
    with contextlib.suppress(OSError):
        return int(getter(ident))
    return None


def _system_call_file(ident: int) -> Path | None:
    if sys.platform != "linux":
        return None
    for thread in threading.enumerate():
        if thread.ident == ident:
            # Python 3.11 keeps the parent's native id after a fork; a process's main thread has its pid.
            main = thread is threading.main_thread()
            task = os.getpid() if main else thread.native_id
            return Path(f"/proc/{os.getpid()}/task/{task}/syscall")
    return None


def rss_bytes() -> int:
    """Resident memory of this process, in bytes; its peak where the system tells no more."""
    with contextlib.suppress(OSError):
        pages = Path("/proc/self/statm").read_bytes().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
