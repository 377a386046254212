"""Copies of parts of arrays in the memory of this process, as they were after some cell."""

from __future__ import annotations

import weakref
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from nbdist.bounds import contains, slices
from nbdist.contract.calls.namespace import NamespaceArray
from nbdist.contract.calls.stepping import Origin
from nbdist.contract.calls.values import Box
from nbdist.engine.values.arrays import Piece, digest

Parts = Mapping[Box, Any]
"""NumPy arrays, by which part of an array each is."""


@dataclass(frozen=True, kw_only=True)
class Round:
    """What was copied at one moment.

    Attributes:
      arrays: What lay on several processes, or was the same on all, by path; `pieces` and `kept` mean nothing.
      parts: What this process keeps of them, by the program that computed the array.
      there: The origins of all arrays that there were, also of those that no path led to; None where not known.
    """

    arrays: Mapping[str, NamespaceArray]
    parts: Mapping[Origin, Parts]
    there: frozenset[Origin] | None = None


NOTHING = Round(arrays={}, parts={})


class CopyStore:
    """The rounds that are kept: the last one, and while another is made that one as well."""

    def __init__(self) -> None:
        self._rounds: dict[int, Round] = {}
        self._own: dict[int, tuple[weakref.ref[Any], Origin]] = {}

    def origin_of(self, array: Any, whole: Piece) -> Origin:
        """What stands for the program that computed an array of this process's own: equal where the values are."""
        known = self._own.get(id(array))
        if known is None or known[0]() is not array:
            values = digest(whole.read())
            known = weakref.ref(array), (0, 0, f"own {array.dtype} {array.shape} {values}")
            self._own[id(array)] = known
        return known[1]

    def forget_origins(self, there: Collection[Any]) -> None:
        """But of these arrays."""
        left = set(map(id, there))
        self._own = {number: known for number, known in self._own.items() if number in left}

    def add(self, number: int, made: Round) -> None:
        """Keeps one more."""
        self._rounds[number] = made

    def only(self, number: int) -> None:
        """Keeps no others than this."""
        self._rounds = {n: made for n, made in self._rounds.items() if n == number}

    def round(self, number: int) -> Round:
        """The one of this number; an empty one where it is not kept."""
        return self._rounds.get(number, NOTHING)

    def of(self, origin: Origin) -> dict[Box, Any]:
        """All that is kept of an array."""
        found: dict[Box, Any] = {}
        for made in self._rounds.values():
            found.update(made.parts.get(origin, {}))
        return found

    def beside(self, array: NamespaceArray) -> list[Piece]:
        """What is kept of an array beside the parts that lie on this process."""
        if array.origin is None:
            return []
        return as_pieces({b: a for b, a in self.of(array.origin).items() if b not in array.pieces})

    @property
    def nbytes(self) -> int:
        """Of all that is kept, each once."""
        every = [
            part
            for made in self._rounds.values()
            for parts in made.parts.values()
            for part in parts.values()
        ]
        return sum(part.nbytes for part in {id(part): part for part in every}.values())


def within(parts: Parts, part: Box) -> Any | None:
    """A part of an array, of those that are kept or of a larger one; None where it is in none."""
    if part in parts:
        return parts[part]
    larger = next((one for one in parts if contains(one, part)), None)
    return None if larger is None else parts[larger][slices(part, larger)]


def as_pieces(parts: Parts) -> list[Piece]:
    """Copies as pieces that can be read."""
    return [
        Piece(bounds=[[*one] for one in part], read=lambda array=array: array)  # type: ignore[misc]
        for part, array in parts.items()
    ]


def with_copies(array: NamespaceArray, kept: list[Piece]) -> NamespaceArray:
    """The description of an array, with the parts that are kept of it beside its own."""
    boxes = tuple(tuple((start, stop) for start, stop in one.bounds) for one in kept)
    return replace(array, kept=boxes)
