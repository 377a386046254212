"""Parts of arrays, as bounds in the whole array: divided, intersected, and as an index of NumPy.

Source: imports nothing outside the standard library.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

Bounds = Sequence[Sequence[int]]
"""Half-open element indices, one pair for each dimension."""


def elements(bounds: Bounds) -> int:
    """Return the number of elements: `[[0, 2], [4, 8]]` → 8."""
    return math.prod(stop - start for start, stop in bounds)


def part_length(size: int, parts: int) -> int:
    """Return the length of the longest part of a dimension: XLA rounds up where `parts` does not divide `size`."""
    return -(-size // parts)


def distinct_parts(size: int, parts: int) -> int:
    """Return how many parts differ: with too few elements, the last parts are all the same empty one."""
    length = part_length(size, parts)
    return min(parts, -(-size // length) + 1) if length else 1


def part(size: int, parts: int, number: int) -> tuple[int, int]:
    """Return start and stop of part `number` of a dimension of `size` elements; the last may be short or empty."""
    length = part_length(size, parts)
    return min(size, number * length), min(size, (number + 1) * length)


def boxes(bounds: Bounds, itemsize: int, most_bytes: int) -> Iterator[Bounds]:
    """Divide a part of an array into boxes of at most `most_bytes`, each as contiguous as possible.

    Never divides an element. A part without elements gives no box.
    """
    count = elements(bounds)
    if not count:
        return
    if count * itemsize <= most_bytes or count == 1:
        yield bounds
        return
    axis = next(axis for axis, (start, stop) in enumerate(bounds) if stop - start > 1)
    start, stop = bounds[axis]
    each = count // (stop - start) * itemsize
    step = max(1, most_bytes // each)
    for begin in range(start, stop, step):
        inner = [list(pair) for pair in bounds]
        inner[axis] = [begin, min(begin + step, stop)]
        yield from boxes(inner, itemsize, most_bytes)


def intersection(one: Bounds, other: Sequence[Sequence[int]]) -> Bounds:
    """Return the part that lies in both; its dimensions are empty where the two do not overlap."""
    return [
        [max(a, c), max(min(b, d), max(a, c))] for (a, b), (c, d) in zip(one, other, strict=True)
    ]


def contains(outer: Bounds, inner: Bounds) -> bool:
    """Whether all of `inner` lies in `outer`."""
    return all(a <= c and d <= b for (a, b), (c, d) in zip(outer, inner, strict=True))


def slices(bounds: Bounds, origin: Bounds | None = None) -> tuple[Any, ...]:
    """Return the bounds as an index of NumPy; with `origin`, as an index into an array that begins there."""
    starts = [0] * len(bounds) if origin is None else [start for start, _ in origin]
    found = [
        slice(start - first, stop - first)
        for (start, stop), first in zip(bounds, starts, strict=True)
    ]
    # With the Ellipsis, indexing an array without dimensions gives an array, not a scalar.
    return (*found, ...)


def shape_of(bounds: Bounds) -> tuple[int, ...]:
    """Return the shape: `[[0, 2], [4, 8]]` → `(2, 4)`."""
    return tuple(stop - start for start, stop in bounds)
