"""The arrays of a value by their shapes, whichever framework it is of, or of none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from nbdist.contract.snapshot import Array, Mesh
from nbdist.engine.frameworks import imported
from nbdist.engine.frameworks.shapes import ArrayShape, AskedSpec, array_bytes
from nbdist.errors import ArrayError
from nbdist.view.branches import steps


def arrays_of(value: Any, name: str) -> list[ArrayShape]:
    """The arrays of a value, in its order; nothing is computed.

    Args:
      value: An array, a pytree, shapes from `jax.eval_shape`, a model.
      name: What it is called, for the error.

    Raises:
      ArrayError: It has none.
    """
    for framework in imported():
        found = framework.shapes(value)
        if found:
            return list(found)
    plain = list(_plain(value, "", ()))
    if not plain:
        raise ArrayError(
            f"{name} has no arrays to plan. Allowed: an array, a pytree, what jax.eval_shape gives, a model of "
            "Flax NNX or Keras."
        )
    return plain


def reported(arrays: Sequence[Array], meshes: Mapping[str, Mesh], root: str) -> list[ArrayShape]:
    """Arrays that lie on the processes of a session, with the specs they have there."""
    return [
        ArrayShape(
            path=array.path.removeprefix(root),
            name="/".join(_step_name(step) for step in steps(array.path.removeprefix(root))),
            shape=array.shape,
            dtype=array.dtype,
            nbytes=array.nbytes,
            own=_own(array, meshes),
        )
        for array in arrays
    ]


def _own(array: Array, meshes: Mapping[str, Mesh]) -> AskedSpec | None:
    if array.sharding.kind != "named":
        return None
    axes = {axis.name: axis.size for axis in meshes[array.sharding.mesh].axes}
    return AskedSpec(entries=array.sharding.spec, axes=axes)


def _step_name(step: str) -> str:
    """`['dense']` → `dense`, `.kernel` → `kernel`, `[0]` → `0`."""
    return step.strip(".[]").strip("'\"")


def _plain(value: Any, path: str, names: tuple[str, ...]) -> Iterator[ArrayShape]:
    """Arrays in dicts, lists and tuples, where no framework has been imported."""
    shape = getattr(value, "shape", None)
    dtype: Any = getattr(value, "dtype", None)
    if isinstance(shape, tuple) and hasattr(dtype, "itemsize"):
        yield ArrayShape(
            path=path,
            name="/".join(names),
            shape=shape,
            dtype=str(dtype),
            nbytes=array_bytes(shape, dtype.itemsize),
        )
    elif isinstance(value, Mapping):
        for key in value:
            yield from _plain(value[key], f"{path}[{key!r}]", (*names, str(key)))
    elif isinstance(value, list | tuple):
        fields = getattr(value, "_fields", None)
        for number, part in enumerate(value):
            step = f".{fields[number]}" if fields else f"[{number}]"
            yield from _plain(
                part, path + step, (*names, fields[number] if fields else str(number))
            )
