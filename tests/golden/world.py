"""A made-up pod: real JAX devices of one process, dealt out to processes and hosts.

JAX itself says which slices each device holds (`Sharding.devices_indices_map`), so what is
expected here never comes from nbdist's own arithmetic.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import jax
import numpy as np
from jax.sharding import PartitionSpec, SingleDeviceSharding
from msgspec import structs

from nbdist.contract.snapshot import (
    Array,
    Axis,
    Device,
    Indexed,
    Memory,
    Mesh,
    NamedSharding,
    PerProcess,
    Piece,
    Process,
    Sharding,
    SingleDevice,
    Slices,
    Snapshot,
)
from nbdist.engine.frameworks.jax.describe import partitions

TIME = 1_760_000_000.0
"""The Unix time of every golden snapshot, in seconds."""

MB = 1 << 20


@dataclass(frozen=True)
class Held:
    """One golden array and what its devices hold, as the files keep it."""

    array: Array
    expected: dict


@dataclass(frozen=True, kw_only=True)
class World:
    """`processes` × `devices_per_process` devices, `processes_per_host` processes a host."""

    processes: int
    devices_per_process: int
    processes_per_host: int = 2
    platform: str = "cpu"

    def devices(self) -> list:
        """The JAX devices that play this world's devices, in order of process."""
        return jax.devices()[: self.processes * self.devices_per_process]

    def process_of(self, device) -> int:
        return device.id // self.devices_per_process

    def key(self, device) -> str:
        """CPU ids start at 2048 × process, as in a real session; others are dense."""
        process = self.process_of(device)
        local = device.id % self.devices_per_process
        return f"{process}:{2048 * process + local if self.platform == 'cpu' else device.id}"

    def host(self, process: int) -> str:
        return f"h{process // self.processes_per_host + 1}"

    def grid(self, sizes: Sequence[int], names: Sequence[str], *, first: int = 0, types="Auto"):
        """A JAX mesh over this world's devices from number `first` on, row-major."""
        count = math.prod(sizes)
        chosen = np.array(self.devices()[first : first + count]).reshape(sizes)
        kinds = (getattr(jax.sharding.AxisType, types),) * len(names)
        return jax.sharding.Mesh(chosen, tuple(names), axis_types=kinds)

    def mesh(self, grid) -> Mesh:
        axes = tuple(
            Axis(name=name, size=size, type=str(kind).rpartition(".")[2].lower())
            for (name, size), kind in zip(grid.shape.items(), grid.axis_types, strict=True)
        )
        keys = tuple(self.key(device) for device in grid.devices.flat)
        digest = hashlib.sha256(repr((axes, keys)).encode()).hexdigest()[:12]
        return Mesh(id=digest, axes=axes, devices=keys)

    def named(self, path: str, shape: Sequence[int], grid, spec: PartitionSpec, **options) -> Held:
        """An array laid out by mesh and spec; `dtype`, `memory_kind` and `processes` as options."""
        sharding = jax.sharding.NamedSharding(
            grid, spec, memory_kind=options.pop("memory_kind", None)
        )
        unreduced = tuple(name for name in grid.axis_names if name in spec.unreduced)
        parts = partitions(spec)
        entries = [*parts, *[None] * (len(shape) - len(parts))]
        described = NamedSharding(
            mesh=self.mesh(grid).id,
            spec=tuple(
                () if entry is None else (entry,) if isinstance(entry, str) else tuple(entry)
                for entry in entries
            ),
            unreduced=unreduced,
            memory_kind=sharding.memory_kind,
        )
        # `devices_indices_map` refuses unreduced axes; they do not change the slices.
        plain = jax.sharding.NamedSharding(grid, PartitionSpec(*parts))
        slices = self._padded_slices(plain, tuple(shape))
        addends = self._addends(grid, unreduced) if unreduced else dict.fromkeys(slices)
        return self._held(path, shape, described, slices, addends, **options)

    def single(self, path: str, shape: Sequence[int], device, **options) -> Held:
        """A whole array on one device."""
        sharding = SingleDeviceSharding(device)
        described = SingleDevice(device=self.key(device), memory_kind=sharding.memory_kind)
        slices = self.slices(sharding, tuple(shape))
        processes = options.pop("processes", (self.process_of(device),))
        return self._held(
            path, shape, described, slices, dict.fromkeys(slices), processes=processes, **options
        )

    def per_process(self, path: str, shape: Sequence[int], **options) -> Held:
        """An array of its own on the first device of each process."""
        firsts = self.devices()[:: self.devices_per_process]
        described = PerProcess(
            devices=tuple(self.key(device) for device in firsts), memory_kind="device"
        )
        slices: dict[str, Slices] = {}
        for device in firsts:
            slices |= self.slices(SingleDeviceSharding(device), tuple(shape))
        held = self._held(path, shape, described, slices, dict.fromkeys(slices), **options)
        own = [{"slices": part, "addend": None, "devices": [key]} for key, part in slices.items()]
        return replace(held, expected={**held.expected, "pieces": own})

    def indexed(self, path: str, shape: Sequence[int], sharding, **options) -> Held:
        """An array with any JAX sharding, described by its index map."""
        slices = self.slices(sharding, tuple(shape))
        grouped = _grouped(slices, dict.fromkeys(slices))
        described = Indexed(
            pieces=tuple(
                Piece(slices=part["slices"], devices=tuple(part["devices"])) for part in grouped
            ),
            memory_kind=sharding.memory_kind,
        )
        return self._held(path, shape, described, slices, dict.fromkeys(slices), **options)

    def slices(self, sharding, shape: tuple[int, ...]) -> dict[str, Slices]:
        """JAX's own answer, with `None` ends written out."""
        return {
            self.key(device): tuple(
                part.indices(size)[:2] for part, size in zip(index, shape, strict=True)
            )
            for device, index in sharding.devices_indices_map(shape).items()
        }

    def _padded_slices(self, sharding, shape: tuple[int, ...]) -> dict[str, Slices]:
        """Slices of an array whose dimensions the axes need not divide.

        JAX refuses these. XLA fills the array up to the next size that they divide; of that JAX gives the
        slices, and what is filled in is cut off again here.
        """
        entries = [*partitions(sharding.spec), *[None] * len(shape)][: len(shape)]
        names = [() if one is None else (one,) if isinstance(one, str) else one for one in entries]
        factors = [math.prod(sharding.mesh.shape[axis] for axis in axes) for axes in names]
        filled = tuple(
            -(-size // factor) * factor for size, factor in zip(shape, factors, strict=True)
        )
        return {
            key: tuple(
                (min(start, size), min(stop, size))
                for (start, stop), size in zip(slices, shape, strict=True)
            )
            for key, slices in self.slices(sharding, filled).items()
        }

    def _addends(self, grid, unreduced: tuple[str, ...]) -> dict[str, int]:
        """Which partial sum each device holds: its place along the unreduced axes, row-major."""
        sizes = [grid.shape[name] for name in unreduced]
        along = [grid.axis_names.index(name) for name in unreduced]
        return {
            self.key(grid.devices[place]): int(
                np.ravel_multi_index([place[axis] for axis in along], sizes)
            )
            for place in np.ndindex(grid.devices.shape)
        }

    def _held(self, path, shape, sharding: Sharding, slices, addends, **options) -> Held:
        dtype = options.pop("dtype", "float32")
        processes = options.pop("processes", ())
        assert not options, options
        # A key of the default generator holds two uint32.
        itemsize = 8 if dtype.startswith("key<") else jax.numpy.dtype(dtype).itemsize
        array = Array(
            path=path,
            shape=tuple(shape),
            dtype=dtype,
            nbytes=math.prod(shape) * itemsize,
            sharding=sharding,
            processes=processes,
        )
        expected = {
            "path": path,
            "partial": any(addend is not None for addend in addends.values()),
            "slices": slices,
            "pieces": _grouped(slices, addends),
        }
        return Held(array, expected)

    def snapshot_devices(self, held: Sequence[Held]) -> tuple[Device, ...]:
        """Every device, with the bytes of the golden arrays that lie on it."""
        live = {self.key(device): 0 for device in self.devices()}
        for one in held:
            itemsize = one.array.nbytes // max(math.prod(one.array.shape), 1)
            for key, slices in one.expected["slices"].items():
                live[key] += math.prod(stop - start for start, stop in slices) * itemsize
        return tuple(self._device(device, live[self.key(device)]) for device in self.devices())

    def _device(self, device, live_bytes: int) -> Device:
        chip = self.platform == "tpu"
        memory = Memory(
            bytes_in_use=live_bytes + 64 * MB,
            peak_bytes_in_use=live_bytes + 512 * MB,
            bytes_limit=16 * 1024 * MB,
        )
        return Device(
            key=self.key(device),
            process_id=self.process_of(device),
            id=int(self.key(device).partition(":")[2]),
            platform=self.platform,
            kind="TPU v5 lite" if chip else "cpu",
            coords=(device.id % 4, device.id // 4, 0) if chip else None,
            memory=memory if chip else None,
            live_bytes=live_bytes,
        )

    def process(self, process: int, **changes) -> Process:
        """An idle process that reported a tenth of a second ago, with `changes`."""
        idle = Process(
            process_id=process,
            host=self.host(process),
            pid=4000 + process,
            role="worker",
            state="idle",
            cell=None,
            line=None,
            source=None,
            cell_seconds=None,
            line_seconds=None,
            waiting=False,
            rss_bytes=(400 + process) * MB,
            context_mesh=None,
            error=None,
            silent_seconds=0.1,
        )
        return structs.replace(idle, **changes)

    def case(self, grids: Sequence, held: Sequence[Held], **changes) -> dict:
        """A golden file's content: an idle session with these meshes and arrays."""
        snapshot = Snapshot(
            session="golden",
            sequence=1,
            time=TIME,
            state="idle",
            processes=tuple(self.process(process) for process in range(self.processes)),
            devices=self.snapshot_devices(held),
            meshes=tuple(self.mesh(grid) for grid in grids),
            arrays=tuple(one.array for one in held),
        )
        return {
            "snapshot": structs.replace(snapshot, **changes),
            "expected": [one.expected for one in held],
        }


def _grouped(slices: dict[str, Slices], addends: dict) -> list[dict]:
    """Devices that hold the same piece, pieces in order of their slices, then their addend."""
    groups: dict[tuple, list[str]] = {}
    for key, part in slices.items():
        groups.setdefault((part, addends[key]), []).append(key)
    ordered = sorted(groups.items(), key=lambda group: (group[0][0], group[0][1] or 0))
    return [
        {"slices": part, "addend": addend, "devices": devices}
        for (part, addend), devices in ordered
    ]
