"""Distributions of Keras: the current one is noted, described, compared and moved; layouts are read for plans.

`SetDistribution` notes the distribution that is set, on the main thread. `describe_distribution` describes it for
reports, `KerasComparer` for a comparison of processes. `KerasPlacements` and `KerasResized` make Keras' device
meshes again, in another process or over another number of processes; the back end places the arrays. The devices
of a mesh are known on the JAX back end only.

A plan asks for the shapes of the variables of models (`shapes`), and for the specs that a layout map gives them
(`layout`).
"""

from __future__ import annotations

import functools
import re
import sys
import threading
import weakref
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from nbdist.contract.cells import DistributionFacts
from nbdist.contract.snapshot import (
    Axis,
    Distribution,
    LayoutRule,
    Mesh,
)
from nbdist.engine import agreement
from nbdist.engine.frameworks.hooks import Hooked, Unhook
from nbdist.engine.frameworks.interfaces import (
    ArrayShape,
    AskedLayout,
    AskedSpec,
    ThisProcess,
    array_bytes,
    entry,
)
from nbdist.engine.frameworks.jax import placements, resized
from nbdist.engine.frameworks.jax.describe import Meshes, device_key, mesh_of
from nbdist.engine.frameworks.jax.describe import backend as jax_client
from nbdist.engine.frameworks.jax.start import step_or_new
from nbdist.engine.frameworks.keras import private
from nbdist.engine.frameworks.keras.expressions import (
    is_layer,
    is_optimizer,
    is_variable,
    items,
    layer_paths,
    pairs,
)
from nbdist.engine.frameworks.keras.objects import layer_variables, optimizer_variables, path_of
from nbdist.engine.frameworks.keras.private import attribute
from nbdist.engine.probe.classes import bases_of
from nbdist.errors import ArrayError
from nbdist.notation import dtype_named

NAME = "distribution"
"""The name under which Keras keeps the distribution."""


@dataclass(frozen=True, slots=True, eq=False)
class _Noted:
    """A distribution and the thread-local state it was set in; keeps neither alive."""

    distribution: weakref.ref[Any]
    state: weakref.ref[Any]


class SetDistribution(Hooked):
    """The distribution that is set on one thread, readable from other threads; keeps no distribution alive.

    `set_distribution` and `with distribution.scope():` set a value that belongs to the thread, and
    `clear_session()` replaces the values of all threads. The probe's thread does not see that value, so the main
    thread notes it: at each start and end of a cell, and whenever Keras sets it.

    Args:
      thread: `threading.Thread.ident` of that thread.
    """

    def __init__(self, thread: int) -> None:
        self._thread = thread
        self._noted: _Noted | None = None

    def get(self) -> Any | None:
        """Return the `keras.distribution.Distribution` last noted, on any thread; None where none is set."""
        noted = self._noted
        # clear_session() replaces the state in which the distribution was set.
        if noted is None or noted.state() is not private.imported_tracker():
            return None
        return noted.distribution()

    def note(self) -> None:
        """Hook into Keras if possible, and note the distribution that is set; on other threads note nothing."""
        self.hook()
        self.read()

    def read(self) -> None:
        """Note the distribution that is set, without a hook into Keras; do nothing on other threads."""
        if threading.get_ident() != self._thread:
            return
        state = private.imported_tracker()
        found = getattr(state, NAME, None)
        self._noted = _Noted(weakref.ref(found), weakref.ref(state)) if found is not None else None

    def placed(self) -> Unhook | None:
        """Place the hook for `note`."""
        return hook_changes(self.note)


