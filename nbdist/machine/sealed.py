"""Memory that is written once, and that processes of one machine then have without a copy of it."""

from __future__ import annotations

import fcntl
import mmap
import os
import sys
import uuid
from collections.abc import Sequence
from typing import Any

from nbdist.contract.calls.values import MemoryAddress
from nbdist.pieces import Bounds, slices

NO_DESCRIPTOR: dict[str, Any] = {"trackfd": False} if sys.version_info >= (3, 13) else {}
"""Before Python 3.13 a mapping keeps a file descriptor for as long as it lives."""


class Sealed:
    """Anonymous memory of one process; others on its machine may write to it until it is sealed.

    It has no name in any file system, and does not count against the limit of `/dev/shm`. Only this user's
    processes on this machine can open it, by the number of its descriptor here. It goes with the last process that
    has it.

    Args:
      nbytes: Its size; it takes memory only where it has been written.

    Raises:
      OSError: This system has no such memory, or no descriptor is left.
    """

    def __init__(self, nbytes: int) -> None:
        create = getattr(os, "memfd_create", None)
        if create is None:
            raise OSError("memory without a name is a matter of Linux")
        self._name = f"nbdist-{uuid.uuid4().hex}"
        self._nbytes = nbytes
        self._descriptor: int | None = create(self._name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(self._descriptor, nbytes)
        except OSError:
            self.close()
            raise

    @property
    def address(self) -> MemoryAddress:
        """How a process finds it; see `mapped`."""
        assert self._descriptor is not None
        return MemoryAddress(
            pid=os.getpid(), descriptor=self._descriptor, name=self._name, nbytes=self._nbytes
        )

    @property
    def closed(self) -> bool:
        """Whether this process has left it."""
        return self._descriptor is None

    def write(self, at: int, data: Any) -> None:
        """Writes bytes, `at` bytes from the start; they do not become part of this process's own memory.

        Raises:
          OSError: There is no memory for them, or it is sealed.
        """
        assert self._descriptor is not None
        _write(self._descriptor, at, data)

    def write_box(self, at: int, shape: Sequence[int], box: Bounds, part: Any) -> None:
        """Writes a part of an array.

        Args:
          at: Where the array begins.
          shape: Of the array.
          box: Which part of it.
          part: A NumPy array with the values.

        Raises:
          OSError: As `write` does.
        """
        assert self._descriptor is not None
        _write_box(self._descriptor, self._nbytes, at, shape, box, part)

    def seal(self) -> None:
        """From now on it cannot change: what a process writes to its mapping, that process alone has."""
        assert self._descriptor is not None
        seals = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
        fcntl.fcntl(self._descriptor, fcntl.F_ADD_SEALS, seals)

    def close(self) -> None:
        """Leaves it to those who have mapped it."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


class OpenedMemory:
    """Memory of another process that this one writes to, before it is sealed.

    Args:
      address: Of it.

    Raises:
      OSError: This process is on another machine, in another container, or may not look.
    """

    def __init__(self, address: MemoryAddress) -> None:
        self._descriptor: int | None = _open(address, os.O_RDWR)
        self._nbytes = address.nbytes

    def write_box(self, at: int, shape: Sequence[int], box: Bounds, part: Any) -> None:
        """As `Sealed.write_box` does."""
        assert self._descriptor is not None
        _write_box(self._descriptor, self._nbytes, at, shape, box, part)

    def close(self) -> None:
        """Leaves it to its owner."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def mapped(address: MemoryAddress) -> mmap.mmap:
    """The memory at an address, as this process's own: it gets a copy of each page that it writes to.

    Args:
      address: Of it.

    Raises:
      OSError: As `OpenedMemory` does.
    """
    opened = _open(address, os.O_RDONLY)
    try:
        return mmap.mmap(
            opened,
            address.nbytes,
            flags=mmap.MAP_PRIVATE,
            prot=mmap.PROT_READ | mmap.PROT_WRITE,
            **NO_DESCRIPTOR,
        )
    finally:
        os.close(opened)


def _open(address: MemoryAddress, flags: int) -> int:
    path = f"/proc/{address.pid}/fd/{address.descriptor}"
    # The name is random: on another machine no process has memory of that name.
    if address.name not in os.readlink(path):  # noqa: PTH115 - no path of a file
        raise OSError(f"{path} is not {address.name}")
    return os.open(path, flags | os.O_CLOEXEC)


def _write(descriptor: int, at: int, data: Any) -> None:
    left = memoryview(data)
    while left:
        written = os.pwrite(descriptor, left, at)
        left, at = left[written:], at + written


def _write_box(
    descriptor: int, nbytes: int, at: int, shape: Sequence[int], box: Bounds, part: Any
) -> None:
    import numpy

    if not part.nbytes:
        return
    first = _run(shape, box)
    if first is not None:
        data = numpy.ascontiguousarray(part).reshape(-1).view(numpy.uint8)
        _write(descriptor, at + first * part.itemsize, data)
        return
    # Each page is mapped for it, which takes longer.
    with mmap.mmap(descriptor, nbytes) as memory:
        whole = numpy.ndarray(tuple(shape), part.dtype, memory, offset=at)
        whole[slices(box)] = part
        del whole  # or the memory could not be unmapped


def _run(shape: Sequence[int], box: Bounds) -> int | None:
    """The index of the first element of a part of an array, if it is contiguous there."""
    first, stride, partial = 0, 1, False
    for size, (start, stop) in zip(reversed(shape), reversed(box), strict=True):
        if partial and stop - start > 1:
            return None
        partial |= stop - start < size
        first += start * stride
        stride *= size
    return first
