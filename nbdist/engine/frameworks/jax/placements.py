"""How JAX's devices, meshes, shardings and arrays are named to another process, and made there again.

What lies on devices of one process alone is that process's own, and becomes the other's own; all else is the same
on both.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from nbdist.contract.calls.namespace import NamespaceArray
from nbdist.contract.calls.stepping import Origin
from nbdist.contract.calls.values import Box, box
from nbdist.dtypes import dtype_named
from nbdist.engine.frameworks.jax.arrays import bounds_of, unique_pieces, whole_piece
from nbdist.engine.frameworks.jax.paths import array_paths
from nbdist.engine.frameworks.jax.repair import context
from nbdist.engine.frameworks.jax.repair.become import become
from nbdist.engine.frameworks.jax.repair.copies import deleted, remade
from nbdist.engine.frameworks.jax.repair.hashes import matters
from nbdist.engine.frameworks.jax.repair.names import names_of_arrays
from nbdist.engine.frameworks.jax.repair.shardings import Devices, live_platforms
from nbdist.engine.frameworks.jax.repair.survey import survey
from nbdist.engine.frameworks.jax.repair.twins import Twins
from nbdist.engine.frameworks.jax.step.origins import UNKNOWN
from nbdist.engine.frameworks.jax.step.step import Step
from nbdist.engine.frameworks.jax.versions import without_path
from nbdist.engine.namespace.copies import within
from nbdist.engine.namespace.placements import Parts
from nbdist.engine.values.arrays import Piece

Device = tuple[str, str, int, int]
"""In a pickle: `"device"`, its platform, its process (the one that reads it: -1), its id or its place there."""

OWN = -1

BEFORE_REPAIR = "from before a repair: make it again"
"""Said of what is held by an object in which nothing can be replaced, such as an iterator."""


class Placements:
    """See `nbdist.engine.namespace.placements.Placements`.

    Args:
      namespace: The user's.
      step: Has noted which program computed what.
    """

    def __init__(self, namespace: dict[str, Any], step: Step) -> None:
        import jax

        self._step = step
        self._namespace = namespace
        self._own = jax.process_index()
        self._live: Collection[int] = ()
        self._several: dict[Any, Any] = {}
        self._now = frozenset(Devices.now(live_platforms()).by_key.values())
        self._paths: dict[int, str] | None = None

    # -- on the process that has lived on ----------------------------------------------------------

    def is_array(self, value: Any) -> bool:
        """An array, and not what stands for one while a function is traced; a typed key holds one inside."""
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
        """Whether an array is one of the back end that is up, and not of one before a repair.

        The mesh of one from before has the new devices by now: only the back end knows which arrays are its own.
        """
        if id(array) not in self._live and not array.is_deleted():
            jax = sys.modules["jax"]
            self._live = {id(a) for name in live_platforms() for a in jax.live_arrays(name)}
        return id(array) in self._live or array.is_deleted()

    def describe(self, array: Any, number: int) -> NamespaceArray:
        """Its key is its path, else the program that computed it, else one that nobody else has."""
        spans = not array.is_fully_addressable
        return NamespaceArray(
            key=self._key(array) if spans else f"own {number}",
            dtype=str(array.dtype),
            shape=tuple(array.shape),
            spans=spans,
            origin=self._origin(array) if spans else None,
            pieces=tuple(box(piece.bounds) for piece in self.pieces(array)),
        )

    def _origin(self, array: Any) -> Origin | None:
        """None: it gets one when the next cell begins, on all processes alike."""
        origins = self._step.dispatched.origins
        return origins.of(array) if array in origins else None

    def placement(self, array: Any) -> Any:
        """Its sharding, whether it is committed to its devices and of a weak type, and whether it has values."""
        return (
            array.sharding,
            bool(getattr(array, "_committed", True)),
            bool(getattr(array, "weak_type", False)),
            array.is_deleted(),
        )

    def pieces(self, array: Any) -> Sequence[Piece]:
        """One for each part, however many devices have it."""
        return [] if array.is_deleted() else unique_pieces(array)

    def find(self, keys: Collection[str]) -> Mapping[str, Any]:
        """Arrays that lie on several processes, by path or by origin."""
        wanted = set(keys)
        jax = sys.modules["jax"]
        spanning = [a for a in jax.live_arrays() if not a.is_fully_addressable]
        found = {self._key(array): array for array in spanning}
        return {key: array for key, array in found.items() if key in wanted}

    def spanning(self) -> Mapping[str, Any]:
        """See the protocol."""
        return {
            path: array
            for path, array in self._at_paths().items()
            if not array.is_deleted() and self._origin(array) not in (None, UNKNOWN)
        }

    def own(self) -> Mapping[str, Any]:
        """See the protocol."""
        return {p: array for p, array in self._at_paths(own=True).items() if not array.is_deleted()}

    def whole(self, array: Any) -> Piece:
        """See the protocol."""
        return whole_piece(array)

    def _at_paths(self, *, own: bool = False) -> dict[str, Any]:
        """Arrays on several processes, or on this one alone, that a path leads to; of a typed key its data."""
        jax = sys.modules["jax"]
        every = array_paths(self._namespace, jax.Array).items()
        found = {path: getattr(array, "_base_array", array) for path, array in every}
        return {
            path: a
            for path, a in found.items()
            if a.is_fully_addressable is own and self._is_of_now(a)
        }

    def now(self, arrays: Mapping[str, NamespaceArray]) -> Mapping[str, Origin]:
        """See the protocol."""
        origins = self._step.dispatched.origins
        return {path: origins.of(array) for path, array in self._alike(arrays).items()}

    def wanted(self, arrays: Mapping[str, NamespaceArray]) -> Mapping[str, Sequence[Box]]:
        """See the protocol; nothing of one array that stands where there were two."""
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
        """See the protocol."""
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
        # A compiled function may have one of them in it as a constant.
        jax.clear_caches()
        return back

    def origins(self) -> frozenset[Origin]:
        """See the protocol."""
        return frozenset(origin for _, origin in without_path(self._step, ()))

    def newer(self, there: Collection[Origin]) -> list[str]:
        """See the protocol; of arrays that were made of values on the host, and have no path, nothing is known."""
        found = {path: array for path, array in self._at_paths().items() if not array.is_deleted()}
        paths = {p for p, a in found.items() if self._origin(a) not in (None, UNKNOWN, *there)}
        rest = without_path(self._step, found.values())
        hidden = [a for a, origin in rest if origin not in there and self._is_of_now(a)]
        return sorted({*paths, *names_of_arrays(hidden, self._namespace)})

    def _key(self, array: Any) -> str:
        if self._paths is None:
            jax = sys.modules["jax"]
            every = array_paths(self._namespace, jax.Array).items()
            # A typed key of random numbers is found at a path, and what it holds travels.
            self._paths = {id(getattr(a, "_base_array", a)): path for path, a in reversed([*every])}
        path = self._paths.get(id(array))
        if path is not None:
            return path
        generation, serial, output = self._step.dispatched.origins.of(array)
        return f"@{generation}.{serial}.{output}" if serial else f"nameless {id(array)}"

    def reference(self, value: Any) -> Any | None:
        """See the protocol; shardings of JAX's own making that name their devices in no public way are pickled."""
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
        """The stand-in for devices of several processes, as of `jax.devices()`: they are the same on all."""
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
        """None: the devices are as here."""
        return ()

    def settings(self) -> Any:
        """The mesh and the device that are set."""
        return context.note()

    # -- on the new process ------------------------------------------------------------------------

    def referent(self, reference: Any) -> Any:
        """Made of this process's devices."""
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
                # What was one object is one.
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
    ) -> tuple[list[list[list[int]]], Callable[[Parts], Any]]:
        """The parts that this process's devices hold."""
        sharding, committed, weak, has_gone = placement
        shape = described.shape
        devices = sharding.addressable_devices_indices_map(shape)
        local = {device.id: device for device in devices}
        bounds = {device.id: bounds_of(index, shape) for device, index in devices.items()}
        distinct = {str(one): one for one in bounds.values()}
        holders = {
            key: [device for device, one in bounds.items() if str(one) == key] for key in distinct
        }
        like = SimpleNamespace(
            shape=shape, dtype=dtype_named(described.dtype), _committed=committed, weak_type=weak
        )

        def finish(parts: Parts) -> Any:
            if parts is None or has_gone:
                return deleted(like, sharding, local)
            pieces = [(holders[key], part) for key, part in zip(distinct, parts, strict=True)]
            return remade(like, pieces, sharding, local)

        return ([] if has_gone else list(distinct.values())), finish

    def set(self, settings: Any) -> None:
        """Sets what another process has."""
        import jax

        if settings.mesh is not None:
            jax.set_mesh(settings.mesh)
        if settings.default_device is not None:
            jax.config.update("jax_default_device", settings.default_device)

    def begin(self, generation: int) -> None:
        """Counts programs from there."""
        self._step.dispatched.restart(generation)

    def came_from(self, array: Any, origin: Origin) -> None:
        """Has it as the other processes have."""
        self._step.dispatched.origins.note(array, origin)


def _devices_of_parts(sharding: Any, shape: Sequence[int]) -> dict[Box, list[int]]:
    """The parts of an array that lie on this process, and the ids of the devices that have each."""
    found: dict[Box, list[int]] = {}
    for device, index in sharding.addressable_devices_indices_map(tuple(shape)).items():
        found.setdefault(box(bounds_of(index, shape)), []).append(device.id)
    return found


def find_device(platform: str, process: int, place: int) -> Any:
    """A device by its platform and id; `OWN` as process: this process's at that place.

    Raises:
      LookupError: There is none.
    """
    import jax

    if process == OWN:
        return jax.local_devices(backend=platform)[place]
    for device in jax.devices(platform):
        if (device.process_index, device.id) == (process, place):
            return device
    raise LookupError(f"there is no {platform} device {place} of process {process}")
