"""The end of a process's log, as far as it says why the process ended."""

from __future__ import annotations

import os
import re
from pathlib import Path

LOG_LINES = 20
READ_BYTES = 64 * 1024

CHATTER = re.compile(
    rb"^(\d{4}-\d\d-\d\d \S+ \[(Engine|KernelNanny|Nanny|IPController)[^\]]*\].*"
    rb"|\[Gloo\] Rank \d+ is connected to \d+ peer ranks\. Expected number of connected peer ranks is : \d+"
    rb"|.*coordination_service\.cc:\d+\].*Using experimental recoverable task feature\..*)$\n?",
    re.M,
)
"""Not the user's output: ipyparallel's own log, and the coordinator's word that processes may outlive another's
death, which nbdist has asked for; what gloo says, whatever becomes of it in what cells print."""

NOISE = re.compile(
    r"debugpy_stream undefined|Not using CurveZMQ security|^\*\*\* Check failure stack trace: \*\*\*$"
    r"|^\s+@\s+0x[0-9a-f]+ "
    r"|^\[Gloo\] Rank \d+ is connected to \d+ peer ranks\. Expected number of connected peer ranks is : \d+$"
)
"""What ipyparallel and gloo write when an engine starts, and the C++ stack below a failed check: the check itself
says why, and the stack would leave no room for it."""

FATAL = "Fatal Python error:"
CURRENT = "Current thread"


def tail(path: Path, *, lines: int = LOG_LINES, start: int = 0) -> tuple[str, ...]:
    """The last lines of a log, without chatter; empty where there is none.

    What stands before the byte `start` is of a process before, whose end explains nothing.

    Python's own report of a fatal signal lists every thread and every extension module. Of it the reason and
    the stack of the thread that had the signal are kept, and what was written before it has the rest.
    """
    try:
        with path.open("rb") as file:
            file.seek(max(start, os.fstat(file.fileno()).st_size - READ_BYTES))
            data = file.read()
    except OSError:
        return ()
    text = CHATTER.sub(b"", data).decode(errors="replace")
    kept = [line for line in text.splitlines() if not NOISE.search(line)]
    fatal = next((i for i, line in enumerate(kept) if line.startswith(FATAL)), None)
    if fatal is None:
        return tuple(kept[-lines:])
    report = _shortened(kept[fatal:], lines=lines // 2)
    before = kept[:fatal][-(lines - len(report)) :]
    return (*before, *report)


def _shortened(report: list[str], *, lines: int) -> list[str]:
    """The reason, and the stack of the thread that had the signal."""
    start = next((i for i, line in enumerate(report) if line.startswith(CURRENT)), 1)
    stack = report[start : start + lines - 1]
    blank = next((i for i, line in enumerate(stack) if not line.strip()), len(stack))
    return [report[0], *stack[:blank]]
