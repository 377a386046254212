"""A control group of its own with little memory, in which the kernel ends the process that takes too much."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

GROUPS = Path("/sys/fs/cgroup/memory")
"""Of version 1, in which anybody who may write here can make a group anywhere (cgroup-v1/memory.rst)."""


@contextlib.contextmanager
def limited_memory(nbytes: int) -> Iterator[bool]:
    """This process, and what it starts meanwhile, gets at most so many bytes; whether that could be done."""
    own = _own()
    if own is None or not os.access(own, os.W_OK):
        yield False
        return
    group = own / f"nbdist-tests-{os.getpid()}"
    group.mkdir()
    try:
        (group / "memory.limit_in_bytes").write_text(str(nbytes))
        (group / "cgroup.procs").write_text(str(os.getpid()))
        yield True
    finally:
        for pid in (group / "cgroup.procs").read_text().split():
            with contextlib.suppress(OSError):  # it has ended meanwhile
                (own / "cgroup.procs").write_text(pid)
        group.rmdir()


def _own() -> Path | None:
    """The group that this process is in; None where there are no such groups, or none of them can be seen."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            found = [GROUPS / path.removeprefix("/"), GROUPS]
            return next((one for one in found if (one / "cgroup.procs").exists()), None)
    return None
