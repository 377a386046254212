"""Descriptions of variables and tensors for reports, from their metadata alone; no variable is kept alive."""

from __future__ import annotations

import math
import weakref
from dataclasses import dataclass
from typing import Any

from nbdist.contract.snapshot import Array, NamedSharding, Sharding, SingleDevice
from nbdist.engine.frameworks.tensorflow.strategies import AXIS, Replicas, key_of


@dataclass(frozen=True, slots=True, eq=False)
class _Entry:
    array: weakref.ref[Any]
    mesh: str
    described: Array


class Descriptions:
    """The descriptions of the arrays of a look; one that has not changed is the same object in the next look."""

    def __init__(self, process_id: int) -> None:
        self._process_id = process_id
        self._replicas: Replicas | None = None
        self._before: dict[str, _Entry] = {}
        self._now: dict[str, _Entry] = {}
        self._unlisted: dict[int, _Entry] = {}

    def begin(self, replicas: Replicas) -> None:
        """Start a look at a process with the replicas of its strategy."""
        self._replicas = replicas
        self._before, self._now = self._now, {}
        self._unlisted = {i: one for i, one in self._unlisted.items() if one.array() is not None}

    def add(self, path: str, array: Any) -> bool:
        """List an array; return False for one that cannot be described."""
        entry = self._entry(self._before.get(path), array, path)
        if entry is None:
            return False
        self._now[path] = entry
        return True

    def keep(self, path: str, shape: tuple[int, ...]) -> bool:
        """List again what the last look listed under a path with this shape; return False if it listed nothing."""
        entry = self._before.get(path)
        if entry is None or entry.described.shape != shape:
            return False
        self._now[path] = entry
        return True

    def describe(self, array: Any) -> Array | None:
        """Return one array with an empty path, without listing it; None if it cannot be described."""
        entry = self._entry(self._unlisted.get(id(array)), array, "")
        if entry is None:
            return None
        self._unlisted[id(array)] = entry
        return entry.described

    def arrays(self) -> tuple[Array, ...]:
        """Return the arrays of this look, in the order met."""
        return tuple(entry.described for entry in self._now.values())

    def _entry(self, before: _Entry | None, array: Any, path: str) -> _Entry | None:
        if self._replicas is None:
            return None
        mesh = self._replicas.mesh.id
        if before is not None and before.array() is array and before.mesh == mesh:
            return before
        described = describe(array, path, self._replicas, self._process_id)
        return _Entry(weakref.ref(array), mesh, described) if described is not None else None


def describe(array: Any, path: str, replicas: Replicas, process_id: int) -> Array | None:
    """Return the description of a variable or tensor for a report.

    The result is None if its shape is not known, its elements have no size (strings, handles), or it lies on a
    device that is not shown.
    """
    shape = array.shape
    if shape is None or not shape.is_fully_defined():
        return None
    itemsize = array.dtype.size
    if array.dtype.name in ("string", "resource", "variant") or not itemsize:
        return None
    sizes = tuple(int(size) for size in shape)
    sharding = _sharding(array, len(sizes), replicas, process_id)
    if sharding is None:
        return None
    return Array(
        path=path,
        shape=sizes,
        dtype=array.dtype.name,
        nbytes=math.prod(sizes) * itemsize,
        sharding=sharding,
    )


def _sharding(array: Any, dimensions: int, replicas: Replicas, process_id: int) -> Sharding | None:
    values = replica_values(array)
    if values is None:
        key = key_of(array.device, replicas.platform, process_id)
        return None if key is None else SingleDevice(device=key, memory_kind=None)
    if len(values) * replicas.workers != replicas.count:
        return None  # of an earlier strategy
    return NamedSharding(
        mesh=replicas.mesh.id,
        spec=((),) * dimensions,
        # Each replica has a value of its own until the variable is read, such as the counts of a metric.
        unreduced=(AXIS,) if array.synchronization.name == "ON_READ" else (),
        memory_kind=None,
    )


def replica_values(array: Any) -> tuple[Any, ...] | None:
    """Return this process's copies of a distributed variable, one for each of its devices; None for a plain one.

    Private API: `_values` of `tensorflow.python.distribute.values.DistributedVariable` (TensorFlow 2.21); the
    public `strategy.experimental_local_results` needs the strategy under which the variable was made. If it is
    missing, the variable is described as a plain variable on its first device.
    """
    values = getattr(array, "_values", None)
    return values if isinstance(values, tuple) and values else None
