"""Pure functions that choose existing parts from which to put together a part of an array."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from nbdist.bounds import Bounds, contains, elements, intersection
from nbdist.contract.calls.values import Box, box


def cover(wanted: Bounds, pieces: Iterable[Box]) -> tuple[Box, ...]:
    """Return parts that together are `wanted`, do not overlap, and each lie in one of the pieces.

    Args:
      wanted: A part of an array.
      pieces: The parts of it that processes have, in any order, repeated where several processes have the same.

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
