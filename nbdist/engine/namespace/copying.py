"""One round of copies on this process: parts that it gives to others, and parts that it keeps."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from nbdist.bounds import elements, shape_of
from nbdist.contract.calls.copies import CopiedPiece, CopiesOffer
from nbdist.contract.calls.namespace import NamespaceArray
from nbdist.contract.calls.stepping import Origin
from nbdist.contract.calls.values import Box, OfferedBox, box
from nbdist.dtypes import dtype_named
from nbdist.engine.namespace.copies import CopyStore, Round, as_pieces, with_copies, within
from nbdist.engine.namespace.pieces import OfferedPieces
from nbdist.engine.namespace.placements import Placements
from nbdist.engine.values.arrays import Piece
from nbdist.engine.values.moving import Sink, Source
from nbdist.errors import SessionError
from nbdist.machine import checkup
from nbdist.quantities import bytes_text

MOST_OWN_BYTES = 64 << 20
"""Largest array of one process alone in a round. Larger ones, such as its data, would each be read once more."""

MOST_OF_FREE = 0.5
"""Largest share of the free memory, as it is before copies are made, that copies take."""


class Copying(Source, Sink):
    """State of a round, held from its first message to its last.

    Args:
      placements: Of the framework that the session computes with.
      store: Copies that this process keeps.
      where: The name of this process in text that people read.
    """

    def __init__(self, placements: Placements, store: CopyStore, where: str) -> None:
        self._store, self._where = store, where
        self._offered = OfferedPieces()
        self._there = placements.origins()
        self._described: dict[str, NamespaceArray] = {}
        self._own: dict[str, Sequence[Piece]] = {}
        for number, (path, array) in enumerate(placements.spanning().items()):
            described, own = placements.describe(array, number), placements.pieces(array)
            kept = store.beside(described)
            self._offered.add(described.dtype, [*own, *kept])
            self._described[path], self._own[path] = with_copies(described, kept), own
        alone = {p: one for p, one in placements.own().items() if one.nbytes <= MOST_OWN_BYTES}
        for path, array in alone.items():
            whole = placements.whole(array)
            self._own[path] = [whole]
            self._described[path] = NamespaceArray(
                key=path,
                dtype=str(array.dtype),
                shape=tuple(array.shape),
                spans=False,
                origin=store.origin_of(array, whole),
                pieces=(box(whole.bounds),),
            )
        store.forget_origins(alone.values())
        self._coming: Sequence[CopiedPiece] = ()
        self._memories: list[Any] = []

    def offer(self) -> CopiesOffer:
        """Return the arrays of this process, for the kernel."""
        return CopiesOffer(arrays=tuple(self._described.values()))

    def take(self, boxes: Sequence[OfferedBox]) -> bytes:
        """Return the bytes of parts of arrays, one behind the other."""
        return self._offered.take(boxes)

    def receive(self, pieces: Sequence[CopiedPiece], *, left_out: Collection[str]) -> None:
        """Make room for copies.

        Args:
          pieces: The pieces that come.
          left_out: Paths that are no part of the round.

        Raises:
          SessionError: The copies would take more than `MOST_OF_FREE` of the free memory; none of them is kept.
        """
        for path in left_out:
            self._described.pop(path, None)
        sizes = [elements(_bounds(p.box)) * dtype_named(p.dtype).itemsize for p in pieces]
        size = sum(sizes) + sum(
            elements(_bounds(one)) * dtype_named(array.dtype).itemsize
            for array in self._described.values()
            for one in set(array.pieces) - self._already(array).keys()
        )
        free = checkup.memory()["available"]
        if free is not None and size > MOST_OF_FREE * free:
            raise SessionError(
                f"copies would take {bytes_text(size)} of the {bytes_text(free)} of memory that are free on "
                f"{self._where}; at most half of it is used"
            )
        import numpy

        self._coming = pieces
        self._memories = [numpy.empty(size, numpy.uint8) for size in sizes]

    def put(self, memory: int, at: int, data: Any) -> None:
        """Take bytes of the piece with the number `memory`."""
        self._memories[memory][at : at + len(data)] = memoryview(data)

    def keep(self, number: int) -> None:
        """Keep all pieces that have come, and earlier copies of arrays that are still there."""
        import numpy

        parts: dict[Origin, dict[Box, Any]] = {}
        for path, array in self._described.items():
            assert array.origin is not None
            mine, already = parts.setdefault(array.origin, {}), self._already(array)
            mine.update({one: already[one] for one in array.kept})
            for one, piece in zip(array.pieces, self._own[path], strict=True):
                if one not in mine:
                    mine[one] = (
                        already[one] if one in already else numpy.array(piece.read(), copy=True)
                    )
        for coming, memory in zip(self._coming, self._memories, strict=True):
            parts.setdefault(coming.origin, {})[coming.box] = array_of(
                memory, coming.dtype, coming.box
            )
        there = self._there | parts.keys()
        self._store.add(number, Round(arrays=self._described, parts=parts, there=there))

    def _already(self, array: NamespaceArray) -> dict[Box, Any]:
        return {} if array.origin is None else self._store.of(array.origin)

    def close(self) -> None:
        """Let go of the arrays."""
        self._offered.clear()
        self._described, self._own, self._memories = {}, {}, []


def array_of(memory: Any, dtype: Any, part: Box) -> Any:
    """Return the bytes of a part as an array."""
    import numpy

    shape = shape_of(_bounds(part))
    kind = dtype_named(dtype)
    return numpy.ndarray(shape, kind, memory) if memory.nbytes else numpy.empty(shape, kind)


def _bounds(part: Box) -> list[list[int]]:
    return [[*one] for one in part]


class Returning(Source, Sink):
    """Copies of a round, for this process and for new ones that need parts of them.

    Args:
      placements: As for `Copying`.
      made: The round, as this process has it; a new process has nothing.
    """

    def __init__(self, placements: Placements, made: Round) -> None:
        self._placements = placements
        self._there = made.there
        self._arrays = dict(made.arrays)
        self._parts = {origin: dict(parts) for origin, parts in made.parts.items()}
        self._offered = OfferedPieces()
        self._wanted: list[tuple[NamespaceArray, Box]] = []
        self._memories: list[Any] = []

    def offer(self) -> tuple[list[NamespaceArray], Mapping[str, Origin], list[str]]:
        """Return the round's arrays, the origins now at their paths, and the paths this process can make whole."""
        found = []
        for path, array in self._arrays.items():
            parts = self._kept(array)
            self._offered.add(array.dtype, as_pieces(parts))
            found.append(
                NamespaceArray(
                    key=path,
                    dtype=array.dtype,
                    shape=array.shape,
                    spans=array.spans,
                    origin=array.origin,
                    pieces=tuple(parts),
                )
            )
        now = self._placements.now(self._arrays)
        wanted = self._placements.wanted(self._arrays)
        whole = [
            path
            for path, boxes in wanted.items()
            if all(within(self._kept(self._arrays[path]), one) is not None for one in boxes)
        ]
        return found, now, whole

    def take(self, boxes: Sequence[OfferedBox]) -> bytes:
        """Return the bytes of parts of arrays, one behind the other."""
        return self._offered.take(boxes)

    def receive(self, arrays: Sequence[NamespaceArray]) -> list[list[Box]]:
        """Make room for the parts of these arrays that are wanted here; return them, array by array."""
        import numpy

        self._arrays = {array.key: array for array in arrays}
        boxes = self._placements.wanted(self._arrays)
        self._wanted = [(a, one) for a in arrays for one in boxes.get(a.key, ())]
        self._memories = [
            numpy.empty(elements(_bounds(one)) * dtype_named(a.dtype).itemsize, numpy.uint8)
            for a, one in self._wanted
        ]
        return [list(boxes.get(array.key, ())) for array in arrays]

    def put(self, memory: int, at: int, data: Any) -> None:
        """Take bytes of the wanted part with the number `memory`."""
        self._memories[memory][at : at + len(data)] = memoryview(data)

    def round(self) -> Round:
        """Return the round with the parts that have come."""
        for (array, one), memory in zip(self._wanted, self._memories, strict=True):
            assert array.origin is not None
            parts = self._parts.setdefault(array.origin, {})
            parts[one] = array_of(memory, array.dtype, one)
        return Round(arrays=self._arrays, parts=self._parts, there=self._there)

    def go_back(self, made: Round, paths: Sequence[str]) -> tuple[list[str], list[str]]:
        """Make the arrays that were at these paths, and re-point references to the present ones at them.

        Returns:
          All paths that lead to the made arrays, and what leads to arrays that are newer than the round.
        """
        wanted = {path: made.arrays[path] for path in paths}
        parts = {path: made.parts[a.origin] for path, a in wanted.items() if a.origin is not None}
        back = self._placements.go_back(wanted, parts)
        return back, [] if made.there is None else self._placements.newer(made.there)

    def close(self) -> None:
        """Let go of the copies."""
        self._offered.clear()
        self._arrays, self._parts, self._wanted, self._memories = {}, {}, [], []

    def _kept(self, array: NamespaceArray) -> Mapping[Box, Any]:
        return {} if array.origin is None else self._parts.get(array.origin, {})
