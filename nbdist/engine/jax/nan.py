"""NaN and infinite values in the pieces of arrays that lie on this process; nothing is computed on a device."""

from __future__ import annotations

from typing import Any

from nbdist.engine.jax.tree import rooted, walk_tree
from nbdist.engine.keras.variables import Lent

MOST_ARRAYS = 10_000_000
"""What is not looked at is said, and not taken for free of NaN."""


def count(value: object, expression: str) -> dict[str, Any]:
    """Counts in each array of a tree, each of its pieces here by itself.

    Args:
      value: An array, or what holds some: a dict, list, dataclass, pytree, or module of a framework.
      expression: What a person wrote for it; the paths begin with it.

    Returns:
      `arrays`: one entry for each that has NaN or infinite values or no values at all, with `path`, `dtype`,
      `shape` and `pieces`: None where it has no values, else those with some, each with its `device` (the id),
      `index` (as text), `first` (whether no other device with this piece comes before it), `nan` and `inf`.
      `looked`: how many arrays were counted, `omitted`: how many were not looked at.
    """
    found: list[dict[str, Any]] = []
    looked, root = 0, rooted(expression)

    def note(rest: str, met: Any) -> bool:
        nonlocal looked
        one = _array(met.array if type(met) is Lent else met)
        if one["pieces"] is None:
            found.append({"path": root + rest, **one})
            return True
        looked += 1
        one["pieces"] = [piece for piece in one["pieces"] if piece["nan"] or piece["inf"]]
        if one["pieces"]:
            found.append({"path": root + rest, **one})
        return True

    omitted = walk_tree(value, note, most=MOST_ARRAYS)
    return {"arrays": found, "looked": looked, "omitted": omitted}


def _array(array: Any) -> dict[str, Any]:
    facts = {"dtype": str(getattr(array, "dtype", "")), "shape": list(getattr(array, "shape", ()))}
    return {**facts, "pieces": None if array is None or array.is_deleted() else _pieces(array)}


def _pieces(array: Any) -> list[dict[str, Any]] | None:
    import jax
    import numpy as np

    if not jax.dtypes.issubdtype(array.dtype, np.inexact):
        return []
    try:
        return [
            {
                "device": shard.device.id,
                "index": _index_text(shard.index, array.shape),
                "first": shard.replica_id == 0,
                **_counts(np.asarray(shard.data)),
            }
            for shard in array.addressable_shards
        ]
    except RuntimeError:
        return None  # what was to compute it has failed


def _counts(values: Any) -> dict[str, int]:
    import numpy as np

    nan = np.isnan(values)
    return {
        "nan": int(np.count_nonzero(nan)),
        "inf": int(np.count_nonzero(~np.isfinite(values) & ~nan)),
    }


def _index_text(index: tuple[slice, ...], shape: tuple[int, ...]) -> str:
    """`[256:512, :]`; a whole axis is `:`."""
    parts = []
    for part, size in zip(index, shape, strict=True):
        start, stop, _ = part.indices(size)
        parts.append(":" if (start, stop) == (0, size) else f"{start}:{stop}")
    return f"[{', '.join(parts)}]"
