"""Where processes of one machine find memory of another; see `nbdist.machine.sealed`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryAddress:
    """The memory of one process.

    Attributes:
      pid: The process that has made it.
      descriptor: The number of the memory's file descriptor there.
      name: Of the memory; that another process has something else under this number is seen by it.
      nbytes: Its size.
    """

    pid: int
    descriptor: int
    name: str
    nbytes: int
