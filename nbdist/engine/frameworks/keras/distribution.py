"""The distribution that Keras has set: noted for other threads, described, compared, and moved to new devices.

`SetDistribution` notes it on the main thread. `describe_distribution` describes it for reports, `KerasComparer`
for a comparison of processes. `KerasPlacements` and `KerasResized` make Keras' device meshes again, in another
process or over another number of processes; the back end places the arrays.

The devices of a mesh are known on the JAX back end only.
"""

from __future__ import annotations

import functools
import sys
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nbdist.contract.cells import DistributionFacts
from nbdist.contract.snapshot import Axis, Distribution, LayoutRule, Mesh
from nbdist.engine.agreement import facts
from nbdist.engine.frameworks.hooks import Hooked, Unhook
from nbdist.engine.frameworks.jax import placements, resized
from nbdist.engine.frameworks.jax.describe import Meshes, device_key, mesh_of
from nbdist.engine.frameworks.jax.describe import backend as jax_client
from nbdist.engine.frameworks.keras import private
from nbdist.engine.frameworks.keras.expressions import items, pairs

NAME = "distribution"
"""The name under which Keras keeps the distribution."""


@dataclass(frozen=True, slots=True, eq=False)
class _Noted:
    """A distribution and the thread-local state it was set in; keeps neither alive."""

    distribution: weakref.ref[Any]
    state: weakref.ref[Any]


class SetDistribution(Hooked):
    """The distribution that is set on one thread, kept where other threads can read it; keeps none alive.

    `set_distribution` and `with distribution.scope():` set a value that belongs to the thread, and
    `clear_session()` replaces the values of all threads. The probe's thread never sees a distribution, so the main
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
        """Hook in where possible, and note the distribution that is set; other threads note nothing."""
        self.hook()
        self.read()

    def read(self) -> None:
        """Note the distribution that is set, without hooking in; do nothing on other threads."""
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
    """Return a sentence if `keras.distribution` has no effect on the back end in use; None if it has one.

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


class KerasComparer(facts.Comparer):
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
        """Return the stand-in for an object; that of a device mesh has the sizes for the new number of devices."""
        if type(value) is not sys.modules["keras"].distribution.DeviceMesh:
            return super().reference(value)
        sizes = dict(zip(value.axis_names, value.shape, strict=True))
        return ANEW, self.sizes(sizes), tuple(value.axis_names)
