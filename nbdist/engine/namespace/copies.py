"""Copies of parts of arrays as they were after some cell, kept in the memory of this process.

All copies made at one moment form a round. In `Copying` the processes make a round: each gives parts of its arrays
to others, and keeps its own parts and the parts that it gets, so that the arrays can be made again after a process
has ended. `CopyStore` keeps the last round, and also the next round while it is being made. `Returning` brings the
parts of a round to new processes, and all processes go back to the round's arrays.
"""

from __future__ import annotations

import weakref
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec import structs

from nbdist.contract.calls.namespace import (
    CopiedPiece,
    CopiesOffer,
    NamespaceArray,
    RoundOffer,
    WentBack,
)
from nbdist.contract.calls.stepping import Origin
from nbdist.contract.calls.values import Box
from nbdist.engine.namespace.things import Placements
from nbdist.engine.values.arrays import ReadablePiece, digest
from nbdist.engine.values.incoming import ArraySink, ArraySource
from nbdist.errors import SessionError
from nbdist.machine import checkup
from nbdist.notation import bytes_text, dtype_named
from nbdist.pieces import contains, elements, shape_of, slices

Parts = Mapping[Box, Any]
"""NumPy arrays, each by the part of an array that it holds."""


@dataclass(frozen=True, kw_only=True)
class Round:
    """Copies made at one moment.

    Attributes:
      arrays: Arrays that lay on several processes or were alike on all, by path; `pieces` and `kept` mean nothing.
      parts: The parts of these arrays that this process keeps, by origin.
      there: The origins of all arrays that existed, with or without a path; None where not known.
    """

    arrays: Mapping[str, NamespaceArray]
    parts: Mapping[Origin, Parts]
    there: frozenset[Origin] | None = None


NOTHING = Round(arrays={}, parts={})


class CopyStore:
    """The rounds that are kept: the last one, and the next one while it is being made."""

    def __init__(self) -> None:
        self._rounds: dict[int, Round] = {}
        self._own: dict[int, tuple[weakref.ref[Any], Origin]] = {}

    def origin_of(self, array: Any, whole: ReadablePiece) -> Origin:
        """Return a stand-in for the origin of an array of this process alone; equal if the values are equal."""
        known = self._own.get(id(array))
        if known is None or known[0]() is not array:
            values = digest(whole.read())
            known = weakref.ref(array), (0, 0, f"own {array.dtype} {array.shape} {values}")
            self._own[id(array)] = known
        return known[1]

    def forget_origins(self, there: Collection[Any]) -> None:
        """Forget the origins of this process's own arrays, except these."""
        left = set(map(id, there))
        self._own = {number: known for number, known in self._own.items() if number in left}

    def add(self, number: int, made: Round) -> None:
        """Keep one more round."""
        self._rounds[number] = made

    def only(self, number: int) -> None:
        """Drop all rounds but the one with this number."""
        self._rounds = {n: made for n, made in self._rounds.items() if n == number}

    def round(self, number: int) -> Round:
        """Return the round with this number; an empty one where it is not kept."""
        return self._rounds.get(number, NOTHING)

    def of(self, origin: Origin) -> dict[Box, Any]:
        """Return all parts that are kept of the array with this origin."""
        found: dict[Box, Any] = {}
        for made in self._rounds.values():
            found.update(made.parts.get(origin, {}))
        return found

    def beside(self, array: NamespaceArray) -> list[ReadablePiece]:
        """Return the kept parts of an array that do not lie on this process."""
        if array.origin is None:
            return []
        return as_pieces({b: a for b, a in self.of(array.origin).items() if b not in array.pieces})

    @property
    def nbytes(self) -> int:
        """Bytes of all that is kept, each part once."""
        every = [
            part
            for made in self._rounds.values()
            for parts in made.parts.values()
            for part in parts.values()
        ]
        return sum(part.nbytes for part in {id(part): part for part in every}.values())


def within(parts: Parts, part: Box) -> Any | None:
    """Return a kept part of an array, cut out of a larger kept part if necessary; None if it is not kept."""
    if part in parts:
        return parts[part]
    larger = next((one for one in parts if contains(one, part)), None)
    return None if larger is None else parts[larger][slices(part, larger)]


def as_pieces(parts: Parts) -> list[ReadablePiece]:
    """Return copies as pieces that can be read."""
    return [
        ReadablePiece(bounds=part, read=lambda array=array: array)  # type: ignore[misc]
        for part, array in parts.items()
    ]


def with_copies(array: NamespaceArray, kept: list[ReadablePiece]) -> NamespaceArray:
    """Return the description of an array, with the kept parts beside its own."""
    return structs.replace(array, kept=tuple(one.bounds for one in kept))


MOST_OWN_BYTES = 64 << 20
"""Largest array of one process alone, in bytes, that is part of a round.

A larger one, such as the process's data, would have to be read once more.
"""

MOST_OF_FREE = 0.5
"""Largest share of the memory that is free before copies are made that copies may take."""


class ArrivingPieces(ArraySource, ArraySink):
    """Pieces of arrays that processes give each other: offered by this process, and arriving here."""

    def __init__(self) -> None:
        super().__init__()
        self._memories: list[Any] = []

    def expect(self, sizes: Iterable[int]) -> None:
        """Make room for pieces of so many bytes each."""
        import numpy

        self._memories = [numpy.empty(size, numpy.uint8) for size in sizes]

    def put(self, memory: int, at: int, data: Any) -> None:
        """Take bytes of the piece with the number `memory`."""
        self._memories[memory][at : at + len(data)] = memoryview(data)

    def close(self) -> None:
        """Let go of all pieces."""
        super().close()
        self._memories = []


