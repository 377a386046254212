"""Answers about arrays, programs and plans that a person asks for, given by each process alone.

`explain` says where the pieces of all arrays of a tree lie, `nan` finds NaN and infinite values in the pieces
here, and `program` compiles what a call would run. No program is run.

A plan starts from shapes, specs and types (`shapes`, `spec`, `layout`, `mesh_over`). Nothing is computed: a value
may be far too large for this process, and the devices of a mesh may not be there.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from msgspec import structs

from nbdist.contract.calls.inspection import (
    ArrayNan,
    ArraysFound,
    NanCounts,
    PieceNan,
    ProgramFound,
)
from nbdist.engine.frameworks import libraries, packages, unwrapped
from nbdist.engine.frameworks.interfaces import (
    ArrayShape,
    AskedLayout,
    AskedSpec,
    array_bytes,
    entry,
)
from nbdist.engine.frameworks.jax.arrays import check_array, shards, summary
from nbdist.engine.frameworks.jax.describe import Descriptions, Meshes, partitions
from nbdist.engine.frameworks.jax.observe import describe
from nbdist.engine.probe.classes import Lent
from nbdist.engine.probe.walk import Bounds, Walk
from nbdist.errors import ArrayError
from nbdist.notation import not_looked_at
from nbdist.program.compiled import compile_program

__all__ = ["explain", "layout", "mesh_axes", "nan", "program", "shapes", "spec", "summary", "tree"]

ALL = Bounds(
    depth=1000,
    plain_depth=16,
    containers=1_000_000,
    containers_in_one=1_000_000,
    items=10_000_000,
)
"""Bounds of a walk over one tree; wide, since a person who asks for a tree wants all of it."""

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
      The number of `omitted` arrays, and the number of `closed` containers: those too deep, or beyond the limit.
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
        array = structs.replace(described, path=expression)
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
    # One array may stand at a million places, so each is counted once, by id. The array is kept beside its count,
    # so that no other array gets that id.
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
            device=jax.local_devices(backend=shard.device.platform).index(shard.device),
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


Path = tuple[str, ...]
"""Keys that lead from a value to one of its arrays."""


def shapes(value: Any) -> list[ArrayShape]:
    """Return the arrays of a pytree, in its order; leaves that are no arrays are left out.

    The pytree may hold JAX arrays, NumPy arrays, results of `jax.eval_shape` and modules of Flax NNX.
    """
    kind, found = _variable(), []
    for keys, leaf in _leaves(value, kind):
        for rest, array in _held(leaf, kind):
            shape = getattr(array, "shape", None)
            dtype: Any = getattr(array, "dtype", None)
            if not isinstance(shape, tuple) or not hasattr(dtype, "itemsize"):
                continue
            found.append(
                ArrayShape(
                    path=_expression(keys) + _expression(rest),
                    name="/".join((*_names(keys), *_names(rest))),
                    shape=tuple(map(int, shape)),
                    dtype=str(dtype),
                    nbytes=array_bytes(shape, int(dtype.itemsize)),
                    own=_own(leaf, array, kind),
                )
            )
    return found


def spec(value: Any) -> AskedSpec | None:
    """Return the spec of a `PartitionSpec` or a `NamedSharding`; None for anything else."""
    kinds = sys.modules.get("jax.sharding")
    if kinds is None:
        return None
    if isinstance(value, kinds.PartitionSpec):
        return _asked(partitions(value), None)
    if isinstance(value, kinds.NamedSharding):
        return _asked(partitions(value.spec), mesh_axes(value.mesh))
    return None


def mesh_axes(value: Any) -> dict[str, int] | None:
    """Return the sizes of the axes of a `Mesh` or `AbstractMesh` by name; None for anything else."""
    kinds = sys.modules.get("jax.sharding")
    if kinds is None or not isinstance(value, kinds.Mesh | kinds.AbstractMesh):
        return None
    return {str(name): int(size) for name, size in value.shape.items()}


def layout(specs: Any, arrays: Sequence[ArrayShape], value: Any = None) -> AskedLayout | None:
    """Return the spec that a tree of specs gives each array of a value.

    Args:
      specs: A tree of `PartitionSpec`, `NamedSharding` and None; each holds for all arrays below its place.
      arrays: The arrays of the value.
      value: Not used: the arrays say all.

    Returns:
      None if the tree has no spec, or a leaf that is neither a spec nor None.
    """
    given: dict[Path, Any] = {}
    kind = _variable()
    for keys, leaf in _leaves(specs, kind, also=_is_spec):
        for rest, held in _held(leaf, kind):
            path = (*_names(keys), *_names(rest))
            if held is not None and spec(held) is None:
                return None
            given[path] = held
    if all(one is None for one in given.values()):
        return None
    used: set[Path] = set()
    found = []
    for array in arrays:
        names = tuple(array.name.split("/")) if array.name else ()
        above = [names[:n] for n in range(len(names), -1, -1) if names[:n] in given]
        used |= set(above[:1])
        held = given[above[0]] if above else None
        found.append(spec(held) if held is not None else None)
    unmatched = ["/".join(path) for path, one in given.items() if path not in used and one]
    axes = next((one.axes for one in found if one is not None and one.axes), None)
    return AskedLayout(specs=found, unmatched=unmatched, axes=axes, noun="spec")


def _asked(parts: Sequence[Any], axes: Mapping[str, int] | None) -> AskedSpec:
    entries = [entry(part) for part in parts]
    left = [str(place) for place, one in enumerate(entries) if one is None]
    problem = (
        f"P.UNCONSTRAINED leaves dimension {', '.join(left)} to the compiler" if left else None
    )
    return AskedSpec(entries=tuple(one or () for one in entries), axes=axes, problem=problem)


def _is_spec(value: Any) -> bool:
    return value is None or spec(value) is not None


def _variable() -> Any | None:
    """Return the class of variables of Flax NNX; None if NNX has not been imported."""
    return getattr(sys.modules.get("flax.nnx"), "Variable", None)


def _leaves(
    value: Any, kind: Any | None, also: Callable[[Any], bool] | None = None
) -> list[tuple[tuple[Any, ...], Any]]:
    """Return the leaves of a pytree with their paths; variables, and values that `also` accepts, are leaves."""
    import jax

    def is_leaf(one: Any) -> bool:
        return (kind is not None and isinstance(one, kind)) or (also is not None and also(one))

    leaves: list[tuple[tuple[Any, ...], Any]] = jax.tree_util.tree_flatten_with_path(
        value, is_leaf=is_leaf
    )[0]
    return leaves


def _held(leaf: Any, kind: Any | None) -> list[tuple[tuple[Any, ...], Any]]:
    """Return the leaves of the value that a variable of Flax NNX holds; the leaf itself if it is no variable."""
    if kind is None or not isinstance(leaf, kind):
        return [((), leaf)]
    get = getattr(kind, "get_raw_value", None)
    value = get(leaf) if get is not None else leaf.value  # before flax 0.12
    return _leaves(value, kind, also=_is_spec)


def _own(leaf: Any, array: Any, kind: Any | None) -> AskedSpec | None:
    """Return the spec with which the array's variable was made; without one, the spec of its sharding."""
    is_variable = kind is not None and isinstance(leaf, kind)
    if is_variable and (said := _annotated(leaf)) is not None:
        return said
    return spec(getattr(array, "sharding", None))


