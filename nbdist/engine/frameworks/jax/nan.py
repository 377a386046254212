"""NaN and infinite values in the pieces of arrays that lie on this process; nothing is computed on a device."""

from __future__ import annotations

from typing import Any

from nbdist.engine.frameworks.jax.tree import rooted, walk_tree
from nbdist.engine.probe.lent import Lent

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
      `looked`: how many arrays were counted; `omitted` arrays and `closed` containers were not looked at.
    """
    found: list[dict[str, Any]] = []
    looked, root = 0, rooted(expression)
    # One array may stand at a million places. It is kept beside its count, so that no other gets its identity.
    counted: dict[int, tuple[Any, list[dict[str, Any]] | None]] = {}

    def note(rest: str, met: Any) -> bool:
        nonlocal looked
        array = met.array if type(met) is Lent else met
        entry = counted.get(id(array))
        if entry is None:
            entry = counted[id(array)] = (array, _pieces(array))
        pieces = entry[1]
        looked += pieces is not None
        if pieces is None or pieces:
            facts = {
                "dtype": str(getattr(array, "dtype", "")),
                "shape": list(getattr(array, "shape", ())),
            }
            found.append({"path": root + rest, **facts, "pieces": pieces})
        return True

    left_out = walk_tree(value, note, most=MOST_ARRAYS)
    return {"arrays": found, "looked": looked, **left_out}


def _pieces(array: Any) -> list[dict[str, Any]] | None:
    """Those of its pieces here that have NaN or infinite values; None where it has no values at all."""
    import jax
    import numpy as np

    if array is None or array.is_deleted():
        return None
    if not jax.dtypes.issubdtype(array.dtype, np.inexact):
        return []
    try:
        read = [(shard, np.asarray(shard.data)) for shard in array.addressable_shards]
    except RuntimeError:
        return None  # what was to compute it has failed
    return [
        {
            "device": shard.device.id,
            "index": _index_text(shard.index, array.shape),
            "first": shard.replica_id == 0,
            **_counts(values),
        }
        for shard, values in read
        if not np.isfinite(values).all()
    ]


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
