"""The distribution that Keras has set: noted for other threads, described, compared, and moved to new devices.

`SetDistribution` notes it on the main thread. `describe_distribution` describes it for reports, `KerasComparer`
for a comparison of processes. `KerasPlacements` and `KerasResized` make Keras' device meshes again, in another
process or over another number of processes; the back end places the arrays.

Attributes are read from `__dict__`, since a user's subclass may override the properties. The devices of a mesh are
known on the JAX back end only.
"""

from __future__ import annotations

import functools
import sys
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from nbdist.contract.cells import DistributionFacts
from nbdist.contract.snapshot import Axis, Distribution, LayoutRule, Mesh
from nbdist.engine.agreement import facts
from nbdist.engine.frameworks.jax import placements, resized
from nbdist.engine.frameworks.jax.describe import Meshes, device_key, mesh_of
from nbdist.engine.frameworks.jax.describe import backend as jax_client
from nbdist.engine.frameworks.keras.expressions import attribute, items, pairs

NAME = "distribution"
"""The name under which Keras keeps the distribution."""


@dataclass(frozen=True, slots=True, eq=False)
class _Noted:
    """A distribution and the thread-local state it was set in; keeps neither alive."""

    distribution: weakref.ref[Any]
    state: weakref.ref[Any]


class SetDistribution:
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
        self._unhook: Callable[[], None] | None = None

    def get(self) -> Any | None:
        """Return the `keras.distribution.Distribution` last noted, on any thread; None where none is set."""
        noted = self._noted
        # clear_session() replaces the state in which the distribution was set.
        if noted is None or noted.state() is not state_of(global_state()):
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
        state = state_of(global_state())
        found = getattr(state, NAME, None)
        self._noted = _Noted(weakref.ref(found), weakref.ref(state)) if found is not None else None

    def hook(self) -> bool:
        """Note every change from now on; return False while Keras is not imported or has no place for the hook."""
        if self._unhook is None:
            self._unhook = hook_changes(self.note)
        return self._unhook is not None

    def unhook(self) -> None:
        """Remove the hook."""
        if self._unhook is not None:
            self._unhook()
            self._unhook = None


def global_state() -> ModuleType | None:
    """Return Keras' module of thread-local state; None while it is not (wholly) imported."""
    module = sys.modules.get("keras.src.backend.common.global_state")
    if module is None or getattr(module.__spec__, "_initializing", False):
        return None
    return module


def state_of(module: ModuleType | None) -> Any | None:
    """Return the object with the thread-local values; None where it is missing.

    Private API: `global_state.GLOBAL_STATE_TRACKER`, a `threading.local` that `clear_session()` replaces. The
    public `keras.distribution.distribution()` returns the same distribution on the main thread, but the import of
    Keras is not complete when the hook is first wanted, and other threads could not see `clear_session()`. If the
    object is missing, no distribution is shown.
    """
    return getattr(module, "GLOBAL_STATE_TRACKER", None)


def hook_changes(note: Callable[[], None]) -> Callable[[], None] | None:
    """Call `note` after each change of the distribution, on the thread that changes it.

    Returns:
      A function that removes the hook; None where no hook could be placed, so that changes are noted only at the
      start and end of a cell.

    Private API: `global_state.set_global_attribute`, the one function that `set_distribution` and
    `Distribution.scope()` call, whatever name they were imported by. Keras offers no event for a change. The
    module is loaded seconds before `import keras` returns, so the hook is there in time for a cell that imports
    Keras and sets a distribution in its next line.
    """
    module = global_state()
    original = getattr(module, "set_global_attribute", None)
    if module is None or original is None:
        return None

    @functools.wraps(original)
    def set_global_attribute(name: Any, value: Any) -> Any:
        __tracebackhide__ = True  # from tracebacks that IPython prints
        result = original(name, value)
        if name == NAME:
            note()
        return result

    module.set_global_attribute = set_global_attribute  # type: ignore[attr-defined]

    def unhook() -> None:
        if module.set_global_attribute is set_global_attribute:
            module.set_global_attribute = original  # type: ignore[attr-defined]

    return unhook


def sharding_problem() -> str | None:
    """Return a sentence if `keras.distribution` has no effect on the back end in use; None if it has one.

    Private API: `keras.src.backend.<name>.distribution_lib`, which has `distribute_tensor` and `initialize` where
    variables and data are really distributed. These functions decide, not the version of Keras.
    """
    name = backend_name()
    if name is None:
        return None
    library = sys.modules.get(f"keras.src.backend.{name}.distribution_lib")
    if all(callable(getattr(library, need, None)) for need in ("distribute_tensor", "initialize")):
        return None
    return (
        f"Keras' {name} back end does nothing with it: every variable stays whole and every process trains "
        "for itself. Set KERAS_BACKEND=jax before Keras is imported to shard."
    )


def backend_name() -> str | None:
    """Return the back end of the imported Keras, such as `"jax"`; None while Keras is not imported."""
    ask = getattr(sys.modules.get("keras.src.backend.config"), "backend", None)
    return str(ask()) if callable(ask) else None


def rules_of(distribution: Any) -> list[tuple[str, Any]]:
    """Return the rules of a distribution's layout map, in order: pattern and `TensorLayout`; empty without a map.

    Private API: `ModelParallel._layout_map` and `LayoutMap._layout_map`. No public way leads from a
    distribution to its map, and the map's own methods may be a user's. If they are missing, no rules are known.
    """
    return rules_of_map(attribute(distribution, "_layout_map"))


def rules_of_map(layout_map: Any) -> list[tuple[str, Any]]:
    """Return the rules of a `LayoutMap`, as `rules_of` does."""
    found = pairs(attribute(layout_map, "_layout_map"))
    return [(pattern, layout) for pattern, layout in found if type(pattern) is str]


def axes_of(layout: Any) -> tuple[str | None, ...] | None:
    """Return the axes that a `TensorLayout` asks for, one per dimension; None for anything else.

    Private API: `TensorLayout._axes`, behind its property `axes`.
    """
    axes = attribute(layout, "_axes")
    if not isinstance(axes, tuple):
        return None
    return tuple(str(axis) if axis is not None else None for axis in axes)


def describe_distribution(distribution: Any, meshes: Meshes) -> tuple[Distribution, Mesh | None]:
    """Return a distribution as reports have it, and its mesh.

    The mesh is None if its devices are not known, as on a back end other than JAX.

    Private API: the attributes behind the properties of `keras.distribution.Distribution`, which a user's
    subclass may override with code of its own. An attribute that is missing reads as None.
    """
    mesh = describe_mesh(attribute(distribution, "_device_mesh"), meshes)
    batch_axis = attribute(distribution, "_batch_dim_name")
    auto_shard = attribute(distribution, "_auto_shard_dataset")
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
    made = attribute(device_mesh, "_backend_mesh")
    jax_mesh = getattr(sys.modules.get("jax.sharding"), "Mesh", None)
    if jax_mesh is not None and type(made) is jax_mesh:
        return meshes.describe(made)
    devices, names = attribute(device_mesh, "_devices"), attribute(device_mesh, "_axis_names")
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
