"""Pieces of arrays that a kernel takes from this process, in parts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from nbdist.bounds import shape_of, slices
from nbdist.contract.calls.values import OfferedBox
from nbdist.dtypes import dtype_named
from nbdist.engine.values.arrays import Piece


class OfferedPieces:
    """Arrays by number, each with its pieces; a piece is read once, when its first part is taken."""

    def __init__(self) -> None:
        self._pieces: list[tuple[Any, Sequence[Piece]]] = []
        self._read: dict[tuple[int, int], Any] = {}

    def add(self, dtype: Any, pieces: Sequence[Piece]) -> None:
        """Add the array of the next number."""
        self._pieces.append((dtype_named(dtype), pieces))

    def take(self, boxes: Iterable[OfferedBox]) -> bytes:
        """Return the bytes of parts of arrays, one behind the other; the path of each is its array's number."""
        return b"".join(self._box(one).tobytes() for one in boxes)

    def clear(self) -> None:
        """Let go of all pieces."""
        self._pieces = []
        self._read.clear()

    def _box(self, one: OfferedBox) -> Any:
        number = int(one.path)
        dtype, pieces = self._pieces[number]
        piece = pieces[one.piece]
        found = self._read.get((number, one.piece))
        if found is None:
            found = piece.read().reshape(shape_of(piece.bounds)).view(dtype)
            self._read[number, one.piece] = found
        return found[slices(one.box, piece.bounds)]
