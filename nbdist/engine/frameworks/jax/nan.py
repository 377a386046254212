"""Counts of NaN and infinite values in this process's pieces of arrays; nothing is computed on a device."""

from __future__ import annotations

from typing import Any

from nbdist.contract.calls.arrays import ArrayNan, NanCounts, PieceNan
from nbdist.engine.frameworks.jax.arrays import shards
from nbdist.engine.frameworks.jax.tree import rooted, walk_tree
from nbdist.engine.probe.lent import Lent

MOST_ARRAYS = 10_000_000
"""Most arrays that are looked at; further ones are reported as not looked at, not as free of NaN."""


def count(value: object, expression: str) -> NanCounts:
    """Count NaN and infinite values in each array of a tree, in each piece on this process separately.

    Args:
      value: An array, or an object that holds arrays: a dict, list, dataclass, pytree, or module of a framework.
      expression: The user's expression for `value`; the paths begin with it.
    """
    found: list[ArrayNan] = []
    looked, root = 0, rooted(expression)
    # One array may stand at a million places. It is kept beside its count, so that no other array gets its id.
    counted: dict[int, tuple[Any, tuple[PieceNan, ...] | None]] = {}

    def note(rest: str, met: Any) -> bool:
        nonlocal looked
        array = met.array if type(met) is Lent else met
        entry = counted.get(id(array))
        if entry is None:
            entry = counted[id(array)] = (array, _pieces(array))
        pieces = entry[1]
        looked += pieces is not None
        if pieces is None or pieces:
            found.append(
                ArrayNan(
                    path=root + rest,
                    dtype=str(getattr(array, "dtype", "")),
                    shape=tuple(getattr(array, "shape", ())),
                    pieces=pieces,
                )
            )
        return True

    left_out = walk_tree(value, note, most=MOST_ARRAYS)
    return NanCounts(arrays=tuple(found), looked=looked, **left_out)


def _pieces(array: Any) -> tuple[PieceNan, ...] | None:
    """Return the counts of pieces here that have NaN or infinite values; None if the array has no values."""
    import jax
    import numpy as np

    if array is None or array.is_deleted():
        return None
    if not jax.dtypes.issubdtype(array.dtype, np.inexact):
        return ()
    try:
        read = [(shard, np.asarray(shard.data)) for shard in shards(array)]
    except RuntimeError:
        return None  # the computation of the array has failed
    return tuple(
        PieceNan(
            device=shard.device.id,
            index=_index_text(shard.index, array.shape),
            first=shard.replica_id == 0,
            **_counts(values),
        )
        for shard, values in read
        if not np.isfinite(values).all()
    )


def _counts(values: Any) -> dict[str, int]:
    import numpy as np

    nan = np.isnan(values)
    return {
        "nan": int(np.count_nonzero(nan)),
        "inf": int(np.count_nonzero(~np.isfinite(values) & ~nan)),
    }


def _index_text(index: tuple[slice, ...], shape: tuple[int, ...]) -> str:
    """Return an index as text such as `[256:512, :]`; a whole axis is `:`."""
    parts = []
    for part, size in zip(index, shape, strict=True):
        start, stop, _ = part.indices(size)
        parts.append(":" if (start, stop) == (0, size) else f"{start}:{stop}")
    return f"[{', '.join(parts)}]"
