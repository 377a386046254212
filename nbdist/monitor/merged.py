"""Merging of all processes' arrays, distributions and models: one entry a version, with its processes.

A new merge happens only after a process has reported a change. A repeated section costs one comparison, and the
result stays the same object.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from msgspec import structs

from nbdist.contract.snapshot import (
    Array,
    DeviceBytes,
    DeviceKey,
    Distribution,
    Mesh,
    Model,
    PerProcess,
    SingleDevice,
)

Section = tuple[Array, ...]
"""The arrays of one process as it reports them."""

OWN_DEVICE = "own"
"""Stand-in for the device of an array on one device of the reporting process: with it, arrays that each process
has for itself have equal descriptions."""


@dataclass(slots=True)
class EqualArrays:
    """Processes whose arrays have equal descriptions.

    `own_devices` holds, for each process, the devices of the arrays described by `OWN_DEVICE`, in
    the order of the section.
    """

    section: Section
    own_devices: dict[int, tuple[DeviceKey, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayVersion:
    """One description of an array and the processes that have it under its path."""

    array: Array
    processes: tuple[int, ...]

    def as_array(self, reporting: int) -> Array:
        """Return the array for a snapshot; `reporting` is the number of processes whose arrays are known."""
        if len(self.processes) == reporting:
            return self.array
        return structs.replace(self.array, processes=self.processes)


class ArrayIndex:
    """Keeps track of which processes have which array under which path.

    Processes that report the same arrays form a group, so that merging costs groups × arrays and not
    processes × arrays: a pod that runs one program is one group.
    """

    def __init__(self) -> None:
        self._reported: dict[int, Section] = {}
        self._group_of: dict[int, EqualArrays] = {}
        self._groups: dict[Section, EqualArrays] = {}
        self._versions: dict[str, tuple[ArrayVersion, ...]] | None = None

    @property
    def processes(self) -> frozenset[int]:
        """Return the processes whose arrays are known."""
        return frozenset(self._reported)

    def update(self, process_id: int, section: Section) -> bool:
        """Replace a process's arrays; return whether anything changed."""
        known = self._reported.get(process_id)
        if known is not None and (known is section or known == section):
            return False
        self.forget(process_id)
        described, own_devices = _describe(process_id, section)
        group = self._groups.setdefault(described, EqualArrays(described))
        group.own_devices[process_id] = own_devices
        self._group_of[process_id] = group
        self._reported[process_id] = section
        self._versions = None
        return True

    def forget(self, process_id: int) -> None:
        """Drop what is known of a process's arrays."""
        group = self._group_of.pop(process_id, None)
        if group is None:
            return
        del self._reported[process_id], group.own_devices[process_id]
        if not group.own_devices:
            del self._groups[group.section]
        self._versions = None

    def versions(self) -> Mapping[str, tuple[ArrayVersion, ...]]:
        """Return all versions of the array under each path; the lowest process's version comes first.

        Paths are in the order in which the lowest process reports them. The mapping is the same
        object until something changes.
        """
        if self._versions is None:
            self._versions = self._merge()
        return self._versions

    def _merge(self) -> dict[str, tuple[ArrayVersion, ...]]:
        held: dict[str, dict[Array, list[tuple[EqualArrays, int]]]] = {}
        for group in sorted(self._groups.values(), key=lambda group: min(group.own_devices)):
            own = 0
            for array in group.section:
                is_own = _is_own(array)
                by = held.setdefault(array.path, {}).setdefault(array, [])
                by.append((group, own if is_own else -1))
                own += is_own
        owners = _Owners()
        return {
            path: tuple(owners.version(array, by) for array, by in described.items())
            for path, described in held.items()
        }


