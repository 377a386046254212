"""Processes that somebody else has started, held by their number and the moment they began.

A number alone may belong to another process a day later; the two together name one process for ever.
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

    `began` is what `beginning` said of it.
    """

    pid: int
    began: str

    @property
    def running(self) -> bool:
        """Whether it still runs; one that only waits for its parent to take note does not."""
        return beginning(self.pid) == self.began

    def signal(self, number: int) -> None:
        """Sends a signal to it, and never to a later process of the same number."""
        with _descriptor(self.pid) as descriptor:
            if not self.running:
                return
            with contextlib.suppress(ProcessLookupError):
                if descriptor is None:
                    os.kill(self.pid, number)
                else:
                    signal.pidfd_send_signal(descriptor, number)

    def wait(self, timeout_s: float) -> bool:
        """Waits for its end; answers whether it has come."""
        deadline = time.monotonic() + timeout_s
        while self.running:
            if time.monotonic() > deadline:
                return False
            time.sleep(POLL_SECONDS)
        return True


def found(pid: int) -> ProcessHandle | None:
    """The process that has this number now; None where there is none."""
    began = beginning(pid)
    return None if began is None else ProcessHandle(pid, began)


def beginning(pid: int) -> str | None:
    """When a process began, as this machine counts; None when it does not run.

    Source: proc(5), field 22 of `/proc/PID/stat`, in ticks since boot, and the boot's own id; elsewhere `ps`.
    """
    if sys.platform == "linux":
        try:
            # The name, in parentheses, may hold anything.
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
    """Holds on to a process, so that its number stays its own; None where the system has no such thing."""
    opened = None
    with contextlib.suppress(OSError, AttributeError):
        opened = os.pidfd_open(pid)
    try:
        yield opened
    finally:
        if opened is not None:
            os.close(opened)
