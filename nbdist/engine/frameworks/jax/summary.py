"""Summaries of arrays on several processes: corners of their values and a few numbers, by each process alone.

Nothing is computed on a device: a program that uses such an array would need all processes that hold a part of it.
"""

from __future__ import annotations

import base64
from bisect import bisect_left
from dataclasses import replace
from math import prod
from typing import Any

from nbdist.contract.calls.inspection import MIME, ArraySummary, Numbers, PieceSummary, Summary
from nbdist.contract.snapshot import NamedSharding
from nbdist.contract.wire import encode
from nbdist.engine.frameworks.jax.arrays import shards
from nbdist.engine.frameworks.jax.objects import array_paths
from nbdist.engine.frameworks.jax.observe import describe
from nbdist.notation import array_type_text, mesh_axes_text, spec_text
from nbdist.summary import Grid, corners, places, text

MOST_BYTES = 1 << 28
"""Most bytes of an array that a process reads; reading more would take seconds, and memory of the host."""


def shown(array: Any) -> dict[str, Any] | None:
    """Return what a cell that ends in an array on several processes shows; None where JAX shows it.

    JAX itself shows only the shape if the array is large, or if no process has all of it.
    """
    if array.is_fully_addressable:
        return None
    if array.is_fully_replicated:
        return _copy(array)
    summary = summarize(array)
    return None if summary is None else {MIME: encode(summary)}


def _copy(array: Any) -> dict[str, Any] | None:
    """Return the text of an array that each process has whole; equal copies give equal texts."""
    if not repr(array).startswith("Array(shape="):
        return None  # JAX shows its values
    summary = summarize(array, first_copies=False)
    return None if summary is None else {"text/plain": text([summary])}


def summary(namespace: dict[str, object], path: str) -> Summary:
    """Return this process's part of a summary of the array under a path; runs no code that users wrote."""
    import jax

    array = array_paths(namespace, jax.Array).get(path)
    if array is None or array.is_deleted():
        return Summary(state="missing")
    if not array.is_ready():
        return Summary(state="computing")
    grid = places(array.shape)
    return Summary(
        state="shown",
        whole=bool(array.is_fully_addressable),
        part=summarize(array),
        places=None if grid is None else summarize(array, grid, numbers=False),
    )


def summarize(
    array: Any, grid: Grid | None = None, *, numbers: bool = True, first_copies: bool = True
) -> ArraySummary | None:
    """Return this process's part of a summary; see `nbdist.summary`.

    Args:
      array: A `jax.Array`.
      grid: The places along each axis whose values are wanted; None: the corners.
      numbers: Whether to read all values, for the smallest, the largest and so on.
      first_copies: True: only pieces of which this process has the first copy. False: the first piece here, for
        an array that each process has whole.

    Returns:
      None for an array that has no values, or whose values are not numbers.
    """
    import jax

    if array.is_deleted() or getattr(getattr(array.sharding, "spec", None), "unreduced", None):
        return None
    if not jax.dtypes.issubdtype(array.dtype, jax.numpy.number) and array.dtype != bool:
        return None
    grid = corners(array.shape) if grid is None else grid
    own = shards(array)
    own = [shard for shard in own if shard.replica_id == 0] if first_copies else own[:1]
    small = sum(shard.data.nbytes for shard in own) <= MOST_BYTES
    try:
        pieces = tuple(
            _piece(shard, array.shape, grid, readable=small, numbers=numbers) for shard in own
        )
    except RuntimeError:
        return None  # the computation of the array has failed
    return ArraySummary(
        shape=tuple(array.shape),
        dtype=str(array.dtype),
        about=_about(array),
        grid=None if grid is None else tuple(map(tuple, grid)),
        pieces=pieces,
    )


def _about(array: Any) -> str:
    described, meshes = describe(array)
    text = f"{array_type_text(described.dtype, described.shape)}  {spec_text(described)}"
    if isinstance(described.sharding, NamedSharding):
        (mesh,) = (mesh for mesh in meshes if mesh.id == described.sharding.mesh)
        text += f" on mesh {mesh_axes_text(mesh)}"
    return text


def _piece(
    shard: Any, shape: tuple[int, ...], grid: Grid | None, *, readable: bool, numbers: bool
) -> PieceSummary:
    import numpy as np

    bounds = [part.indices(size)[:2] for part, size in zip(shard.index, shape, strict=True)]
    piece = PieceSummary(size=prod(stop - start for start, stop in bounds))
    if not readable:
        return piece
    values = np.asarray(shard.data)
    if numbers:
        piece = replace(piece, numbers=_numbers(values))
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
        encoded = base64.b64encode(part.tobytes()).decode()
        piece = replace(piece, places=tuple(inside), values=encoded)
    return piece


def _numbers(values: Any) -> Numbers:
    import jax
    import numpy as np

    if values.dtype == bool or jax.dtypes.issubdtype(values.dtype, np.integer):
        values = values.astype(np.int32) if values.dtype.itemsize < 4 else values
        numbers = Numbers(nan=0, counted=int(values.size), whole=True)
        if values.size:
            total = str(float(values.sum(dtype=np.float64)))
            low, high = str(int(values.min())), str(int(values.max()))
            numbers = replace(numbers, min=low, max=high, sum=total)
        return numbers
    if values.dtype.itemsize < 4:
        values = values.astype(np.float32)
    unknown = np.isnan(values)
    nan = int(np.count_nonzero(unknown))
    numbers = Numbers(nan=nan, counted=int(values.size) - nan, whole=False)
    if nan < values.size and not np.iscomplexobj(values):
        known = values[~unknown] if nan else values
        with np.errstate(all="ignore"):
            total = known.sum(dtype=np.float64)
        low, high, total = (repr(float(one)) for one in (known.min(), known.max(), total))
        numbers = replace(numbers, min=low, max=high, sum=total)
    return numbers
