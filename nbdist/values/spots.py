"""Places of pushed pieces in memories that the processes of a machine share."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nbdist.bounds import Bounds, elements
from nbdist.engine.values.incoming import COMMON

OWN_BYTES = 1 << 20
"""Pieces from this size in bytes on have a memory of their own, which is freed with them."""

MOST_OWN = 64 if sys.version_info >= (3, 13) else 8
"""The most such memories, for the largest pieces; few where each takes a file descriptor while its array lives."""

ALIGNED_BYTES = 64
"""NumPy and XLA align their arrays in the same way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A part of the array of number `array` that some process wants."""

    array: int
    bounds: Bounds
    nbytes: int

    @property
    def key(self) -> tuple[int, str]:
        """A key that is equal for equal pieces."""
        return self.array, str(self.bounds)


class Spots:
    """Room for each piece once.

    Args:
      pieces: The wanted pieces, in any order and any number of times.

    Attributes:
      pieces: Each once, the largest first.
      sizes: Of the memories, in bytes.
    """

    def __init__(self, pieces: Iterable[Piece]) -> None:
        distinct = {piece.key: piece for piece in pieces}
        self.pieces = sorted(distinct.values(), key=lambda piece: -piece.nbytes)
        self.sizes = [0]
        self._of: dict[tuple[int, str], tuple[int, int]] = {}
        for nth, piece in enumerate(self.pieces):
            if nth < MOST_OWN and piece.nbytes >= OWN_BYTES:
                self._of[piece.key] = (len(self.sizes), 0)
                self.sizes.append(piece.nbytes)
            else:
                self._of[piece.key] = (COMMON, self.sizes[COMMON])
                self.sizes[COMMON] += -(-piece.nbytes // ALIGNED_BYTES) * ALIGNED_BYTES

    def of(self, piece: Piece) -> tuple[int, int]:
        """Return the number of a piece's memory, and how many bytes from the start of it."""
        return self._of[piece.key]

    def copied_bytes(self, pieces: Iterable[Piece]) -> int:
        """Return how many bytes of these a process copies out of the common memory."""
        return sum(piece.nbytes for piece in pieces if self.of(piece)[0] == COMMON)


def pieces_of(wanted: Iterable[Iterable[Bounds]], itemsizes: Sequence[int]) -> list[list[Piece]]:
    """Return the pieces that a process wants of each array, in its order.

    Args:
      wanted: Bounds, by array.
      itemsizes: By array, in bytes.
    """
    return [
        [Piece(array=n, bounds=b, nbytes=elements(b) * itemsizes[n]) for b in bounds]
        for n, bounds in enumerate(wanted)
    ]
