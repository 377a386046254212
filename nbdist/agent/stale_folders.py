"""The removal of a host's folder when the process that should remove it was killed."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time

from nbdist.machine.folder import remove
from nbdist.machine.parent_death import signal_at_end_of

AGAIN_SECONDS = 0.5
"""How long to wait before the last removal: children of the killed process may still write a file."""

LOOK_SECONDS = 0.05
"""Seconds between removals when the whole job was told to end: this process, too, may be killed at any moment."""


def sweep_after(folder: str) -> int | None:
    """Fork a process that removes a folder as soon as this process has ended, for whatever reason (Linux only).

    The fork imports nothing and holds nothing open, so it costs little; call this while there is one thread.

    Returns:
      Its process id, for `end`; None on other systems.
    """
    parent = os.getpid()
    if sys.platform != "linux":
        return None
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    sweeper = os.fork()
    if sweeper != 0:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return sweeper
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)
        os.closerange(0, os.sysconf("SC_OPEN_MAX"))
        if signal_at_end_of(parent, signal.SIGTERM):
            signal.sigwait({signal.SIGTERM})
        remove(folder)
        # A scheduler tells all processes of a job to end; a busy one goes on writing until it is killed.
        while os.getppid() == parent:
            time.sleep(LOOK_SECONDS)
            remove(folder)
        time.sleep(AGAIN_SECONDS)
        remove(folder)
    finally:
        os._exit(0)


def end(sweeper: int | None) -> None:
    """End a sweeper whose folder has been removed."""
    if sweeper is not None:
        # An ended and reaped sweeper is no longer a child, and its process id may be another's.
        with contextlib.suppress(ChildProcessError):
            if os.waitpid(sweeper, os.WNOHANG) == (0, 0):
                os.kill(sweeper, signal.SIGKILL)
                os.waitpid(sweeper, 0)
