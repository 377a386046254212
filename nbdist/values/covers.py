"""Of which parts that there are a part of an array is put together: pure functions."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from nbdist.bounds import Bounds, contains, elements, intersection
from nbdist.contract.calls.values import Box, box


def cover(wanted: Bounds, pieces: Iterable[Box]) -> tuple[Box, ...]:
    """The parts, each in one of the pieces, that together are `wanted`, and that do not overlap.

    Args:
      wanted: A part of an array.
      pieces: The parts of it that processes have, in any order, several times where several have the same.

    Returns:
      `wanted` itself where it lies in one piece, has no elements, or is not there as a whole.
    """
    every = list(dict.fromkeys(pieces))
    itself = (box(wanted),)
    if not elements(wanted) or any(contains(piece, wanted) for piece in every):
        return itself
    parts = [box(intersection(wanted, piece)) for piece in every]
    found = list(dict.fromkeys(part for part in parts if elements(part)))
    if sum(map(elements, found)) != elements(wanted):
        return itself
    if any(elements(intersection(a, b)) for a, b in itertools.combinations(found, 2)):
        return itself
    return tuple(found)
