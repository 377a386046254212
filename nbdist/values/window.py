"""Memory of this notebook that processes on the same machine read and write; it goes with its last user."""

from __future__ import annotations

import contextlib
import mmap
import os
import uuid
from typing import Any, Self

import numpy as np

SLOT_BYTES = 16 << 20
"""So much of an array goes at once."""

SLOTS = 8
"""So many parts may be on their way at once."""


class Window:
    """Anonymous memory in slots; also a context manager that gives it back.

    It has no name in any file system, and does not count against the limit of `/dev/shm`. Only this user's
    processes on this machine can open it, by the number of its descriptor here.

    Raises:
      OSError: This system has no such memory.
    """

    def __init__(self) -> None:
        create = getattr(os, "memfd_create", None)
        if create is None:
            raise OSError("memory without a name is a matter of Linux")
        self._name = f"nbdist-{uuid.uuid4().hex}"
        self._descriptor = create(self._name, os.MFD_CLOEXEC)
        try:
            os.ftruncate(self._descriptor, SLOT_BYTES * SLOTS)
            self._map = mmap.mmap(self._descriptor, SLOT_BYTES * SLOTS)
        except OSError:
            os.close(self._descriptor)
            raise

    @property
    def address(self) -> dict[str, Any]:
        """How a process finds it; see `nbdist.engine.values.window.Window`."""
        return {
            "pid": os.getpid(),
            "descriptor": self._descriptor,
            "name": self._name,
            "nbytes": SLOT_BYTES * SLOTS,
        }

    def array(self, at: int, dtype: Any, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
        """The array of this type that lies `at` bytes from the start."""
        return np.ndarray(shape, dtype, self._map, offset=at)

    def close(self) -> None:
        """Gives the memory back, once arrays of it are gone."""
        with contextlib.suppress(BufferError):  # what an error has left in a traceback
            self._map.close()
        os.close(self._descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def window() -> Window | None:
    """Shared memory; None where the system has none, so that all goes in messages."""
    try:
        return Window()
    except OSError:
        return None
