"""Descriptions of JAX's arrays, meshes and shardings for reports, made from metadata alone.

Reports are made at any time, by a thread beside the one that computes. So nothing here starts a back end, waits
for a computation, or keeps an array or a mesh alive. Only the main thread can see the mesh in context, so the main
thread notes it for the others (`ContextMesh`).
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
import sys
import threading
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from nbdist.contract.snapshot import (
    Array,
    Axis,
    DeviceKey,
    Indexed,
    Mesh,
    NamedSharding,
    Piece,
    Sharding,
    SingleDevice,
    Slices,
)
from nbdist.contract.wire import encode
from nbdist.engine.frameworks.hooks import Hooked, Unhook, imported, replaced
from nbdist.engine.frameworks.jax import private


def device_key(device: Any) -> DeviceKey:
    """Return `"process_id:device_id"`."""
    return f"{device.process_index}:{device.id}"


class Meshes:
    """Descriptions of meshes (axes, their types, device keys), each made once; no mesh is kept alive.

    A mesh holds its devices, and devices hold their back end; a back end must be freed when it is taken down.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[Any], Mesh]] = {}

    def describe(self, mesh: Any) -> Mesh:
        """Return the description of a mesh; the same object for the same mesh.

        Args:
          mesh: A `jax.sharding.Mesh`, or an `AbstractMesh`, which has no devices.
        """
        known = self._known.get(id(mesh))
        if known is not None and known[0]() is mesh:
            return known[1]
        described = _describe(mesh)
        self._known = {i: entry for i, entry in self._known.items() if entry[0]() is not None}
        self._known[id(mesh)] = (weakref.ref(mesh), described)
        return described


def _describe(mesh: Any) -> Mesh:
    types = getattr(mesh, "axis_types", None) or (None,) * len(mesh.axis_names)
    axes = [
        Axis(
            name=str(name),
            size=int(mesh.shape[name]),
            # JAX prints AxisType.Explicit and so on; meshes of versions before axis types behave as auto.
            type=kind.name.lower() if kind is not None else "auto",
        )
        for name, kind in zip(mesh.axis_names, types, strict=True)
    ]
    concrete = isinstance(mesh, sys.modules["jax.sharding"].Mesh)
    devices = [device_key(device) for device in mesh.devices.flat] if concrete else []
    return mesh_of(axes, devices)


def mesh_of(axes: Iterable[Axis], devices: Iterable[DeviceKey]) -> Mesh:
    """Return a mesh whose id is a digest of its axes and devices."""
    axes, devices = tuple(axes), tuple(devices)
    text = json.dumps(encode((axes, devices)))
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    return Mesh(id=digest, axes=axes, devices=devices)


def backend() -> Any | None:
    """Return the client of the default back end; None while none is up, or if JAX is not imported.

    For callers that must not start a back end: starts nothing and waits for nothing.
    """
    return private.DEFAULT_BACKEND.get()


def platform() -> str | None:
    """Return the platform of the default back end; None while none is up."""
    client = backend()
    return None if client is None else str(client.platform)


def ready() -> bool:
    """Return whether a back end is up."""
    return backend() is not None


class ContextMesh(Hooked):
    """The mesh in context on one thread, kept where other threads can read it; keeps no mesh alive.

    `jax.set_mesh` and `with mesh:` set values that belong to the thread, which a probe thread cannot see. The main
    thread therefore notes the mesh: at each start and end of a cell, and whenever JAX sets it.

    Args:
      thread: `threading.Thread.ident` of the thread whose mesh in context is noted.
    """

    def __init__(self, thread: int) -> None:
        self._thread = thread
        self._noted: weakref.ref[Any] | None = None

    def mesh(self) -> Any | None:
        """Return the `jax.sharding.Mesh` last noted; None if there is none. May be called on any thread."""
        noted = self._noted
        return noted() if noted is not None else None

    def note(self) -> None:
        """Hook into JAX where possible; if called on the thread of this object, note its mesh in context."""
        self.hook()
        if threading.get_ident() == self._thread:
            mesh = mesh_in_context()
            self._noted = weakref.ref(mesh) if mesh is not None else None

    def placed(self) -> Unhook | None:
        """Place the hook for `note`."""
        return hook_changes(self.note)


def mesh_in_context() -> Any | None:
    """Return the mesh in context on the calling thread; None if there is none."""
    concrete, older = private.CONCRETE_MESH.get(), private.THREAD_RESOURCES.get()
    if concrete is None:
        return None
    try:
        mesh = concrete()
        if mesh.empty:
            mesh = older.env.physical_mesh  # type: ignore[union-attr]
        return None if mesh.empty else mesh
    except AttributeError:
        return None


