"""Shapes of the variables of Keras models, and the specs that a layout map asks for them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from nbdist.engine.frameworks.interfaces import (
    ArrayShape,
    AskedLayout,
    AskedSpec,
    array_bytes,
    entry,
)
from nbdist.engine.frameworks.keras import private
from nbdist.engine.frameworks.keras.distribution import axes_of, rules_of, rules_of_map
from nbdist.engine.frameworks.keras.expressions import (
    is_layer,
    is_optimizer,
    is_variable,
    items,
    layer_paths,
)
from nbdist.engine.frameworks.keras.models import matches
from nbdist.engine.frameworks.keras.private import attribute
from nbdist.engine.frameworks.keras.variables import layer_variables, optimizer_variables, path_of
from nbdist.engine.probe.classes import bases_of
from nbdist.errors import ArrayError
from nbdist.notation import dtype_named


def shapes(value: Any) -> list[ArrayShape] | None:
    """Return shapes of the variables of a layer, a model with its optimizer, an optimizer, or a list of variables.

    Returns:
      None for anything else.

    Raises:
      ArrayError: The value has no variables yet.
    """
    variables = _variables(value)
    if variables is None:
        return None
    if not variables:
        raise ArrayError(
            f"this {type(value).__name__} has no variables yet. Build it first, such as model.build((None, 784)), "
            "or call it once."
        )
    return [one for one in map(_shape, variables) if one is not None]


def mesh_axes(value: Any) -> dict[str, int] | None:
    """Return the size of each axis of a `keras.distribution.DeviceMesh`; None for anything else."""
    if not _is(value, "DeviceMesh"):
        return None
    devices, names = private.DEVICES.of(value), items(private.AXIS_NAMES.of(value))
    return {str(name): int(size) for name, size in zip(names, devices.shape, strict=False)}


def spec(value: Any) -> AskedSpec | None:
    """Return what a `keras.distribution.TensorLayout` asks; None for anything else."""
    if not _is(value, "TensorLayout"):
        return None
    axes: Sequence[str | None] = axes_of(value) or ()
    mesh = mesh_axes(private.DEVICE_MESH.of(value))
    return AskedSpec(entries=tuple(entry(axis) or () for axis in axes), axes=mesh)


def layout(specs: Any, arrays: Sequence[ArrayShape], value: Any) -> AskedLayout | None:
    """Return what a layout map or a distribution asks for each variable.

    Args:
      specs: A `LayoutMap`, `ModelParallel` or `DataParallel`.
      arrays: The shapes of the variables.
      value: The model of these variables; None where it is in another process.

    Returns:
      None for other specs.
    """
    mesh = mesh_axes(private.DEVICE_MESH.of(specs))
    if _is(specs, "DataParallel"):  # each device has all variables
        return AskedLayout(specs=[AskedSpec(entries=())] * len(arrays), unmatched=(), axes=mesh)
    if _is(specs, "LayoutMap"):
        rules = rules_of_map(specs)
    elif _is(specs, "ModelParallel"):
        rules = rules_of(specs)
    else:
        return None
    asked: list[AskedSpec | None] = [_matched(rules, array.name) for array in arrays]
    for number, array in enumerate(arrays):
        owner = _slot_of(array, arrays)
        if owner is not None:  # Keras gives an optimizer's slot the layout of its variable
            asked[number] = asked[owner]
    used = {one.rule for one in asked if one is not None}
    # Rules also apply to the outputs of layers, under the path of the layer and "/output".
    outputs = [f"{path}/output" for path in layer_paths(value)] if is_layer(_bases(value)) else []
    unmatched = [
        pattern
        for pattern, _ in rules
        if pattern not in used and not any(matches(pattern, output) for output in outputs)
    ]
    return AskedLayout(specs=asked, unmatched=unmatched, axes=mesh)


def _matched(rules: Sequence[tuple[str, Any]], name: str) -> AskedSpec | None:
    """Return the spec for a path as `LayoutMap` does: of the equal key, else of the one pattern that matches."""
    exact = [one for one in rules if one[0] == name]
    found = exact or [one for one in rules if matches(one[0], name)]
    if not found:
        return None
    pattern, held = found[0]
    entries = tuple(entry(axis) or () for axis in axes_of(held) or [])
    problem = None
    if len(found) > 1:
        problem = (
            f"Keras refuses it: several rules match, {', '.join(repr(one) for one, _ in found)}"
        )
    return AskedSpec(entries=entries, rule=pattern, problem=problem)


def _slot_of(array: ArrayShape, arrays: Sequence[ArrayShape]) -> int | None:
    """Return the index of the variable that an optimizer's slot belongs to: the slot's name begins with its path.

    Source: `keras.optimizers.Optimizer.add_variable_from_reference`.
    """
    _, slash, name = array.name.rpartition("/")
    if not slash:
        return None
    found = [
        (len(one.name), number)
        for number, one in enumerate(arrays)
        if one.shape == array.shape and name.startswith(one.name.replace("/", "_") + "_")
    ]
    return max(found)[1] if found else None


def _variables(value: Any) -> list[Any] | None:
    bases = _bases(value)
    if is_layer(bases):
        optimizer = attribute(value, "optimizer")
        return layer_variables(value) + (optimizer_variables(optimizer) if optimizer else [])
    if is_optimizer(bases):
        return optimizer_variables(value)
    if is_variable(bases):
        return [value]
    if type(value) in (list, tuple) and value and all(is_variable(_bases(v)) for v in value):
        return list(value)
    return None


def _shape(variable: Any) -> ArrayShape | None:
    """Return the shape of one variable; None for a variable of strings."""
    dtype = getattr(variable.dtype, "name", variable.dtype)
    try:
        itemsize = dtype_named(dtype).itemsize
    except (TypeError, AttributeError):
        return None
    shape, path = tuple(map(int, variable.shape)), path_of(variable)
    return ArrayShape(
        path=f"/{path}",
        name=path,
        shape=shape,
        dtype=dtype,
        nbytes=array_bytes(shape, itemsize),
        own=spec(private.LAYOUT.of(variable)),
    )


def _bases(value: Any) -> tuple[type, ...]:
    return bases_of(type(value))


def _is(value: Any, name: str) -> bool:
    """Return whether a value is an instance of this class of `keras.distribution`."""
    kind = getattr(sys.modules.get("keras.distribution"), name, None)
    return kind is not None and any(base is kind for base in _bases(value))