class _Owners:
    """Lists of the processes and devices of groups; each list is made only once.

    In a large session thousands of arrays are held by the same thousands of processes.
    """

    def __init__(self) -> None:
        self._processes: dict[tuple[int, ...], tuple[int, ...]] = {}
        self._devices: dict[tuple[tuple[int, int], ...], tuple[DeviceKey, ...]] = {}
        self._uniform: dict[int, bool] = {}

    def version(self, array: Array, by: list[tuple[EqualArrays, int]]) -> ArrayVersion:
        processes = self._processes_of([group for group, _ in by])
        if not _is_own(array):
            return ArrayVersion(array=array, processes=processes)
        devices = self._devices_of(by)
        kind = array.sharding.memory_kind
        sharding = (
            SingleDevice(device=devices[0], memory_kind=kind)
            if len(devices) == 1
            else PerProcess(devices=devices, memory_kind=kind)
        )
        return ArrayVersion(array=structs.replace(array, sharding=sharding), processes=processes)

    def _processes_of(self, groups: list[EqualArrays]) -> tuple[int, ...]:
        key = tuple(map(id, groups))
        if key not in self._processes:
            self._processes[key] = tuple(sorted(id for group in groups for id in group.own_devices))
        return self._processes[key]

    def _devices_of(self, by: list[tuple[EqualArrays, int]]) -> tuple[DeviceKey, ...]:
        key = tuple((id(group), 0 if self._is_uniform(group) else place) for group, place in by)
        if key not in self._devices:
            pairs = sorted(
                (process_id, devices[place])
                for group, place in by
                for process_id, devices in group.own_devices.items()
            )
            self._devices[key] = tuple(device for _, device in pairs)
        return self._devices[key]

    def _is_uniform(self, group: EqualArrays) -> bool:
        """Return whether each process keeps all its own arrays on one device, as is usual."""
        if id(group) not in self._uniform:
            self._uniform[id(group)] = all(
                len(set(devices)) == 1 for devices in group.own_devices.values()
            )
        return self._uniform[id(group)]


def spans_processes(array: Array, meshes: Mapping[str, Mesh]) -> bool:
    """Return whether the array lies on devices of more than one process; False for an unknown mesh."""
    sharding = array.sharding
    if sharding.kind == "named":
        mesh = meshes.get(sharding.mesh)
        return mesh is not None and _several_processes(mesh.devices)
    if sharding.kind == "indexed":
        return _several_processes(key for piece in sharding.pieces for key in piece.devices)
    return False


def is_placed(array: Array, meshes: Mapping[str, Mesh]) -> bool:
    """Return whether enough is known to say on which devices the array is."""
    return array.sharding.kind != "named" or array.sharding.mesh in meshes


def _several_processes(keys: Iterable[DeviceKey]) -> bool:
    owners = (key.partition(":")[0] for key in keys)
    first = next(owners, None)
    return any(owner != first for owner in owners)


def _is_own(array: Array) -> bool:
    return isinstance(array.sharding, SingleDevice) and array.sharding.device == OWN_DEVICE


def _describe(process_id: int, section: Section) -> tuple[Section, tuple[DeviceKey, ...]]:
    """Return the section with `OWN_DEVICE` for the process's own devices, and those devices in order."""
    own = f"{process_id}:"
    described, devices = [], []
    for array in section:
        sharding = array.sharding
        if isinstance(sharding, SingleDevice) and sharding.device.startswith(own):
            devices.append(sharding.device)
            array = structs.replace(array, sharding=structs.replace(sharding, device=OWN_DEVICE))
        described.append(array)
    return tuple(described), tuple(devices)


T = TypeVar("T", Distribution, Model)
By = tuple[tuple[T, tuple[int, ...]], ...]
"""Each version with the processes that have exactly this version; the lowest process's comes first."""


@dataclass(frozen=True, slots=True)
class Merged:
    """All results that depend only on distributions and models; the same object until one of these changes."""

    distributions: tuple[Distribution, ...]
    models: tuple[Model, ...]
    distribution_of: Mapping[int, Distribution | None]
    versions_of: Mapping[str, By[Model]]
    """The versions by path; models without their totals, which each process knows for its own devices."""


