"""Address at which processes of one machine find memory of another; see `nbdist.machine.sealed`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryAddress:
    """The memory of one process.

    Attributes:
      pid: The process that has made it.
      descriptor: The number of the memory's file descriptor in that process.
      name: The name of the memory, which shows whether the process still has this memory under this descriptor.
      nbytes: Its size.
    """

    pid: int
    descriptor: int
    name: str
    nbytes: int