class Copying(ArrivingPieces):
    """One round of copies on this process: parts that it gives to others, and parts that it keeps.

    Held from the round's first message to its last.

    Args:
      placements: Of the framework that the session computes with.
      store: Copies that this process keeps.
      where: The name of this process in text that people read.
    """

    def __init__(self, placements: Placements, store: CopyStore, where: str) -> None:
        super().__init__()
        self._store, self._where = store, where
        self._there = placements.origins()
        self._described: dict[str, NamespaceArray] = {}
        self._own: dict[str, Sequence[ReadablePiece]] = {}
        for number, (path, array) in enumerate(placements.spanning().items()):
            described, own = placements.describe(array, number), placements.pieces(array)
            kept = store.beside(described)
            self.add(str(number), described.dtype, [*own, *kept])
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
                pieces=(whole.bounds,),
            )
        store.forget_origins(alone.values())
        self._coming: Sequence[CopiedPiece] = ()

    def offer(self) -> CopiesOffer:
        """Return the arrays of this process, for the kernel."""
        return CopiesOffer(arrays=tuple(self._described.values()))

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
        sizes = [part_bytes(piece.box, piece.dtype) for piece in pieces]
        size = sum(sizes) + sum(
            part_bytes(one, array.dtype)
            for array in self._described.values()
            for one in set(array.pieces) - self._already(array).keys()
        )
        free = checkup.memory()["available"]
        if free is not None and size > MOST_OF_FREE * free:
            raise SessionError(
                f"copies would take {bytes_text(size)} of the {bytes_text(free)} of memory that are free on "
                f"{self._where}; at most half of it is used"
            )
        self._coming = pieces
        self.expect(sizes)

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
        super().close()
        self._described, self._own = {}, {}


def array_of(memory: Any, dtype: Any, part: Box) -> Any:
    """Return the bytes of a part as an array."""
    import numpy

    shape = shape_of(part)
    kind = dtype_named(dtype)
    return numpy.ndarray(shape, kind, memory) if memory.nbytes else numpy.empty(shape, kind)


def part_bytes(part: Box, dtype: Any) -> int:
    """Return the bytes of a part of an array."""
    return elements(part) * int(dtype_named(dtype).itemsize)


class Returning(ArrivingPieces):
    """The way back to a round's copies, for this process and for new processes that need parts of them.

    Args:
      placements: As for `Copying`.
      made: The round, as this process has it; a new process has nothing.
    """

    def __init__(self, placements: Placements, made: Round) -> None:
        super().__init__()
        self._placements = placements
        self._there = made.there
        self._arrays = dict(made.arrays)
        self._parts = {origin: dict(parts) for origin, parts in made.parts.items()}
        self._wanted: list[tuple[NamespaceArray, Box]] = []

    def offer(self) -> RoundOffer:
        """Return the round's arrays, the origins now at their paths, and the paths this process can make whole."""
        found = []
        for number, (path, array) in enumerate(self._arrays.items()):
            parts = self._kept(array)
            self.add(str(number), array.dtype, as_pieces(parts))
            found.append(structs.replace(array, key=path, pieces=tuple(parts), kept=()))
        now = self._placements.now(self._arrays)
        wanted = self._placements.wanted(self._arrays)
        whole = tuple(
            path
            for path, boxes in wanted.items()
            if all(within(self._kept(self._arrays[path]), one) is not None for one in boxes)
        )
        return RoundOffer(arrays=tuple(found), now=now, whole=whole)

    def receive(self, arrays: Sequence[NamespaceArray]) -> list[list[Box]]:
        """Make room for the parts of these arrays that are wanted here; return them, array by array."""
        self._arrays = {array.key: array for array in arrays}
        boxes = self._placements.wanted(self._arrays)
        self._wanted = [(a, one) for a in arrays for one in boxes.get(a.key, ())]
        self.expect(part_bytes(one, array.dtype) for array, one in self._wanted)
        return [list(boxes.get(array.key, ())) for array in arrays]

    def round(self) -> Round:
        """Return the round with the parts that have come."""
        for (array, one), memory in zip(self._wanted, self._memories, strict=True):
            assert array.origin is not None
            parts = self._parts.setdefault(array.origin, {})
            parts[one] = array_of(memory, array.dtype, one)
        return Round(arrays=self._arrays, parts=self._parts, there=self._there)

    def go_back(self, made: Round, paths: Sequence[str]) -> WentBack:
        """Make the arrays that were at these paths, and re-point references to the present ones at them."""
        wanted = {path: made.arrays[path] for path in paths}
        parts = {path: made.parts[a.origin] for path, a in wanted.items() if a.origin is not None}
        back = self._placements.go_back(wanted, parts)
        newer = [] if made.there is None else self._placements.newer(made.there)
        return WentBack(paths=tuple(back), newer=tuple(newer))

    def close(self) -> None:
        """Let go of the copies."""
        super().close()
        self._arrays, self._parts, self._wanted = {}, {}, []

    def _kept(self, array: NamespaceArray) -> Mapping[Box, Any]:
        return {} if array.origin is None else self._parts.get(array.origin, {})
