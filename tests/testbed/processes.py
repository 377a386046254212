"""The processes of a host, as this machine sees them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

OF_THE_BED = ("sshd", "metadata_server.py", "slurmd")


@dataclass(frozen=True)
class Process:
    """A process: its number on this machine, and its command line."""

    pid: int
    command: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.pid} {' '.join(self.command)}"


def is_of_the_bed(command: tuple[str, ...]) -> bool:
    """Whether a process belongs to the host itself: its sshd, a connection's, its metadata server."""
    return any(Path(word.partition(":")[0]).name in OF_THE_BED for word in command[:3])


def read(entry: Path, space: Path) -> Process | None:
    """The process of an entry of /proc when it is in that space and alive."""
    try:
        if entry.joinpath("ns", "pid").readlink() != space:
            return None
        words = tuple(os.fsdecode(entry.joinpath("cmdline").read_bytes()).rstrip("\0").split("\0"))
        state = entry.joinpath("stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return None  # It ended meanwhile.
    return None if state in "ZX" else Process(int(entry.name), words)


def processes_beside(first: int) -> list[Process]:
    """What runs in the same space of processes as `first`, beside it and what is the bed's own."""
    space = Path(f"/proc/{first}/ns/pid").readlink()
    entries = (entry for entry in Path("/proc").iterdir() if entry.name.isdecimal())
    found = (read(entry, space) for entry in entries if int(entry.name) != first)
    return sorted(
        (each for each in found if each is not None and not is_of_the_bed(each.command)),
        key=lambda each: each.pid,
    )
