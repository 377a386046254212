"""Answers about arrays, given by each process alone: their values, where their pieces lie, and NaN in them.

Summaries show the values of one array on several processes; `explain` says where the pieces of all arrays of a
tree lie; `count` finds NaN and infinite values in the pieces here. Nothing is computed on a device: a program that
uses such an array would need all processes that hold a part of it.
"""

from __future__ import annotations

import ast
import base64
import contextlib
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import Any

from nbdist.contract.calls.arrays import (
    MIME,
    ArrayNan,
    ArraysFound,
    ArraySummary,
    NanCounts,
    Numbers,
    PieceNan,
    PieceSummary,
    Summary,
)
from nbdist.contract.snapshot import NamedSharding
from nbdist.contract.wire import encode
from nbdist.engine.frameworks import unwrapped
from nbdist.engine.frameworks.interfaces import libraries, packages
from nbdist.engine.frameworks.jax.arrays import check_array, shards
from nbdist.engine.frameworks.jax.describe import Descriptions, Meshes
from nbdist.engine.frameworks.jax.objects import array_paths
from nbdist.engine.frameworks.jax.observe import describe
from nbdist.engine.probe.classes import Lent
from nbdist.engine.probe.walk import Bounds, Walk
from nbdist.errors import ArrayError
from nbdist.notation import array_type_text, mesh_axes_text, not_looked_at, spec_text
from nbdist.summary import Grid, corners, places, text

MOST_BYTES = 1 << 28
"""Most bytes of an array that a process reads; reading more would take seconds, and memory of the host."""


def install(shell: Any) -> None:
    """Make cells that end in an array on several processes show its values.

    JAX itself shows only the shape if the array is large, or if no process has all of it.
    """
    shell.display_formatter.mimebundle_formatter.for_type_by_name("jax", "Array", _bundle)


def _bundle(array: Any, **_: Any) -> dict[str, Any] | None:
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


def at_path(namespace: dict[str, object], path: str) -> Summary:
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
    from nbdist.engine.frameworks.jax.observe import describe

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


ALL = Bounds(
    depth=1000,
    plain_depth=16,
    containers=1_000_000,
    containers_in_one=1_000_000,
    items=10_000_000,
)
"""Bounds of a walk over one tree; wide, since whoever asks for a tree wants all of it."""

MOST_LISTED = 20_000
"""Most arrays that are described; further ones are only counted."""

ROOT = "value"
"""Name of the tree in a walk; callers get paths without it."""


def walk_tree(value: object, found: Callable[[str, Any], bool], *, most: int) -> dict[str, int]:
    """Call `found` with each array of a tree and the rest of the expression that reaches it.

    Args:
      value: An array, or an object that holds arrays: a dict, list, dataclass, pytree, or module of a framework.
      found: Called with the rest of the expression, and the array or `Lent`; returns whether the array counts.
      most: The number of arrays after which no more are looked at.

    Returns:
      The numbers of `omitted` arrays, and of `closed` containers, which lie too deep or are too many.
    """
    import jax

    def note(path: str, met: Any) -> bool:
        return found(path.removeprefix(ROOT), met)

    walk = Walk(
        found=note,
        mesh=lambda _: None,
        arrays=(jax.Array,),
        meshes=(),
        packages=packages(),
        libraries=libraries(),
        bounds=replace(ALL, arrays=most),
    )
    return {"omitted": walk.run({ROOT: value}), "closed": walk.closed}


def rooted(expression: str) -> str:
    """Return the expression, in brackets if an index or attribute could not follow it without them."""
    try:
        node = ast.parse(expression.strip(), mode="eval").body
    except SyntaxError:  # IPython's own syntax
        return f"({expression})"
    closed = isinstance(
        node, ast.Name | ast.Attribute | ast.Subscript | ast.Call | ast.List | ast.Dict
    )
    return expression if closed else f"({expression})"


def describe_tree(value: object, expression: str) -> ArraysFound:
    """Return the arrays of a tree, each described as in a report.

    Raises:
      ArrayError: The tree holds no arrays.
    """
    descriptions, root = Descriptions(Meshes()), rooted(expression)
    first: dict[int, str] = {}
    same: dict[str, str] = {}

    def note(rest: str, met: Any) -> bool:
        array = met.array if type(met) is Lent else met
        if array is None or not descriptions.add(root + rest, array, lent=met is not array):
            return False
        if first.setdefault(id(array), root + rest) != root + rest:
            same[root + rest] = first[id(array)]
        return True

    left_out = walk_tree(value, note, most=MOST_LISTED)
    if not descriptions.arrays():
        kind, rest = type(value).__name__, not_looked_at(left_out["omitted"], left_out["closed"])
        holds = f"has no array that can be shown; {rest}" if rest else "holds no JAX arrays"
        raise ArrayError(f"{expression!r} (of type {kind}) {holds}.")
    return ArraysFound(
        expression=root,
        arrays=descriptions.arrays(),
        meshes=descriptions.meshes(),
        same=same,
        omitted=left_out["omitted"],
        closed=left_out["closed"],
    )


def explain(value: Any, expression: str) -> ArraysFound:
    """Return where the pieces of arrays lie: of an array, a variable's array, or all arrays of a tree or module.

    The paths begin with `expression`, in brackets where it needs them.

    Raises:
      ArrayError: The value holds no arrays, or is an array without values.
    """
    import jax

    value = unwrapped(value)
    check_array(jax, value, expression, partial_sums=True)
    if isinstance(value, jax.Array):
        described, meshes = describe(value)
        array = replace(described, path=expression)
        return ArraysFound(expression=expression, arrays=(array,), meshes=meshes)
    return describe_tree(value, expression)


def tree(value: object, expression: str) -> ArraysFound | None:
    """Return the answer of `describe_tree`; None if the value holds no arrays."""
    with contextlib.suppress(ArrayError):
        return describe_tree(value, expression)
    return None


MOST_ARRAYS = 10_000_000
"""Most arrays that are searched for NaN; further ones are reported as not looked at, not as free of NaN."""


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