def hook_changes(note: Callable[[], None]) -> Unhook | None:
    """Call `note` after each change of the distribution, on the thread that changes it.

    Returns:
      A function that removes the hook; None where no hook could be placed, so that changes are noted only at the
      start and end of a cell.
    """
    original = private.SET_GLOBAL.get()
    if original is None or private.is_coming():
        return None

    @functools.wraps(original)
    def set_global_attribute(name: Any, value: Any) -> Any:
        __tracebackhide__ = True  # from tracebacks that IPython prints
        result = original(name, value)
        if name == NAME:
            note()
        return result

    private.SET_GLOBAL.set(set_global_attribute)

    def unhook() -> None:
        if private.SET_GLOBAL.get() is set_global_attribute:
            private.SET_GLOBAL.set(original)

    return unhook


def sharding_problem() -> str | None:
    """Return a sentence if `keras.distribution` has no effect on the back end in use; None otherwise.

    The functions of the back end decide, not the version of Keras.
    """
    name = backend_name()
    if name is None:
        return None
    library = private.back_end_library(name)
    if all(callable(getattr(library, need, None)) for need in ("distribute_tensor", "initialize")):
        return None
    return (
        f"Keras' {name} back end does nothing with it: every variable stays whole and every process trains "
        "for itself. Set KERAS_BACKEND=jax before Keras is imported to shard."
    )


def backend_name() -> str | None:
    """Return the back end of the imported Keras, such as `"jax"`; None while Keras is not imported."""
    ask = private.BACKEND.get()
    return str(ask()) if callable(ask) else None


def rules_of(distribution: Any) -> list[tuple[str, Any]]:
    """Return the rules of a distribution's layout map, in order: patterns, each with its `TensorLayout`."""
    return rules_of_map(private.LAYOUT_MAP.of(distribution))


def rules_of_map(layout_map: Any) -> list[tuple[str, Any]]:
    """Return the rules of a `LayoutMap`, as `rules_of` does."""
    found = pairs(private.LAYOUT_MAP.of(layout_map))
    return [(pattern, layout) for pattern, layout in found if type(pattern) is str]


def axes_of(layout: Any) -> tuple[str | None, ...] | None:
    """Return the axes that a `TensorLayout` asks for, one per dimension; None for anything else."""
    axes = private.AXES.of(layout)
    if not isinstance(axes, tuple):
        return None
    return tuple(str(axis) if axis is not None else None for axis in axes)


def describe_distribution(distribution: Any, meshes: Meshes) -> tuple[Distribution, Mesh | None]:
    """Return a distribution as reports have it, and its mesh.

    The mesh is None if its devices are not known, as on a back end other than JAX.
    """
    mesh = describe_mesh(private.DEVICE_MESH.of(distribution), meshes)
    batch_axis = private.BATCH_AXIS.of(distribution)
    auto_shard = private.AUTO_SHARD.of(distribution)
    rules = ((pattern, axes_of(layout)) for pattern, layout in rules_of(distribution))
    described = Distribution(
        noun="distribution",
        kind=type(distribution).__name__,
        mesh=mesh.id if mesh is not None else None,
        batch_axis=str(batch_axis) if isinstance(batch_axis, str) else None,
        auto_shard=bool(auto_shard) if auto_shard is not None else None,
        rules=tuple(
            LayoutRule(pattern=pattern, axes=axes) for pattern, axes in rules if axes is not None
        ),
        problem=sharding_problem(),
    )
    return described, mesh


def describe_mesh(device_mesh: Any, meshes: Meshes) -> Mesh | None:
    """Return a `keras.distribution.DeviceMesh` as reports have meshes; None if a device is unknown.

    Keras names devices `"cpu:2048"`. The names are looked up in the back end that is up: Keras' own way, the
    property `backend_mesh`, would start a back end.
    """
    made = private.BACKEND_MESH.of(device_mesh)
    jax_mesh = getattr(sys.modules.get("jax.sharding"), "Mesh", None)
    if jax_mesh is not None and type(made) is jax_mesh:
        return meshes.describe(made)
    devices, names = private.DEVICES.of(device_mesh), private.AXIS_NAMES.of(device_mesh)
    client = jax_client()
    if client is None or devices is None or backend_name() != "jax":
        return None
    known = {f"{device.platform}:{device.id}": device_key(device) for device in client.devices()}
    keys = [_key(device, known) for device in devices.flat]
    if not all(keys):
        return None
    axes = [
        Axis(name=str(name), size=int(size), type="auto")
        for name, size in zip(items(names), devices.shape, strict=False)
    ]
    return mesh_of(axes, [key for key in keys if key])


