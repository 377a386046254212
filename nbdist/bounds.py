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
    """`[[0, 2], [4, 8]]` → 8."""
    return math.prod(stop - start for start, stop in bounds)


def part_length(size: int, parts: int) -> int:
    """Elements of the longest of the parts of a dimension: XLA rounds up where they do not divide it."""
    return -(-size // parts)


def distinct_parts(size: int, parts: int) -> int:
    """How many parts differ: where there are too few elements, the last parts are the same empty one."""
    length = part_length(size, parts)
    return min(parts, -(-size // length) + 1) if length else 1


def part(size: int, parts: int, number: int) -> tuple[int, int]:
    """Start and stop of part `number` of a dimension of `size` elements; the last may be shorter or empty."""
    length = part_length(size, parts)
    return min(size, number * length), min(size, (number + 1) * length)


def boxes(bounds: Bounds, itemsize: int, most_bytes: int) -> Iterator[Bounds]:
    """Divides a part of an array into parts of at most so many bytes, each as contiguous as it can be.

    An element is never divided. A part without elements gives nothing.
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
    """What lies in both; empty dimensions where nothing does."""
    return [
        [max(a, c), max(min(b, d), max(a, c))] for (a, b), (c, d) in zip(one, other, strict=True)
    ]


def contains(outer: Bounds, inner: Bounds) -> bool:
    """Whether all of `inner` lies in `outer`."""
    return all(a <= c and d <= b for (a, b), (c, d) in zip(outer, inner, strict=True))


def slices(bounds: Bounds, origin: Bounds | None = None) -> tuple[Any, ...]:
    """Bounds as an index; with `origin`, into an array that begins there."""
    starts = [0] * len(bounds) if origin is None else [start for start, _ in origin]
    found = [
        slice(start - first, stop - first)
        for (start, stop), first in zip(bounds, starts, strict=True)
    ]
    # With it, an array without dimensions gives itself in place of a number.
    return (*found, ...)


def shape_of(bounds: Bounds) -> tuple[int, ...]:
    """`[[0, 2], [4, 8]]` → `(2, 4)`."""
    return tuple(stop - start for start, stop in bounds)
