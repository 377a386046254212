"""Threads of XLA, as the operating system sees them: which wait in a collective, and their processor time."""

from __future__ import annotations

import contextlib
import platform
import time
from collections.abc import Iterator
from pathlib import Path

from nbdist.engine.cell.main_thread import FUTEX

FOLDER = Path("/proc/self/task")

NAMED = "tf_XLA"
"""Prefix of the names of the threads in which XLA computes on CPU (jaxlib 0.10.0 to 0.12.0.1)."""

NO_LIMIT = "0x0"


def waiting_threads() -> set[int]:
    """Return XLA's threads that wait with a time limit: in a collective, or until its participants have come.

    Threads without work wait without a limit. The result is empty if the system does not say; only Linux does.
    Source: `/proc/<pid>/task/<tid>/syscall` with the arguments of futex(2), of which the fourth is the limit.
    """
    futex = FUTEX.get(platform.machine())
    found = set()
    for task in _tasks() if futex is not None else ():
        with contextlib.suppress(OSError):
            number, *arguments = (task / "syscall").read_text().split()
            if number == str(futex) and arguments[3] != NO_LIMIT:
                found.add(int(task.name))
    return found


def computed_seconds() -> float:
    """Return the processor time that XLA's threads have used; that of the process if the system does not say.

    Source: the first number of `/proc/<pid>/task/<tid>/schedstat`, in nanoseconds (sched-stats in Linux' docs).
    """
    if not FOLDER.is_dir():
        return time.process_time()
    nanoseconds = 0
    for task in _tasks():
        with contextlib.suppress(OSError):
            nanoseconds += int((task / "schedstat").read_text().split()[0])
    return nanoseconds / 1e9


def _tasks() -> Iterator[Path]:
    """Yield the folders of XLA's threads."""
    if FOLDER.is_dir():
        for task in FOLDER.iterdir():
            with contextlib.suppress(OSError):
                if (task / "comm").read_text().startswith(NAMED):
                    yield task
