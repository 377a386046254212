"""Placements of JAX: references to devices, meshes, shardings and arrays that another process resolves.

A mesh or sharding over devices of one process alone becomes one over the other process's own devices. Every other
mesh or sharding is over the same devices on both processes.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from nbdist.contract.calls.namespace import NamespaceArray
from nbdist.contract.calls.stepping import Origin
from nbdist.contract.calls.values import Box
from nbdist.engine.frameworks.jax.arrays import bounds_of, unique_pieces, whole_piece
from nbdist.engine.frameworks.jax.objects import array_paths
from nbdist.engine.frameworks.jax.private import base_array, is_committed
from nbdist.engine.frameworks.jax.repair.anew import (
    NewDevices,
    context_now,
    deleted,
    live_platforms,
    remade,
)
from nbdist.engine.frameworks.jax.repair.become import become
from nbdist.engine.frameworks.jax.repair.survey import Twins, matters, survey
from nbdist.engine.frameworks.jax.repair.versions import names_of_arrays, without_path
from nbdist.engine.frameworks.jax.step import Step
from nbdist.engine.frameworks.jax.step.origins import UNKNOWN
from nbdist.engine.namespace.copies import within
from nbdist.engine.namespace.things import Parts
from nbdist.engine.values.arrays import ReadablePiece
from nbdist.notation import dtype_named

Device = tuple[str, str, int, int]
"""In a pickle: `"device"`, platform, process, id. For the reader's own: `OWN`, place among local devices."""

OWN = -1

BEFORE_REPAIR = "from before a repair: make it again"
"""Error for old devices, meshes or arrays that are still held by an object that cannot be changed."""


