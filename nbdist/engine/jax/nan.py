"""NaN and infinite values in the pieces of arrays that lie on this process; nothing is computed on a device."""

from __future__ import annotations

from typing import Any

from nbdist.engine.keras.variables import Lent
from nbdist.engine.walk import Bounds, Walk

ALL = Bounds(
    depth=1000,
    plain_depth=16,
    containers=1_000_000,
    containers_in_one=1_000_000,
    arrays=1_000_000,
)
"""What is not looked into would count as free of NaN."""

ROOT = "value"


def count(value: object, expression: str) -> dict[str, Any]:
    """Counts in each array of a tree, each of its pieces here by itself.

    Args:
      value: An array, or what holds some: a dict, list, dataclass, pytree, or module of a framework.
      expression: What a person wrote for it; the paths begin with it.

    Returns:
      `arrays`: one entry for each, with `path`, `dtype`, `shape` and `pieces`: None where it has no values, empty
      where its type has no NaN; else for each `device` (its id), `index` (as text), `first` (whether no other
      device with this piece comes before it), `nan` and `inf`. `omitted`: how many were not looked at.
    """
    import jax

    name = (
        expression
        if expression.isidentifier() or not _needs_brackets(expression)
        else f"({expression})"
    )
    found: list[dict[str, Any]] = []

    def note(path: str, met: Any) -> bool:
        array = met.array if type(met) is Lent else met
        found.append({"path": name + path.removeprefix(ROOT), **_array(array)})
        return True

    walk = Walk(found=note, mesh=lambda _: None, arrays=(jax.Array,), meshes=(), bounds=ALL)
    omitted = walk.run({ROOT: value})
    return {"arrays": found, "omitted": omitted}


def _needs_brackets(expression: str) -> bool:
    return not all(part.isidentifier() for part in expression.split("."))


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
