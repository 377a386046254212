"""Answers about arrays and programs that a person asks for, given by each process alone.

`explain` says where the pieces of all arrays of a tree lie, `nan` finds NaN and infinite values in the pieces
here, and `program` compiles what a call would run. No program is run.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from nbdist.contract.calls.inspection import (
    ArrayNan,
    ArraysFound,
    NanCounts,
    PieceNan,
    ProgramFound,
)
from nbdist.engine.frameworks import libraries, packages, unwrapped
from nbdist.engine.frameworks.jax.arrays import check_array, shards
from nbdist.engine.frameworks.jax.describe import Descriptions, Meshes
from nbdist.engine.frameworks.jax.observe import describe
from nbdist.engine.frameworks.jax.summary import summary
from nbdist.engine.probe.classes import Lent
from nbdist.engine.probe.walk import Bounds, Walk
from nbdist.errors import ArrayError
from nbdist.notation import not_looked_at
from nbdist.program.compiled import compile_program

__all__ = ["explain", "nan", "program", "summary", "tree"]

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


def explain(value: Any, expression: str, process_id: int = 0) -> ArraysFound:
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


def nan(value: object, expression: str) -> NanCounts:
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

    unknown = np.isnan(values)
    return {
        "nan": int(np.count_nonzero(unknown)),
        "inf": int(np.count_nonzero(~np.isfinite(values) & ~unknown)),
    }


def _index_text(index: tuple[slice, ...], shape: tuple[int, ...]) -> str:
    """Return an index as text such as `[256:512, :]`; a whole axis is `:`."""
    parts = []
    for part, size in zip(index, shape, strict=True):
        start, stop, _ = part.indices(size)
        parts.append(":" if (start, stop) == (0, size) else f"{start}:{stop}")
    return f"[{', '.join(parts)}]"


def program(
    function: Any, arguments: Sequence[Any], named: Mapping[str, Any], expression: str
) -> ProgramFound:
    """Lower a call from the types of its arguments, and compile it for the devices that they lie on.

    The call is not run.

    Args:
      function: A function made by `jax.jit`.
      arguments: The positional arguments of the call.
      named: The keyword arguments of the call.
      expression: The user's expression, for error texts.

    Raises:
      ArrayError: The function is not made by `jax.jit`.
      ProgramError: The compiler's output cannot be read.
    """
    lower = getattr(function, "lower", None)
    if lower is None:
        raise ArrayError(
            f"{expression!r}: the function (of type {type(function).__name__}) is not made by jax.jit, so that "
            "it is many programs and not one. Wrap it, such as step = jax.jit(step)."
        )
    lowered = lower(*arguments, **named)
    name = getattr(function, "__name__", "")
    found = compile_program(lowered, name=name, limit=_limit())
    digest = hashlib.sha256(lowered.as_text().encode()).hexdigest()
    return ProgramFound(program=found, digest=digest)


def _limit() -> int | None:
    """Return the bytes of memory of the smallest device here; None if a device gives none, as CPUs do not."""
    import jax

    stats = [device.memory_stats() or {} for device in jax.local_devices()]
    limits = [found.get("bytes_limit") for found in stats]
    known = [int(limit) for limit in limits if limit]
    return min(known) if known and len(known) == len(limits) else None