def _key(device: Any, known: dict[str, str]) -> str | None:
    if hasattr(type(device), "process_index"):
        return device_key(device)
    name = str(device)
    return known.get(name if ":" in name else f"{name}:0")


class KerasComparer(agreement.Comparer):
    """The comparer of the distribution that Keras has set, which must be equal on all processes before a cell."""

    def __init__(self) -> None:
        self._meshes = Meshes()

    def distribution(self) -> DistributionFacts | None:
        """Return the calling thread's distribution; None where none is set."""
        noted = SetDistribution(threading.get_ident())
        noted.read()
        distribution = noted.get()
        if distribution is None:
            return None
        described, mesh = describe_distribution(distribution, self._meshes)
        return DistributionFacts(
            kind=described.kind,
            batch_axis=described.batch_axis,
            auto_shard=described.auto_shard,
            rules=described.rules,
            mesh=mesh,
        )


ANEW = "keras mesh anew"
"""The first entry of the stand-in for a device mesh."""


class KerasPlacements(placements.JaxPlacements):
    """JAX's placements, which also make Keras' device meshes from their stand-ins."""

    def referent(self, reference: Any) -> Any:
        """Return the object for a stand-in; a device mesh is made of the devices that Keras lists here."""
        if reference[0] != ANEW:
            return super().referent(reference)
        distribution = sys.modules["keras"].distribution
        _, shape, names = reference
        return distribution.DeviceMesh(shape, names, distribution.list_devices())


class KerasResized(resized.JaxResized, KerasPlacements):
    """JAX's placements for another number of processes, which also make stand-ins for Keras' device meshes."""

    def reference(self, value: Any) -> Any | None:
        """Return the stand-in for an object; a device mesh's has the sizes for the new number of devices."""
        if type(value) is not sys.modules["keras"].distribution.DeviceMesh:
            return super().reference(value)
        sizes = dict(zip(value.axis_names, value.shape, strict=True))
        return ANEW, self.sizes(sizes), tuple(value.axis_names)


def placing(process: ThisProcess, *, processes: int | None = None) -> KerasPlacements:
    """Return the placements of this process's arrays; `processes` as for `interfaces.Placing`."""
    step = step_or_new(process)
    if processes is None:
        return KerasPlacements(process.shell.user_ns, step)
    return KerasResized(process.shell.user_ns, step, processes)


def matches(pattern: str, path: str) -> bool:
    """Return whether a rule's pattern matches the whole of a path; False if it is no regular expression."""
    try:
        return re.fullmatch(pattern, path) is not None
    except re.error:
        return False


def unmatched(patterns: Iterable[str], used: Collection[str | None], model: Any) -> tuple[str, ...]:
    """Return the patterns that match no variable of a model (they are not in `used`) and no output of a layer.

    Rules also apply to the outputs of layers, under the path of the layer and "/output".

    Args:
      patterns: The patterns of all rules, in order.
      used: The patterns that match a variable.
      model: A model or layer; None where it is in another process.
    """
    rest = tuple(pattern for pattern in patterns if pattern not in used)
    if not rest or model is None:
        return rest
    outputs = [f"{path}/output" for path in layer_paths(model)]
    return tuple(one for one in rest if not any(matches(one, path) for path in outputs))


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
    model = value if is_layer(_bases(value)) else None
    left = unmatched([pattern for pattern, _ in rules], used, model)
    return AskedLayout(specs=asked, unmatched=left, axes=mesh)


def _matched(rules: Sequence[tuple[str, Any]], name: str) -> AskedSpec | None:
    """Return the spec for a path, as `LayoutMap` does: by an equal key, or else by the one matching pattern."""
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
