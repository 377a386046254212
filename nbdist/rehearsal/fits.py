"""Whether a spec can split an array on a mesh, and what would where it cannot.

Source: imports nothing outside the standard library.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from difflib import get_close_matches

from nbdist.engine.frameworks.shapes import Entries
from nbdist.notation import entries_text
from nbdist.quantities import count_text
from nbdist.rehearsal.mesh import Axes, axes_text


def impossible(entries: Entries, shape: Sequence[int], axes: Axes) -> str | None:
    """Why no array of this shape can have this spec on the mesh; None where it can, evenly or not."""
    used = [axis for entry in entries for axis in entry]
    for axis in used:
        if axis not in axes:
            near = get_close_matches(axis, axes, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            return f"axis {axis!r} is not in mesh {axes_text(axes)}.{hint}"
    for axis, times in Counter(used).items():
        if times > 1:
            return f"{entries_text(entries)} uses axis {axis!r} {times} times; each can split one dimension."
    if len(entries) > len(shape):
        return (
            f"{entries_text(entries)} has {count_text(len(entries), 'entry')}, the array has "
            f"{count_text(len(shape), 'dimension')}."
        )
    return None


def padded(entries: Entries, shape: Sequence[int]) -> Entries:
    """One entry for each dimension: what a spec leaves out at its end is whole."""
    return entries + ((),) * (len(shape) - len(entries))


def parts(entry: Sequence[str], axes: Axes) -> int:
    """Into how many parts an entry cuts its dimension."""
    return math.prod(axes[axis] for axis in entry)


def uneven(entries: Entries, shape: Sequence[int], axes: Axes) -> str | None:
    """Which dimension is not divided evenly, and what would be; None where all are.

    Args:
      entries: One for each dimension.
      shape: Of the array.
      axes: Of the mesh.
    """
    for dimension, (size, entry) in enumerate(zip(shape, entries, strict=True)):
        count = parts(entry, axes)
        if size % count == 0:
            continue
        by = " × ".join(f"{axis}={axes[axis]}" for axis in entry)
        return (
            f"dimension {dimension} of {size} is not divisible by {by}. "
            f"Fits: {', or '.join(_remedies(entries, shape, axes, dimension))}."
        )
    return None


def _remedies(entries: Entries, shape: Sequence[int], axes: Axes, dimension: int) -> list[str]:
    size, entry = shape[dimension], entries[dimension]
    count = parts(entry, axes)
    found = []
    others = [
        (other_size, other)
        for other, (other_size, other_entry) in enumerate(zip(shape, entries, strict=True))
        if other != dimension and not other_entry and other_size and other_size % count == 0
    ]
    if others:
        other_size, other = max(others)
        found.append(f"split dimension {other} of {other_size} instead")
    fewer = next(
        (entry[:n] for n in range(len(entry) - 1, 0, -1) if size % parts(entry[:n], axes) == 0), ()
    )
    if fewer:
        found.append(f"split it over {' and '.join(fewer)} alone")
    elif len(entry) == 1 and math.gcd(size, count) > 1:
        found.append(f"a mesh with {entry[0]}={math.gcd(size, count)}")
    found.append(f"pad it to {-(-size // count) * count}")
    return found


def could_split(entries: Entries, shape: Sequence[int], axes: Axes) -> str | None:
    """An axis of the mesh that an array does not use, and that divides one of its dimensions; None for none.

    Args:
      entries: One for each dimension.
      shape: Of the array.
      axes: Of the mesh.

    Returns:
      That with the most devices, for the longest dimension: `data=16 divides dimension 0 of 32000`.
    """
    used = {axis for entry in entries for axis in entry}
    free = sorted(((size, name) for name, size in axes.items() if name not in used and size > 1))
    for count, name in reversed(free):
        fitting = [
            (size // parts(entry, axes), -dimension, size)
            for dimension, (size, entry) in enumerate(zip(shape, entries, strict=True))
            if size and size % (parts(entry, axes) * count) == 0
        ]
        if fitting:
            _, place, size = max(fitting)
            return f"{name}={count} divides dimension {-place} of {size}"
    return None
