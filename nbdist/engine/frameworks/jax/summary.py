"""What this process has of an array that lies on several; nothing is computed on a device."""

from __future__ import annotations

import base64
from bisect import bisect_left
from math import prod
from typing import Any

from nbdist.contract.snapshot import Array, Mesh
from nbdist.contract.wire import decode
from nbdist.engine.frameworks.jax.paths import array_paths
from nbdist.notation import mesh_axes_text, spec_text
from nbdist.quantities import array_type_text
from nbdist.summary import MIME, Grid, corners, places, text

MOST_BYTES = 1 << 28
"""A process that has more of an array reads none of it: that would take seconds, and memory of the host."""


def install(shell: Any) -> None:
    """Has cells that end in an array on several processes show what is in it.

    JAX itself shows only its shape where no process has all of it, and of a large one.
    """
    shell.display_formatter.mimebundle_formatter.for_type_by_name("jax", "Array", _bundle)


def _bundle(array: Any, **_: Any) -> dict[str, Any] | None:
    if array.is_fully_addressable:
        return None
    if array.is_fully_replicated:
        return _copy(array)
    summary = summarize(array)
    return None if summary is None else {MIME: summary}


def _copy(array: Any) -> dict[str, Any] | None:
    """What is in an array of which each process has all; it is the same text where the copies are equal."""
    if not repr(array).startswith("Array(shape="):
        return None  # JAX shows its values
    summary = summarize(array, first_copies=False)
    return None if summary is None else {"text/plain": text([summary])}


def at_path(namespace: dict[str, object], path: str) -> dict[str, Any]:
    """What this process has of the array under a path of its namespace; runs nothing that a person wrote.

    Returns:
      `state`: `missing` (no array is there), `computing`, or `shown`; and where it is shown `whole` (whether this
      process has all of it), `part` for a text and `places` for a picture, which are None for what has no numbers.
    """
    import jax

    array = array_paths(namespace, jax.Array).get(path)
    if array is None or array.is_deleted():
        return {"state": "missing"}
    if not array.is_ready():
        return {"state": "computing"}
    grid = places(array.shape)
    return {
        "state": "shown",
        "whole": bool(array.is_fully_addressable),
        "part": summarize(array),
        "places": None if grid is None else summarize(array, grid, numbers=False),
    }


def summarize(
    array: Any, grid: Grid | None = None, *, numbers: bool = True, first_copies: bool = True
) -> dict[str, Any] | None:
    """This process's part of a summary; see `nbdist.summary`.

    Args:
      array: A `jax.Array`.
      grid: The places along each axis whose values are wanted; None: the corners.
      numbers: Whether all values are to be looked at, for the smallest, the largest and so on.
      first_copies: Whether only pieces are wanted of which this process has the first copy; else it is one copy of
        an array that has no pieces.

    Returns:
      `shape`, `dtype`, `about` (type, spec and mesh as text), `grid`, and `pieces`, each with `size` (how many
      values it has), `numbers` and, where there is a grid, `places` (the part of the grid that lies in it) and
      `values` (those, in base64). None for an array that has no values, or is no numbers.
    """
    import jax

    if array.is_deleted() or getattr(getattr(array.sharding, "spec", None), "unreduced", None):
        return None
    if not jax.dtypes.issubdtype(array.dtype, jax.numpy.number) and array.dtype != bool:
        return None
    grid = corners(array.shape) if grid is None else grid
    shards = list(array.addressable_shards)
    shards = [shard for shard in shards if shard.replica_id == 0] if first_copies else shards[:1]
    readable = sum(shard.data.nbytes for shard in shards) <= MOST_BYTES
    try:
        pieces = [
            _piece(shard, array.shape, grid, readable=readable, numbers=numbers) for shard in shards
        ]
    except RuntimeError:
        return None  # what was to compute it has failed
    return {
        "shape": list(array.shape),
        "dtype": str(array.dtype),
        "about": _about(array),
        "grid": grid,
        "pieces": pieces,
    }


def _about(array: Any) -> str:
    from nbdist.engine.frameworks.jax.observe import describe

    described, meshes = describe(array)
    decoded = decode(Array, {**described, "path": ""})
    text = f"{array_type_text(decoded.dtype, decoded.shape)}  {spec_text(decoded)}"
    if decoded.sharding.kind == "named":
        (mesh,) = (decode(Mesh, mesh) for mesh in meshes if mesh["id"] == decoded.sharding.mesh)
        text += f" on mesh {mesh_axes_text(mesh)}"
    return text


def _piece(
    shard: Any, shape: tuple[int, ...], grid: Grid | None, *, readable: bool, numbers: bool
) -> dict[str, Any]:
    import numpy as np

    bounds = [part.indices(size)[:2] for part, size in zip(shard.index, shape, strict=True)]
    piece: dict[str, Any] = {"size": prod(stop - start for start, stop in bounds), "numbers": None}
    if not readable:
        return piece
    values = np.asarray(shard.data)
    if numbers:
        piece["numbers"] = _numbers(values)
    if grid is not None:
        inside = [
            (bisect_left(axis, start), bisect_left(axis, stop))
            for axis, (start, stop) in zip(grid, bounds, strict=True)
        ]
        wanted = [
            [place - start for place in axis[low:high]]
            for axis, (low, high), (start, _) in zip(grid, inside, bounds, strict=True)
        ]
        part = np.ascontiguousarray(values[np.ix_(*wanted)])
        piece["places"] = [list(pair) for pair in inside]
        piece["values"] = base64.b64encode(part.tobytes()).decode()
    return piece


def _numbers(values: Any) -> dict[str, int | str]:
    """`nan`, `counted` (all others) and, of these, `min`, `max` and `sum`; as text what JSON may not have."""
    import jax
    import numpy as np

    if values.dtype == bool or jax.dtypes.issubdtype(values.dtype, np.integer):
        values = values.astype(np.int32) if values.dtype.itemsize < 4 else values
        numbers: dict[str, int | str] = {"nan": 0, "counted": int(values.size)}
        if values.size:
            total = str(float(values.sum(dtype=np.float64)))
            numbers |= {"min": int(values.min()), "max": int(values.max()), "sum": total}
        return numbers
    if values.dtype.itemsize < 4:
        values = values.astype(np.float32)
    unknown = np.isnan(values)
    nan = int(np.count_nonzero(unknown))
    numbers = {"nan": nan, "counted": int(values.size) - nan}
    if nan < values.size and not np.iscomplexobj(values):
        known = values[~unknown] if nan else values
        with np.errstate(all="ignore"):
            total = known.sum(dtype=np.float64)
        numbers |= {
            name: repr(float(one))
            for name, one in (("min", known.min()), ("max", known.max()), ("sum", total))
        }
    return numbers