def hook_changes(note: Callable[[], None]) -> Unhook | None:
    """Install hooks that call `note` after each change of the mesh in context, on the thread that changes it.

    Returns:
      A function that removes the hook. None if JAX cannot be hooked, since it is not fully imported or these
      methods are gone: the mesh is then known at cell start and end only.

    JAX offers no event for this. `jax.set_mesh` is a class in jax 0.10, though documented as a function; its
    methods are replaced, and so is the assignment to the `env` of `THREAD_RESOURCES`.
    """
    set_mesh = getattr(imported("jax"), "set_mesh", None)
    places = [(set_mesh, "__init__"), (set_mesh, "__exit__")]
    if not all(isinstance(cls, type) and name in vars(cls) for cls, name in places):
        return None
    older = private.THREAD_RESOURCES.get()
    if older is not None:
        places.append((type(older), "__setattr__"))
    placed = [replaced(cls, name, _noting(getattr(cls, name), note)) for cls, name in places]

    def unhook() -> None:
        for restore in placed:
            restore()

    return unhook


def _noting(original: Callable[..., Any], note: Callable[[], None]) -> Callable[..., Any]:
    @functools.wraps(original)
    def method(*args: Any, **options: Any) -> Any:
        __tracebackhide__ = True  # from tracebacks that IPython prints
        result = original(*args, **options)
        note()
        return result

    return method


@dataclass(frozen=True, slots=True, eq=False)
class _Entry:
    """The description of the array under one path, kept for the next walk.

    `facts` are shape, dtype and the identity of the sharding: if they are equal in the next walk, the description
    still holds. `facts` is None if the description holds for this very array only.
    """

    array: weakref.ref[Any]
    facts: tuple[Any, ...] | None
    mesh: Mesh | None
    described: Array


class Descriptions:
    """The `arrays` and `meshes` sections of a report, made anew in each walk; the walk's `Taker` of JAX's arrays.

    An unchanged array keeps the same description object in the next walk. Comparing two sections then costs
    one comparison of identity for each array, and no array is encoded twice.
    """

    def __init__(self, meshes: Meshes) -> None:
        self._meshes = meshes
        self._before: dict[str, _Entry] = {}
        self._now: dict[str, _Entry] = {}
        self._meshes_met: dict[str, Mesh] = {}
        self._dtypes: dict[Any, tuple[str, int]] = {}

    def array_classes(self) -> tuple[type, ...]:
        """Return `jax.Array` if JAX has been imported."""
        array = getattr(sys.modules.get("jax"), "Array", None)
        return (array,) if array is not None else ()

    def mesh_classes(self) -> tuple[type, ...]:
        """Return `jax.sharding.Mesh` if JAX has been imported."""
        mesh = getattr(sys.modules.get("jax.sharding"), "Mesh", None)
        return (mesh,) if mesh is not None else ()

    def walk_again(self) -> None:
        """Start a walk."""
        self._before, self._now, self._meshes_met = self._now, {}, {}

    def arrays(self) -> tuple[Array, ...]:
        """Return the arrays of this walk, in the order met."""
        return tuple(entry.described for entry in self._now.values())

    def meshes(self) -> tuple[Mesh, ...]:
        """Return the meshes of this walk, in the order of their ids."""
        return tuple(self._meshes_met[name] for name in sorted(self._meshes_met))

    def add_mesh(self, mesh: Any) -> None:
        """Add a mesh that was met outside an array; the empty mesh is left out."""
        if not mesh.empty:
            described = self._meshes.describe(mesh)
            self._meshes_met[described.id] = described

    def add(self, path: str, array: Any, *, lent: bool = False) -> bool:
        """Add an array; return False for one that is deleted or was donated, unless it is lent."""
        if not lent and array.is_deleted():
            return False
        entry = self._before.get(path)
        if entry is None or entry.array() is not array:
            entry = self._entry(path, array, entry)
        self._list(path, entry)
        return True

    def keep(self, path: str, shape: tuple[int, ...]) -> bool:
        """List again the array of this path and shape from the last walk; return False if there is none."""
        entry = self._before.get(path)
        if entry is None or entry.described.shape != shape:
            return False
        self._list(path, entry)
        return True

    def _list(self, path: str, entry: _Entry) -> None:
        if entry.mesh is not None:
            self._meshes_met[entry.mesh.id] = entry.mesh
        self._now[path] = entry

    def describe(self, array: Any) -> Array:
        """Return the description of an array without a path; its mesh is listed, the array is not."""
        entry = self._entry("", array, None)
        if entry.mesh is not None:
            self._meshes_met[entry.mesh.id] = entry.mesh
        return entry.described

    def _entry(self, path: str, array: Any, before: _Entry | None) -> _Entry:
        shape, dtype, sharding = array.shape, array.dtype, array.sharding
        mesh, identity = self._identity(sharding)
        facts = (shape, dtype, identity) if identity is not None else None
        if before is not None and facts is not None and before.facts == facts:
            return _Entry(weakref.ref(array), facts, mesh, before.described)
        name, itemsize = self._dtype(dtype)
        described = Array(
            path=path,
            shape=tuple(shape),
            dtype=name,
            nbytes=math.prod(shape) * itemsize,
            sharding=describe_sharding(sharding, shape, self._meshes),
        )
        return _Entry(weakref.ref(array), facts, mesh, described)

    def _identity(self, sharding: Any) -> tuple[Mesh | None, tuple[Any, ...] | None]:
        """Return the mesh of a sharding, and values that identify the sharding without keeping it alive."""
        kinds = sys.modules["jax.sharding"]
        if type(sharding) is kinds.NamedSharding:
            mesh = self._meshes.describe(sharding.mesh)
            return mesh, (mesh.id, sharding.spec, sharding.memory_kind)
        if type(sharding) is kinds.SingleDeviceSharding:
            (device,) = sharding.device_set
            return None, (device_key(device), sharding.memory_kind)
        return None, None

    def _dtype(self, dtype: Any) -> tuple[str, int]:
        # The dtype of a typed PRNG key has an itemsize, too: the number of bytes of its key data.
        if dtype not in self._dtypes:
            self._dtypes[dtype] = (str(dtype), int(dtype.itemsize))
        return self._dtypes[dtype]


