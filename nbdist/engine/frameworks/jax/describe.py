"""Descriptions of arrays for reports, made from metadata alone; no array is kept alive."""

from __future__ import annotations

import math
import sys
import weakref
from dataclasses import dataclass
from typing import Any

from nbdist.contract.snapshot import (
    Array,
    Indexed,
    Mesh,
    NamedSharding,
    Piece,
    Sharding,
    SingleDevice,
    Slices,
)
from nbdist.engine.frameworks.jax.meshes import Meshes, device_key


@dataclass(frozen=True, slots=True, eq=False)
class _Entry:
    """The description of the array under one path, kept for the next walk.

    `facts` are shape, dtype and the identity of the sharding: equal facts show that the description still holds.
    They are None where only the identity of the array shows that.
    """

    array: weakref.ref[Any]
    facts: tuple[Any, ...] | None
    mesh: Mesh | None
    described: Array


class Descriptions:
    """The `arrays` and `meshes` sections of a report, made anew in each walk.

    An unchanged array keeps the same description object in the next walk. Comparing two sections then costs
    one comparison of identity for each array, and no array is encoded twice.
    """

    def __init__(self, meshes: Meshes) -> None:
        self._meshes = meshes
        self._before: dict[str, _Entry] = {}
        self._now: dict[str, _Entry] = {}
        self._meshes_met: dict[str, Mesh] = {}
        self._dtypes: dict[Any, tuple[str, int]] = {}

    def begin(self) -> None:
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
