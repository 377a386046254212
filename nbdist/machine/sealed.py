"""Shared memory for processes of one machine: written once, sealed, then mapped by each process without a copy."""

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
    """Anonymous memory (memfd) of one process; other processes of its machine may write to it until it is sealed.

    The memory has no name in any file system, and does not count against the limit of `/dev/shm`. Only this user's
    processes on this machine can open it, through this process's id and descriptor. The system frees the memory
    when the last process has closed it.

    Args:
      nbytes: The size. Pages take memory only once they have been written.

    Raises:
      OSError: This system has no such memory, or no descriptor is left.
    """

    def __init__(self, nbytes: int) -> None:
        create = getattr(os, "memfd_create", None)
        if create is None:
            raise OSError("anonymous memory (memfd) needs Linux")
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
        """The address by which another process opens this memory; see `mapped`."""
        assert self._descriptor is not None
        return MemoryAddress(
            pid=os.getpid(), descriptor=self._descriptor, name=self._name, nbytes=self._nbytes
        )

    @property
    def closed(self) -> bool:
        """Whether this process has closed the memory."""
        return self._descriptor is None

    def write(self, at: int, data: Any) -> None:
        """Write bytes, `at` bytes from the start, without mapping them into this process.

        Raises:
          OSError: The system has no memory left, or this memory is sealed.
        """
        assert self._descriptor is not None
        _write(self._descriptor, at, data)

    def write_box(self, at: int, shape: Sequence[int], box: Bounds, part: Any) -> None:
        """Write a part of an array.

        Args:
          at: Where the array begins, in bytes from the start of the memory.
          shape: The shape of the whole array.
          box: The bounds of the part in the array.
          part: The values of the part, as a NumPy array.

        Raises:
          OSError: As for `write`.
        """
        assert self._descriptor is not None
        _write_box(self._descriptor, self._nbytes, at, shape, box, part)

    def seal(self) -> None:
        """Forbid all further changes; a process that writes to its own mapping changes its private copy alone."""
        assert self._descriptor is not None
        seals = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
        fcntl.fcntl(self._descriptor, fcntl.F_ADD_SEALS, seals)

    def close(self) -> None:
        """Close this process's descriptor; processes that have mapped the memory keep it."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


class OpenedMemory:
    """Memory of another process, opened so that this process can write to it before it is sealed.

    Args:
      address: The address of the memory.

    Raises:
      OSError: The memory is on another machine or in another container, or this process may not open it.
    """

    def __init__(self, address: MemoryAddress) -> None:
        self._descriptor: int | None = _open(address, os.O_RDWR)
        self._nbytes = address.nbytes

    def write_box(self, at: int, shape: Sequence[int], box: Bounds, part: Any) -> None:
        """Write a part of an array, as `Sealed.write_box` does."""
        assert self._descriptor is not None
        _write_box(self._descriptor, self._nbytes, at, shape, box, part)

    def close(self) -> None:
        """Close this process's descriptor; the owner keeps the memory."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def mapped(address: MemoryAddress) -> mmap.mmap:
    """Map the memory at an address into this process, copy-on-write: pages that it writes to become its own.

    Args:
      address: Of it.

    Raises:
      OSError: As for `OpenedMemory`.
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
    # A part that is not contiguous is written through a mapping of every page, which takes longer.
    with mmap.mmap(descriptor, nbytes) as memory:
        whole = numpy.ndarray(tuple(shape), part.dtype, memory, offset=at)
        whole[slices(box)] = part
        del whole  # or the memory could not be unmapped


def _run(shape: Sequence[int], box: Bounds) -> int | None:
    """Return the flat index of the first element of a part of an array; None if the part is not contiguous."""
    first, stride, partial = 0, 1, False
    for size, (start, stop) in zip(reversed(shape), reversed(box), strict=True):
        if partial and stop - start > 1:
            return None
        partial |= stop - start < size
        first += start * stride
        stride *= size
    return first
