"""What an array on several processes looks like: its corners and a few numbers, out of what each has of it.

Each process describes the pieces that lie on it (`nbdist.engine.jax.summary`); nothing is computed on a device,
and no process waits for another. What is missing is said.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from nbdist.dtypes import dtype_named

MIME = "application/vnd.nbdist.summary+json"
"""Of one process's part of a summary, beside the text that JAX gives the array."""

FACTS = ("shape", "dtype", "about", "grid")
"""What is the same in the parts of all processes."""

WHOLE = 1000
"""An array of so few values is shown whole, as NumPy does."""

EDGE = 3
"""So many values at either end of an axis are shown of a larger one."""

MOST_SHOWN = 4096

Grid = list[list[int]]
"""The places along each axis whose values are shown."""


def corners(shape: Sequence[int]) -> Grid | None:
    """The grid that NumPy shows of an array of this shape; None where it has too many axes."""
    if prod(shape) <= WHOLE:
        return [list(range(size)) for size in shape]
    grid = [
        list(range(size)) if size <= 2 * EDGE else [*range(EDGE), *range(size - EDGE, size)]
        for size in shape
    ]
    return grid if prod(map(len, grid)) <= MOST_SHOWN else None


def text(parts: Sequence[Mapping[str, Any]]) -> str:
    """The summary of an array.

    Args:
      parts: Of each process what `nbdist.engine.jax.summary.summarize` answers; their `FACTS` are equal.
    """
    first = parts[0]
    pieces = [piece for part in parts for piece in part["pieces"]]
    lines = [first["about"]]
    if first["grid"] is not None and all("values" in piece for piece in pieces):
        lines.append(_shown(first, pieces))
    lines.append(_numbers(first, pieces))
    return "\n".join(lines)


def _numbers(facts: Mapping[str, Any], pieces: Sequence[Mapping[str, Any]]) -> str:
    """`min 0  mean 0.5  max 1  NaN 0`, and of how many values where some are missing."""
    total = prod(facts["shape"])
    known = [piece["numbers"] for piece in pieces if piece["numbers"] is not None]
    size = sum(piece["size"] for piece in pieces if piece["numbers"] is not None)
    unread = len(known) < len(pieces)
    why = "the rest is too large to be looked at" if unread else "these processes have no others"
    if not size:
        return f"of no values: {why}" if total else "no values"
    said = []
    counted = sum(numbers["counted"] for numbers in known)
    ordered = [numbers for numbers in known if "min" in numbers]
    if ordered:
        number = int if all(isinstance(numbers["min"], int) for numbers in ordered) else float
        low = min(number(numbers["min"]) for numbers in ordered)
        high = max(number(numbers["max"]) for numbers in ordered)
        mean = sum(float(numbers["sum"]) for numbers in ordered) / counted
        said += [f"min {_short(low)}", f"mean {_short(mean)}", f"max {_short(high)}"]
    nan = sum(numbers["nan"] for numbers in known)
    said.append(f"NaN {nan}" + (", left out of these" if nan and said else ""))
    if size < total:
        said.append(f"of {size} of {total} values: {why}")
    return "  ".join(said)


def _short(number: float) -> str:
    return str(number) if isinstance(number, int) else f"{number:.6g}"


def _shown(facts: Mapping[str, Any], pieces: Sequence[Mapping[str, Any]]) -> str:
    import numpy as np

    shape, grid = facts["shape"], facts["grid"]
    values = np.zeros([len(places) for places in grid], dtype_named(facts["dtype"]))
    missing = np.ones(values.shape, bool)
    for piece in pieces:
        bounds = piece["places"]
        where = tuple(slice(low, high) for low, high in bounds)
        part = np.frombuffer(base64.b64decode(piece["values"]), values.dtype)
        values[where] = part.reshape([high - low for low, high in bounds])
        missing[where] = False
    whole = prod(shape) <= WHOLE
    for axis, size in enumerate(shape):
        if not whole and size > 2 * EDGE:
            # One more in the middle of an axis stands for all that is left out: NumPy prints dots there.
            places = [*range(EDGE), EDGE, *range(EDGE, 2 * EDGE)]
            values, missing = values.take(places, axis), missing.take(places, axis)
    shown = np.ma.array(values, mask=missing) if missing.any() else values
    with np.printoptions(threshold=WHOLE if whole else 0, edgeitems=EDGE, linewidth=100):
        return str(shown)