def partitions(spec: Any) -> tuple[Any, ...]:
    """Return the entries of a `jax.sharding.PartitionSpec`: each an axis, a tuple of axes, or None.

    Since jax 0.10.2 a spec has the attribute `partitions`, and a spec with unreduced axes cannot be iterated.
    """
    return tuple(spec.partitions if hasattr(spec, "partitions") else spec)


def describe_sharding(sharding: Any, shape: tuple[int, ...], meshes: Meshes) -> Sharding:
    """Return the description of a sharding for reports.

    Args:
      sharding: Any `jax.sharding.Sharding`.
      shape: Global shape, one size per dimension.
      meshes: Describes the mesh of the sharding.
    """
    kinds = sys.modules["jax.sharding"]
    memory_kind = sharding.memory_kind
    if isinstance(sharding, kinds.NamedSharding):
        spec = tuple(_axes(part) for part in partitions(sharding.spec))
        return NamedSharding(
            mesh=meshes.describe(sharding.mesh).id,
            # JAX leaves out dimensions at the end that are not split.
            spec=spec + ((),) * (len(shape) - len(spec)),
            unreduced=tuple(sorted(map(str, getattr(sharding.spec, "unreduced", ())))),
            memory_kind=memory_kind,
        )
    if len(sharding.device_set) == 1:
        (device,) = sharding.device_set
        return SingleDevice(device=device_key(device), memory_kind=memory_kind)
    return Indexed(pieces=pieces(sharding, shape), memory_kind=memory_kind)


def _axes(part: Any) -> tuple[str, ...]:
    """Return the mesh axes of one entry of a spec: None, a name, a tuple of names, or UNCONSTRAINED."""
    if isinstance(part, str):
        return (str(part),)
    return tuple(map(str, part)) if isinstance(part, tuple) else ()


def pieces(sharding: Any, shape: tuple[int, ...]) -> tuple[Piece, ...]:
    """Return the index map of a sharding, grouped by piece; empty where JAX does not give one.

    Source: `Sharding.devices_indices_map`, which refuses some shardings.
    """
    try:
        index_map = sharding.devices_indices_map(shape)
    except (NotImplementedError, ValueError):
        return ()
    grouped: dict[Slices, list[str]] = {}
    for device, index in index_map.items():
        part = tuple(piece.indices(size)[:2] for piece, size in zip(index, shape, strict=True))
        grouped.setdefault(part, []).append(device_key(device))
    return tuple(Piece(slices=part, devices=tuple(devices)) for part, devices in grouped.items())
