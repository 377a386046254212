"""Processes of this machine: handles that stay valid, ends with a parent, and reasons for an end."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")

WAIT_SECONDS = 0.01
"""Seconds between two looks at a process that is waited for."""


@dataclass(frozen=True, slots=True)
class ProcessHandle:
    """One process of this machine, started by any program; it may have ended.

    A process id may belong to another process a day later; process id and start time together never do. `began` is
    the start time, as `beginning` returns it.
    """

    pid: int
    began: str

    @property
    def running(self) -> bool:
        """Whether the process still runs; a zombie does not count."""
        return beginning(self.pid) == self.began

    @property
    def status(self) -> None:
        """The exit status, always None: only the parent of a process learns it."""

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

    def terminate(self) -> None:
        """Send SIGTERM to the process."""
        self.signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL to the process."""
        self.signal(signal.SIGKILL)

    def wait(self, timeout_s: float) -> bool:
        """Wait for the end of the process; return whether it has ended."""
        deadline = time.monotonic() + timeout_s
        while self.running:
            if time.monotonic() > deadline:
                return False
            time.sleep(WAIT_SECONDS)
        return True


def found(pid: int) -> ProcessHandle | None:
    """Return the process that has this id now; None if there is none."""
    began = beginning(pid)
    return None if began is None else ProcessHandle(pid, began)


def beginning(pid: int) -> str | None:
    """Return the start time of a process, to be compared on this machine alone; None if the process does not run.

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


LOG_LINES = 20
"""Lines of a log that explain an end."""

READ_BYTES = 64 * 1024
"""Bytes at the end of a log that are read for them."""

CHATTER = re.compile(
    rb"^(\d{4}-\d\d-\d\d \S+ \[(Engine|KernelNanny|Nanny|IPController)[^\]]*\].*"
    rb"|\[Gloo\] Rank \d+ is connected to \d+ peer ranks\. Expected number of connected peer ranks is : \d+"
    rb"|.*coordination_service\.cc:\d+\].*Using experimental recoverable task feature\..*)$\n?",
    re.M,
)
"""Lines that are not the user's output: ipyparallel's own log, the coordinator's notice that processes may outlive
another's death, which nbdist has asked for, and what gloo says about its connections."""

STACK = re.compile(r"^\*\*\* Check failure stack trace: \*\*\*$|^\s+@\s+0x[0-9a-f]+ ")
"""Lines of the C++ stack below a failed check. They are left out: the check itself says why the process ended, and
the stack would leave no room for it."""

FATAL = "Fatal Python error:"
CURRENT = "Current thread"


def tail(path: Path, *, lines: int = LOG_LINES, start: int = 0) -> tuple[str, ...]:
    """Return the last lines of a log that say why its process ended; none if there is no log.

    Text before the byte `start` was written by an earlier process and is left out.

    Python's own report of a fatal signal lists every thread and every extension module. Of this report only the
    reason and the stack of the thread that got the signal are kept, so that there are lines left for the text
    before it.
    """
    try:
        with path.open("rb") as file:
            file.seek(max(start, os.fstat(file.fileno()).st_size - READ_BYTES))
            data = file.read()
    except OSError:
        return ()
    text = CHATTER.sub(b"", data).decode(errors="replace")
    kept = [line for line in text.splitlines() if not STACK.search(line)]
    fatal = next((i for i, line in enumerate(kept) if line.startswith(FATAL)), None)
    if fatal is None:
        return tuple(kept[-lines:])
    report = _shortened(kept[fatal:], lines=lines // 2)
    before = kept[:fatal][-(lines - len(report)) :]
    return (*before, *report)


def _shortened(report: list[str], *, lines: int) -> list[str]:
    """Return the reason, and the stack of the thread that got the signal."""
    start = next((i for i, line in enumerate(report) if line.startswith(CURRENT)), 1)
    stack = report[start : start + lines - 1]
    blank = next((i for i, line in enumerate(stack) if not line.strip()), len(stack))
    return [report[0], *stack[:blank]]


def die_with(parent: int, death_signal: int = signal.SIGKILL) -> None:
    """Have the operating system signal this process when its parent ends (Linux only); exit if it already has."""
    if not signal_at_end_of(parent, death_signal):
        os._exit(1)


def signal_at_end_of(parent: int, death_signal: int) -> bool:
    """Ask the operating system to signal this process when its parent ends (Linux only).

    Returns:
      Whether the parent is still there.

    Source: prctl(2), PR_SET_PDEATHSIG = 1.
    """
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None, use_errno=True).prctl(1, int(death_signal))
    return os.getppid() == parent


FRESH_SECONDS = 10.0
"""The most seconds from a kill to the end of the process, which first gives back its memory."""


class OutOfMemoryKills:
    """Kills by the out-of-memory killer in this process's control group; each explains the end of one process.

    Kills in other groups of this machine, such as other containers or other jobs, do not count.

    Args:
      root: The folder with the file systems of the operating system's kernel.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        self._seen = self._count()
        self._unexplained: list[float] = []

    def look(self) -> None:
        """Note new kills; forget older ones that explained no end: they hit other processes of the group."""
        now = time.monotonic()
        count = self._count()
        fresh = [at for at in self._unexplained if now - at < FRESH_SECONDS]
        self._unexplained = [*fresh, *[now] * (count - self._seen)]
        self._seen = count

    def explain_one(self) -> bool:
        """Return whether a process that was killed just now was killed for memory; this uses up one kill."""
        if not self._unexplained:
            return False
        self._unexplained.pop(0)
        return True

    def _count(self) -> int:
        """Return the number of kills so far; 0 if the system does not count them."""
        for path in self._counters():
            with contextlib.suppress(OSError, ValueError):
                for line in path.read_text().splitlines():
                    if line.startswith("oom_kill "):
                        return int(line.split()[1])
        return 0

    def _counters(self) -> Iterator[Path]:
        """Yield the files that count kills, those of the narrowest group first.

        Source: `memory.events` of the kernel's cgroup-v2.rst, `memory.oom_control` of its cgroup-v1/memory.rst,
        both of the group that the killed process is in, whichever group's limit was reached; /proc/vmstat for the
        whole machine. A container without a cgroup namespace of its own finds its group at the top of the file
        system, although the path is that of the host.
        """
        groups = self._root / "sys/fs/cgroup"
        try:
            lines = (self._root / "proc/self/cgroup").read_text().splitlines()
        except OSError:
            lines = []
        for _, controllers, path in (line.split(":", 2) for line in lines if line.count(":") > 1):
            if controllers == "":
                places, name = [groups, groups / "unified"], "memory.events"
            elif "memory" in controllers.split(","):
                places, name = [groups / "memory"], "memory.oom_control"
            else:
                continue
            for place in places:
                yield place / path.lstrip("/") / name
                yield place / name
        yield self._root / "proc/vmstat"
