"""Whether the out-of-memory killer has ended a process of the control group that this process is in as well."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

FRESH_SECONDS = 10.0
"""For so long a kill may be that of a process whose end comes now: it gives back its memory first."""


class OutOfMemoryKills:
    """The kills of this control group, each of which explains one end.

    Those of other groups of this machine, such as other containers or other jobs, are none of it.

    Args:
      root: Where the file systems of the kernel lie.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        self._seen = self._count()
        self._unexplained: list[float] = []

    def look(self) -> None:
        """Notes those that have come; one that nobody's end follows soon was of something else in the group."""
        now = time.monotonic()
        count = self._count()
        fresh = [at for at in self._unexplained if now - at < FRESH_SECONDS]
        self._unexplained = [*fresh, *[now] * (count - self._seen)]
        self._seen = count

    def explain_one(self) -> bool:
        """Whether a process that was killed just now was killed for memory; the next end needs another kill."""
        if not self._unexplained:
            return False
        self._unexplained.pop(0)
        return True

    def _count(self) -> int:
        """How many there have been; 0 where nobody counts."""
        for path in self._counters():
            with contextlib.suppress(OSError, ValueError):
                for line in path.read_text().splitlines():
                    if line.startswith("oom_kill "):
                        return int(line.split()[1])
        return 0

    def _counters(self) -> Iterator[Path]:
        """The files that count, the narrowest first.

        Source: `memory.events` of the kernel's cgroup-v2.rst, `memory.oom_control` of its cgroup-v1/memory.rst,
        both of the group that the killed process is in, whoever's limit it was; /proc/vmstat for all of the
        machine. A container without a name space of its own for groups sees its own at the top, and the path of
        the host.
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