class JaxPlacements:
    """Placements of JAX's arrays on the same number of processes.

    Args:
      namespace: The user's namespace.
      step: Has noted which program computed each array.
    """

    def __init__(self, namespace: dict[str, Any], step: Step) -> None:
        import jax

        self._step = step
        self._namespace = namespace
        self._own = jax.process_index()
        self._live: Collection[int] = ()
        self._several: dict[Any, Any] = {}
        self._now = frozenset(NewDevices.now(live_platforms()).by_key.values())
        self._paths: dict[int, str] | None = None

    # -- on the process that has lived on ----------------------------------------------------------

    def is_array(self, value: Any) -> bool:
        """Return whether a value is an array: not a tracer, and not a typed key, which only holds an array."""
        jax = sys.modules["jax"]
        if (
            not isinstance(value, jax.Array)
            or isinstance(value, jax.core.Tracer)
            or jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key)
        ):
            return False
        if not self._is_of_now(value):
            raise pickle.PicklingError(f"an array {BEFORE_REPAIR}")
        return True

    def _is_of_now(self, array: Any) -> bool:
        """Return whether an array belongs to the back end that is up, or is deleted.

        After a repair, older arrays have meshes with the new devices too; only the back end can tell its own
        arrays.
        """
        if id(array) not in self._live and not array.is_deleted():
            jax = sys.modules["jax"]
            self._live = {id(a) for name in live_platforms() for a in jax.live_arrays(name)}
        return id(array) in self._live or array.is_deleted()

    def describe(self, array: Any, number: int) -> NamespaceArray:
        """Return a description. Its key is the path; without one the origin; else a text of this process alone."""
        spans = not array.is_fully_addressable
        return NamespaceArray(
            key=self._key(array) if spans else f"own {number}",
            dtype=str(array.dtype),
            shape=tuple(array.shape),
            spans=spans,
            origin=self._origin(array) if spans else None,
            pieces=tuple(piece.bounds for piece in self.pieces(array)),
        )

    def _origin(self, array: Any) -> Origin | None:
        """Return the origin of an array; None until it gets one, when the next cell begins on all processes."""
        origins = self._step.dispatched.origins
        return origins.of(array) if array in origins else None

    def placement(self, array: Any) -> Any:
        """Return an array's sharding, and whether it is committed to its devices, of a weak type, and deleted."""
        return (
            array.sharding,
            is_committed(array),
            bool(getattr(array, "weak_type", False)),
            array.is_deleted(),
        )

    def pieces(self, array: Any) -> Sequence[ReadablePiece]:
        """Return one piece for each part, however many devices have it; none of a deleted array."""
        return [] if array.is_deleted() else unique_pieces(array)

    def find(self, keys: Collection[str]) -> Mapping[str, Any]:
        """Return arrays on several processes by their keys: path or origin."""
        wanted = set(keys)
        jax = sys.modules["jax"]
        spanning = [a for a in jax.live_arrays() if not a.is_fully_addressable]
        found = {self._key(array): array for array in spanning}
        return {key: array for key, array in found.items() if key in wanted}

    def spanning(self) -> Mapping[str, Any]:
        """Return arrays on several processes that have values and a known origin, by path."""
        return {
            path: array
            for path, array in self._at_paths().items()
            if not array.is_deleted() and self._origin(array) not in (None, UNKNOWN)
        }

    def own(self) -> Mapping[str, Any]:
        """Return arrays of this process alone that have values, by path."""
        return {p: array for p, array in self._at_paths(own=True).items() if not array.is_deleted()}

    def whole(self, array: Any) -> ReadablePiece:
        """Return all of an array of this process alone."""
        return whole_piece(array)

    def _at_paths(self, *, own: bool = False) -> dict[str, Any]:
        """Return arrays on several processes, or on this one alone, by path; for a typed key, its data."""
        jax = sys.modules["jax"]
        every = array_paths(self._namespace, jax.Array).items()
        found = {path: base_array(array) for path, array in every}
        return {
            path: a
            for path, a in found.items()
            if a.is_fully_addressable is own and self._is_of_now(a)
        }

    def now(self, arrays: Mapping[str, NamespaceArray]) -> Mapping[str, Origin]:
        """Return the origins of the arrays at these paths that have the same type."""
        origins = self._step.dispatched.origins
        return {path: origins.of(array) for path, array in self._alike(arrays).items()}

    def wanted(self, arrays: Mapping[str, NamespaceArray]) -> Mapping[str, Sequence[Box]]:
        """Return the parts that belong here; nothing for paths that lead to one array where there were two."""
        found = self._alike(arrays)
        then: dict[int, set[Origin | None]] = {}
        for path, array in found.items():
            then.setdefault(id(array), set()).add(arrays[path].origin)
        return {
            path: list(_devices_of_parts(array.sharding, array.shape))
            for path, array in found.items()
            if len(then[id(array)]) == 1
        }

    def _alike(self, arrays: Mapping[str, NamespaceArray]) -> dict[str, Any]:
        return {
            path: array
            for path, array in self._at_paths().items()
            if path in arrays
            and (str(array.dtype), tuple(array.shape)) == (arrays[path].dtype, arrays[path].shape)
        }

    def go_back(
        self, arrays: Mapping[str, NamespaceArray], parts: Mapping[str, Mapping[Box, Any]]
    ) -> list[str]:
        """Put new arrays of these parts in place of the arrays at their paths; return all paths to them."""
        import jax

        found, twins = self._at_paths(), Twins()
        surveyed = survey(matters)
        for path, then in arrays.items():
            old = found[path]
            if old in twins:
                continue
            held = _devices_of_parts(old.sharding, old.shape)
            local = {device.id: device for device in old.sharding.addressable_devices}
            pieces = [(devices, within(parts[path], part)) for part, devices in held.items()]
            new = remade(old, pieces, old.sharding, local)
            assert then.origin is not None
            self._step.dispatched.origins.note(new, then.origin)
            twins.add(old, new)
        back = sorted(path for path, array in found.items() if array in twins)
        del found, old
        become(twins, surveyed)
        # A compiled function may contain an old array as a constant.
        jax.clear_caches()
        return back

    def origins(self) -> frozenset[Origin]:
        """Return the origins of all arrays on several processes that have values and a known origin."""
        return frozenset(origin for _, origin in without_path(self._step, ()))

    def newer(self, there: Collection[Origin]) -> list[str]:
        """Return what leads to arrays of other origins; leave out arrays of host values that no path leads to."""
        found = {path: array for path, array in self._at_paths().items() if not array.is_deleted()}
        paths = {p for p, a in found.items() if self._origin(a) not in (None, UNKNOWN, *there)}
        rest = without_path(self._step, found.values())
        hidden = [a for a, origin in rest if origin not in there and self._is_of_now(a)]
        return sorted({*paths, *names_of_arrays(hidden, self._namespace)})

    def _key(self, array: Any) -> str:
        if self._paths is None:
            jax = sys.modules["jax"]
            every = array_paths(self._namespace, jax.Array).items()
            # The path leads to a typed PRNG key; the array in the key is what is sent.
            self._paths = {id(base_array(a)): path for path, a in reversed([*every])}
        path = self._paths.get(id(array))
        if path is not None:
            return path
        generation, serial, output = self._step.dispatched.origins.of(array)
        return f"@{generation}.{serial}.{output}" if serial else f"nameless {id(array)}"

    def reference(self, value: Any) -> Any | None:
        """Return the stand-in for devices, a mesh or a sharding; None for others, also private shardings."""
        import jax

        kinds = jax.sharding
        if isinstance(value, jax.Device):
            if value not in self._now:
                raise pickle.PicklingError(f"a device {BEFORE_REPAIR}")
            return self._device(value, own=value.process_index == self._own)
        kind = type(value)
        if kind in (list, tuple, dict):
            return self._of_several(value)
        if kind is kinds.Mesh:
            devices = list(value.devices.flat)
            if not self._now.issuperset(devices):
                raise pickle.PicklingError(f"a mesh {BEFORE_REPAIR}")
            own = self._all_own(devices)
            return (
                "mesh",
                tuple(self._device(device, own=own) for device in devices),
                value.devices.shape,
                value.axis_names,
                value.axis_types,
            )
        if kind is kinds.NamedSharding:
            return "named", value.mesh, value.spec, value.memory_kind
        if kind is kinds.SingleDeviceSharding:
            (device,) = value.device_set
            if device not in self._now:
                raise pickle.PicklingError(f"a sharding {BEFORE_REPAIR}")
            return (
                "single",
                self._device(device, own=device.process_index == self._own),
                value.memory_kind,
            )
        return None

    def _of_several(self, value: Any) -> Any | None:
        """Return the stand-in for a container of devices of several processes, such as `jax.devices()`."""
        import jax

        devices = list(value.values()) if type(value) is dict else value
        if not devices or not isinstance(devices[0], jax.Device):
            return None
        if not all(isinstance(one, jax.Device) for one in devices):
            return None
        if all(one.process_index == self._own for one in devices):
            return None
        named = tuple(self._device(one, own=False) for one in devices)
        keys = tuple(value) if type(value) is dict else None
        return "several", type(value), id(value), keys, named

    def _all_own(self, devices: Iterable[Any]) -> bool:
        return all(device.process_index == self._own for device in devices)

    def _device(self, device: Any, *, own: bool) -> Device:
        if not own:
            return "device", device.platform, device.process_index, device.id
        jax = sys.modules["jax"]
        place = jax.local_devices(backend=device.platform).index(device)
        return "device", device.platform, OWN, place

    def changes(self) -> Sequence[str]:
        """Return none: the devices are the same as here."""
        return ()

    def settings(self) -> Any:
        """Return the mesh in context and the default device."""
        return context_now()

    # -- on the new process ------------------------------------------------------------------------

    def referent(self, reference: Any) -> Any:
        """Return the object for a stand-in, made of this process's devices."""
        import jax
        import numpy

        kinds = jax.sharding
        match reference:
            case ("device", platform, process, place):
                return find_device(platform, process, place)
            case ("several", kind, number, keys, devices):
                each = [
                    find_device(platform, process, place) for _, platform, process, place in devices
                ]
                made = kind(each if keys is None else zip(keys, each, strict=True))
                # Stand-ins for one object become one object again.
                return self._several.setdefault((number, devices), made)
            case ("mesh", devices, shape, names, types):
                found = numpy.empty(len(devices), dtype=object)
                for n, (_, platform, process, place) in enumerate(devices):
                    found[n] = find_device(platform, process, place)
                return kinds.Mesh(found.reshape(shape), names, axis_types=types)
            case ("anew", sizes, names, types):
                return kinds.Mesh(
                    numpy.array(jax.devices()).reshape(sizes), names, axis_types=types
                )
            case ("named", mesh, spec, memory):
                return kinds.NamedSharding(mesh, spec, memory_kind=memory)
            case ("single", (_, platform, process, place), memory):
                return kinds.SingleDeviceSharding(
                    find_device(platform, process, place), memory_kind=memory
                )
        raise ValueError(f"unknown reference {reference!r}")

    def place(
        self, described: NamespaceArray, placement: Any
    ) -> tuple[list[Box], Callable[[Parts], Any]]:
        """Return the parts that this process's devices hold, and a function that makes the array of them."""
        sharding, committed, weak, has_gone = placement
        shape = described.shape
        local = {device.id: device for device in sharding.addressable_devices}
        holders = _devices_of_parts(sharding, shape)
        like = SimpleNamespace(
            shape=shape, dtype=dtype_named(described.dtype), _committed=committed, weak_type=weak
        )

        def finish(parts: Parts) -> Any:
            if parts is None or has_gone:
                return deleted(like, sharding, local)
            pieces = list(zip(holders.values(), parts, strict=True))
            return remade(like, pieces, sharding, local)

        return ([] if has_gone else list(holders)), finish

    def set(self, settings: Any) -> None:
        """Set the mesh in context and the default device of another process."""
        import jax

        if settings.mesh is not None:
            jax.set_mesh(settings.mesh)
        if settings.default_device is not None:
            jax.config.update("jax_default_device", settings.default_device)

    def begin(self, generation: int) -> None:
        """Start to count programs anew for the back end of this number."""
        self._step.dispatched.restart(generation)

    def came_from(self, array: Any, origin: Origin) -> None:
        """Note, for an array made here, the origin that it has on the other processes."""
        self._step.dispatched.origins.note(array, origin)


def _devices_of_parts(sharding: Any, shape: Sequence[int]) -> dict[Box, list[int]]:
    """Return the parts of an array on this process, each with the ids of the devices that have it."""
    found: dict[Box, list[int]] = {}
    for device, index in sharding.addressable_devices_indices_map(tuple(shape)).items():
        found.setdefault(bounds_of(index, shape), []).append(device.id)
    return found


def find_device(platform: str, process: int, place: int) -> Any:
    """Return a device by platform, process and id; if the process is `OWN`, the local device at that place.

    Raises:
      LookupError: There is no such device.
    """
    import jax

    if process == OWN:
        return jax.local_devices(backend=platform)[place]
    for device in jax.devices(platform):
        if (device.process_index, device.id) == (process, place):
            return device
    raise LookupError(f"there is no {platform} device {place} of process {process}")