@dataclass(slots=True)
class _Reported:
    distributions: tuple[Distribution, ...] | None = None
    models: tuple[Model, ...] | None = None
    described: tuple[Model, ...] = field(default=())
    """The models without their totals; equal models of several processes are the same objects."""


class FrameworkIndex:
    """Index of the distributions, models and variable layouts, with the processes that have each."""

    def __init__(self) -> None:
        self._reported: dict[int, _Reported] = {}
        # A model of thousands of variables is hashed once for each report; later it is found by identity.
        self._known: dict[Model, Model] = {}
        self._merged: Merged | None = None

    def update(
        self,
        process_id: int,
        distributions: tuple[Distribution, ...] | None,
        models: tuple[Model, ...] | None,
    ) -> None:
        """Replace what is known of a process; a section that is None stays as it was."""
        if distributions is None and models is None:
            return
        reported = self._reported.setdefault(process_id, _Reported())
        if distributions is not None and reported.distributions != distributions:
            reported.distributions = distributions
            self._merged = None
        if models is not None and reported.models != models:
            reported.models = models
            bare = (structs.replace(model, totals=()) for model in models)
            reported.described = tuple(self._known.setdefault(one, one) for one in bare)
            self._merged = None

    def forget(self, process_id: int) -> None:
        """Drop what is known of a process."""
        if self._reported.pop(process_id, None) is not None:
            self._merged = None

    def merged(self) -> Merged:
        """Return all versions of everything; the same object until something changes."""
        if self._merged is None:
            self._merged = self._merge()
        return self._merged

    def _merge(self) -> Merged:
        reported = sorted(self._reported.items())
        of = {
            process_id: one.distributions[0] if one.distributions else None
            for process_id, one in reported
            if one.distributions is not None
        }
        set_by: dict[Distribution, list[int]] = {}
        for process_id, one in of.items():
            if one is not None:
                set_by.setdefault(one, []).append(process_id)
        reporting = sum(one.models is not None for _, one in reported)
        versions_of = self._versions()
        return Merged(
            distributions=tuple(
                structs.replace(one, processes=_unless_all(tuple(ids), len(of)))
                for one, ids in set_by.items()
            ),
            models=tuple(
                structs.replace(
                    model,
                    processes=_unless_all(ids, reporting),
                    totals=self._totals(model.path, ids),
                )
                for versions in versions_of.values()
                for model, ids in versions
            ),
            distribution_of=of,
            versions_of=versions_of,
        )

    def _versions(self) -> dict[str, By[Model]]:
        held: dict[int, tuple[Model, list[int]]] = {}
        for process_id, reported in sorted(self._reported.items()):
            for model in reported.described:
                held.setdefault(id(model), (model, []))[1].append(process_id)
        self._known = {model: self._known[model] for model, _ in held.values()}
        found: dict[str, list[tuple[Model, tuple[int, ...]]]] = {}
        for model, ids in held.values():
            found.setdefault(model.path, []).append((model, tuple(ids)))
        return {path: tuple(versions) for path, versions in found.items()}

    def _totals(self, path: str, process_ids: tuple[int, ...]) -> tuple[DeviceBytes, ...]:
        """Return a model's totals over all devices; each process reports only those of its own devices."""
        nbytes: dict[DeviceKey, int] = {}
        for process_id in process_ids:
            for model in self._reported[process_id].models or ():
                if model.path == path:
                    for total in model.totals:
                        for key in total.devices:
                            nbytes[key] = max(nbytes.get(key, 0), total.nbytes)
        groups: dict[int, list[DeviceKey]] = {}
        for key, count in nbytes.items():
            groups.setdefault(count, []).append(key)
        return tuple(
            DeviceBytes(devices=tuple(sorted(groups[count], key=_place)), nbytes=count)
            for count in sorted(groups, reverse=True)
        )


def _unless_all(ids: tuple[int, ...], reporting: int) -> tuple[int, ...]:
    return () if len(ids) == reporting else ids


def _place(key: DeviceKey) -> tuple[int, int]:
    process, _, device = key.partition(":")
    return int(process), int(device)
