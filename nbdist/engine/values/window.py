"""Memory that a kernel shares with the processes on its machine, through which pieces of arrays go."""

from __future__ import annotations

import contextlib
import mmap
import os
from typing import Any


class Window:
    """The kernel's memory, mapped into this process.

    Args:
      pid: The kernel's process.
      descriptor: The number of the memory's file descriptor there.
      name: Of the memory; that another process has something else under this number is seen by it.
      nbytes: Its size.

    Raises:
      OSError: This process is on another machine, in another container, or may not look.
    """

    def __init__(self, *, pid: int, descriptor: int, name: str, nbytes: int) -> None:
        path = f"/proc/{pid}/fd/{descriptor}"
        # The name is random: on another machine no process has memory of that name.
        if name not in os.readlink(path):  # noqa: PTH115 - no path of a file
            raise OSError(f"{path} is not {name}")
        opened = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            self._map = mmap.mmap(opened, nbytes)
        finally:
            os.close(opened)

    def array(self, at: int, dtype: Any, shape: tuple[int, ...]) -> Any:
        """The NumPy array of this type that lies `at` bytes from the start."""
        import numpy

        return numpy.ndarray(shape, dtype, self._map, offset=at)

    def close(self) -> None:
        """Gives the memory back, once arrays of it are gone."""
        with contextlib.suppress(BufferError):  # what an error has left in a traceback
            self._map.close()
