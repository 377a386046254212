"""Plans from shapes, specs and types: how JAX lays out values and orders devices.

Nothing is computed: a value may be far too large for this process, and the devices of a mesh may not be there.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nbdist.engine.frameworks.interfaces import (
    ArrayShape,
    AskedLayout,
    AskedSpec,
    array_bytes,
    entry,
)
from nbdist.engine.frameworks.jax.describe import partitions

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
