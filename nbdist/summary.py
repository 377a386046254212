"""Summary of an array on several processes: its corners and a few numbers, from each process's part.

Each process describes the pieces that lie on it (`nbdist.engine.frameworks.jax.arrays`); nothing is computed on a
device, and no process waits for another. Missing pieces are named.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from math import prod
from typing import Any

from msgspec import structs

from nbdist.contract.calls.inspection import ArraySummary, PieceSummary
from nbdist.notation import dtype_named


def facts(part: ArraySummary) -> ArraySummary:
    """Return the fields that must be equal in all processes' parts: all except the pieces."""
    return structs.replace(part, pieces=())


WHOLE = 1000
"""An array with at most this many values is shown whole, as NumPy does."""

EDGE = 3
"""The number of values shown at either end of an axis of a larger array."""

MOST_SHOWN = 4096

Grid = Sequence[Sequence[int]]
"""The places along each axis whose values are shown."""


def corners(shape: Sequence[int]) -> Grid | None:
    """Return the grid that NumPy shows of an array of this shape; None if it has too many axes."""
    if prod(shape) <= WHOLE:
        return [list(range(size)) for size in shape]
    grid = [
        list(range(size)) if size <= 2 * EDGE else [*range(EDGE), *range(size - EDGE, size)]
        for size in shape
    ]
    return grid if prod(map(len, grid)) <= MOST_SHOWN else None


PICTURE = 48
"""The most places of each axis in a picture."""


def places(shape: Sequence[int]) -> Grid | None:
    """Return the grid of a picture: places of the last two axes, the first of all others; None for a scalar."""
    if not shape or not prod(shape):
        return None
    return [*([0] for _ in shape[:-2]), *(_spread(size) for size in shape[-2:])]


def _spread(size: int) -> list[int]:
    count = min(size, PICTURE)
    return [number * size // count for number in range(count)]


def picture(parts: Sequence[ArraySummary]) -> dict[str, Any] | None:
    """Return the values at the places of a grid, for a picture.

    Args:
      parts: One for each process, made with the grid of `places`.

    Returns:
      `rows`, `columns`, `low` and `high` (of the values that are numbers), and `values`, row by row: from 0
      (`low`) to 1 (`high`), `"nan"` for a number that is not finite, None for a missing one. The result is None if
      there is nothing to draw.
    """
    import numpy as np

    first = parts[0]
    pieces = [piece for part in parts for piece in part.pieces]
    if first.grid is None or first.dtype.startswith("complex"):
        return None
    if not all(piece.values is not None for piece in pieces):
        return None
    values, missing = _collected(first, pieces)
    values = values.astype(np.float64).reshape(-1, values.shape[-1])
    missing = missing.reshape(values.shape)
    known = np.isfinite(values) & ~missing
    low, high = (float(f(values[known])) if known.any() else 0.0 for f in (np.min, np.max))
    scale = (high - low) or 1.0
    drawn = [
        None if gone else round((value - low) / scale, 3) if good else "nan"
        for value, good, gone in zip(values.ravel().tolist(), known.flat, missing.flat, strict=True)
    ]
    rows, columns = values.shape
    return {"rows": rows, "columns": columns, "low": low, "high": high, "values": drawn}


def text(parts: Sequence[ArraySummary]) -> str:
    """Return the summary of an array as text.

    Args:
      parts: One for each process; their `facts` are equal.
    """
    first = parts[0]
    pieces = [piece for part in parts for piece in part.pieces]
    lines = [first.about]
    if first.grid is not None and all(piece.values is not None for piece in pieces):
        lines.append(_shown(first, pieces))
    lines.append(_numbers(first, pieces))
    return "\n".join(lines)


def _numbers(facts: ArraySummary, pieces: Sequence[PieceSummary]) -> str:
    """Return `min 0  mean 0.5  max 1  NaN 0`; if values are missing, also how many these figures cover."""
    total = prod(facts.shape)
    known = [piece.numbers for piece in pieces if piece.numbers is not None]
    size = sum(piece.size for piece in pieces if piece.numbers is not None)
    unread = len(known) < len(pieces)
    why = "the rest is too large to be looked at" if unread else "these processes have no others"
    if not size:
        return f"of no values: {why}" if total else "no values"
    said = []
    counted = sum(numbers.counted for numbers in known)
    number = int if all(numbers.whole for numbers in known) else float
    lows = [number(numbers.min) for numbers in known if numbers.min is not None]
    highs = [number(numbers.max) for numbers in known if numbers.max is not None]
    sums = [float(numbers.sum) for numbers in known if numbers.sum is not None]
    if sums:
        low, high, mean = min(lows), max(highs), sum(sums) / counted
        said += [f"min {_short(low)}", f"mean {_short(mean)}", f"max {_short(high)}"]
    nan = sum(numbers.nan for numbers in known)
    said.append(f"NaN {nan}" + (", left out of these" if nan and said else ""))
    if size < total:
        said.append(f"of {size} of {total} values: {why}")
    return "  ".join(said)


def _short(number: float) -> str:
    return str(number) if isinstance(number, int) else f"{number:.6g}"


def _shown(facts: ArraySummary, pieces: Sequence[PieceSummary]) -> str:
    import numpy as np

    shape = facts.shape
    values, missing = _collected(facts, pieces)
    whole = prod(shape) <= WHOLE
    for axis, size in enumerate(shape):
        if not whole and size > 2 * EDGE:
            # One more place in the middle of an axis stands for everything left out: NumPy prints dots there.
            places = [*range(EDGE), EDGE, *range(EDGE, 2 * EDGE)]
            values, missing = values.take(places, axis), missing.take(places, axis)
    shown = np.ma.array(values, mask=missing) if missing.any() else values
    with np.printoptions(threshold=WHOLE if whole else 0, edgeitems=EDGE, linewidth=100):
        return str(shown)


def _collected(facts: ArraySummary, pieces: Sequence[PieceSummary]) -> tuple[Any, Any]:
    """Return the values at the places of the grid, and which of them are missing."""
    import numpy as np

    values = np.zeros([len(axis) for axis in facts.grid or ()], dtype_named(facts.dtype))
    missing = np.ones(values.shape, bool)
    for piece in pieces:
        bounds = piece.places or ()
        where = tuple(slice(low, high) for low, high in bounds)
        part = np.frombuffer(base64.b64decode(piece.values or ""), values.dtype)
        values[where] = part.reshape([high - low for low, high in bounds])
        missing[where] = False
    return values, missing
