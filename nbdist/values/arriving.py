"""Arrays of this notebook that processes fill: those on its machine directly, others in messages."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from nbdist.bounds import Bounds, slices
from nbdist.engine.values.incoming import COMMON
from nbdist.machine.sealed import Sealed, mapped
from nbdist.values.spots import Piece, Spots

Array = np.ndarray[Any, Any]

LEAST_SHARED_BYTES = 1 << 20
"""In bytes; a smaller array comes faster in messages."""


class Arriving:
    """Memory for arrays that are to come.

    Args:
      arrays: The dtype and shape of each.

    Attributes:
      addresses: Of memories that processes on this machine can write to; none where this system has no such
        memory, or where it is not worth it.
    """

    def __init__(self, arrays: Sequence[tuple[np.dtype[Any], tuple[int, ...]]]) -> None:
        self._arrays = arrays
        self._pieces = [
            Piece(array=n, bounds=tuple((0, size) for size in shape), nbytes=_nbytes(dtype, shape))
            for n, (dtype, shape) in enumerate(arrays)
        ]
        self._spots = Spots(self._pieces)
        self._filled: dict[int, Array] = {}
        self._memories: list[Sealed] = []
        if sum(self._spots.sizes) >= LEAST_SHARED_BYTES:
            try:
                for size in self._spots.sizes:
                    self._memories.append(Sealed(size))
            except OSError:
                self.close()
        self.addresses = [memory.address for memory in self._memories]

    def dtype(self, number: int) -> np.dtype[Any]:
        """Return the dtype of an array."""
        return self._arrays[number][0]

    def spot(self, number: int) -> tuple[int, int]:
        """Return the memory in which an array lies, and how many bytes from its start."""
        return self._spots.of(self._pieces[number])

    def put(self, number: int, box: Bounds, part: Array) -> None:
        """Take a part of an array that has come in a message."""
        if self._memories:
            memory, at = self.spot(number)
            self._memories[memory].write_box(at, self._arrays[number][1], box, part)
        else:
            self._empty(number)[slices(box)] = part

    def arrays(self) -> list[Array]:
        """Return all arrays, when they are filled."""
        if not self._memories:
            return [self._empty(number) for number in range(len(self._arrays))]
        for memory in self._memories:
            memory.seal()
        maps = [mapped(its) if its.nbytes else b"" for its in self.addresses]
        return [self._mapped(number, maps) for number in range(len(self._arrays))]

    def close(self) -> None:
        """Leave the memory to the arrays that are in it."""
        for memory in self._memories:
            memory.close()
        self._memories = []

    def _empty(self, number: int) -> Array:
        if number not in self._filled:
            dtype, shape = self._arrays[number]
            self._filled[number] = np.empty(shape, dtype)
        return self._filled[number]

    def _mapped(self, number: int, maps: Sequence[Any]) -> Array:
        dtype, shape = self._arrays[number]
        if not _nbytes(dtype, shape):
            return np.empty(shape, dtype)
        memory, at = self.spot(number)
        found: Array = np.ndarray(shape, dtype, maps[memory], offset=at)
        return found.copy() if memory == COMMON else found


def _nbytes(dtype: np.dtype[Any], shape: Sequence[int]) -> int:
    return int(dtype.itemsize) * math.prod(shape)
