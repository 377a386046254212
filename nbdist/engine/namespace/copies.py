"""Copies of parts of arrays, kept in the memory of this process as they were after some cell."""

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
"""NumPy arrays, each by the part of an array that it holds."""


@dataclass(frozen=True, kw_only=True)
class Round:
    """Copies made at one moment.

    Attributes:
      arrays: Arrays that lay on several processes or were alike on all, by path; `pieces` and `kept` mean nothing.
      parts: The parts of these arrays that this process keeps, by origin.
      there: The origins of all arrays that existed, also of those that no path led to; None where not known.
    """

    arrays: Mapping[str, NamespaceArray]
    parts: Mapping[Origin, Parts]
    there: frozenset[Origin] | None = None


NOTHING = Round(arrays={}, parts={})


class CopyStore:
    """Rounds that are kept: the last one, and with it the next one while that is made."""

    def __init__(self) -> None:
        self._rounds: dict[int, Round] = {}
        self._own: dict[int, tuple[weakref.ref[Any], Origin]] = {}

    def origin_of(self, array: Any, whole: Piece) -> Origin:
        """Return a stand-in for the origin of this process's own array, equal where its values are."""
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

    def beside(self, array: NamespaceArray) -> list[Piece]:
        """Return the parts that are kept of an array beside those that lie on this process."""
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
    """Return a kept part of an array, or the same part of a larger kept one; None where neither is kept."""
    if part in parts:
        return parts[part]
    larger = next((one for one in parts if contains(one, part)), None)
    return None if larger is None else parts[larger][slices(part, larger)]


def as_pieces(parts: Parts) -> list[Piece]:
    """Return copies as pieces that can be read."""
    return [
        Piece(bounds=[[*one] for one in part], read=lambda array=array: array)  # type: ignore[misc]
        for part, array in parts.items()
    ]


def with_copies(array: NamespaceArray, kept: list[Piece]) -> NamespaceArray:
    """Return the description of an array, with the kept parts beside its own."""
    boxes = tuple(tuple((start, stop) for start, stop in one.bounds) for one in kept)
    return replace(array, kept=boxes)
