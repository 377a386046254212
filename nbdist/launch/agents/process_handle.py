"""Processes that somebody else has started, identified by process id and start time.

A process id alone may belong to another process a day later; the pair names one process for ever.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
POLL_SECONDS = 0.01


@dataclass(frozen=True, slots=True)
class ProcessHandle:
    """One process of this machine, which may have ended.

    `began` is the result of `beginning` for it.
    """

    pid: int
    began: str

    @property
    def running(self) -> bool:
        """Whether the process still runs; a zombie does not count."""
        return beginning(self.pid) == self.began

    def signal(self, number: int) -> None:
        """Send a signal to the process, and never to a later process with the same id."""
        with _descriptor(self.pid) as descriptor:
            if not self.running:
                return
            with contextlib.suppress(ProcessLookupError):
                if descriptor is None:
                    os.kill(self.pid, number)
                else:
                    signal.pidfd_send_signal(descriptor, number)

    def wait(self, timeout_s: float) -> bool:
        """Wait for the end of the process; return whether it has ended."""
        deadline = time.monotonic() + timeout_s
        while self.running:
            if time.monotonic() > deadline:
                return False
            time.sleep(POLL_SECONDS)
        return True


def found(pid: int) -> ProcessHandle | None:
    """Return the process that has this id now; None if there is none."""
    began = beginning(pid)
    return None if began is None else ProcessHandle(pid, began)


def beginning(pid: int) -> str | None:
    """Return when a process began, as this machine counts; None if it does not run.

    Source: proc(5), field 22 of `/proc/PID/stat`, in ticks since boot, and the boot's own id; elsewhere `ps`.
    """
    if sys.platform == "linux":
        try:
            # The process's name, in parentheses, may contain any character.
            state, *fields = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
            boot = (PROC / "sys/kernel/random/boot_id").read_text().strip()
        except (OSError, ValueError):
            return None
        return None if state in "ZX" else f"{boot} {fields[18]}"
    asked = subprocess.run(
        ["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    state, _, began = asked.stdout.strip().partition(" ")
    return began.strip() if began and not state.startswith("Z") else None


@contextlib.contextmanager
def _descriptor(pid: int) -> Iterator[int | None]:
    """Hold a process's pidfd, so that its id is not reused; None if the system has no pidfds."""
    opened = None
    with contextlib.suppress(OSError, AttributeError):
        opened = os.pidfd_open(pid)
    try:
        yield opened
    finally:
        if opened is not None:
            os.close(opened)