def _annotated(variable: Any) -> AskedSpec | None:
    """Return the spec that `nnx.with_partitioning` has noted, under any of the names that Flax versions use."""
    known = variable.get_metadata() if hasattr(variable, "get_metadata") else {}
    names = ("out_sharding", "sharding_names", "sharding")
    found = next((known[name] for name in names if known.get(name) is not None), None)
    if isinstance(found, tuple | list):
        return _asked(found, None)
    return spec(found)


def _names(keys: Sequence[Any]) -> Path:
    """Return the keys of a path alone: `("dense", "kernel", "0")` for `['dense'].kernel[0]`."""
    found = []
    for key in keys:
        for attribute in ("key", "name", "idx"):
            if hasattr(key, attribute):
                found.append(str(getattr(key, attribute)))
                break
        else:
            found.append(str(key))
    return tuple(found)


def _expression(keys: Sequence[Any]) -> str:
    if not keys:
        return ""
    import jax

    return str(jax.tree_util.keystr(tuple(keys)))


def mesh_over(sizes: Sequence[int], devices: Sequence[Any]) -> tuple[Any, bool] | None:
    """Return devices in the shape of a mesh, placed on the network of a pod as `jax.make_mesh` places them.

    Starts no back end. Source: `jax.experimental.mesh_utils.create_device_mesh`. It reads `device_kind`,
    `platform`, `coords`, `core_on_chip`, `process_index` and `slice_index` of a device, and accepts any object
    that has them.

    Args:
      sizes: The sizes of the mesh's axes.
      devices: The devices of one slice, or stand-ins for them, in the order of `jax.devices()`.

    Returns:
      The array of devices, and whether an axis takes a part of a dimension of the network, which
      `allow_split_physical_axes` allows. None if JAX finds no order, or reads an attribute that stand-ins lack.
    """
    from jax.experimental import mesh_utils

    for split in (False, True):
        try:
            grid = mesh_utils.create_device_mesh(
                tuple(sizes), devices=list(devices), allow_split_physical_axes=split
            )
        except NotImplementedError:  # raised where a dimension would have to be split
            continue
        except (AttributeError, AssertionError, TypeError, ValueError):
            return None
        return grid, split
    return None
