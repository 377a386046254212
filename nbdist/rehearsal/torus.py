"""Places on a pod's network: the layout of a mesh and the links of devices, as picture and text.

A mesh is laid out as the framework itself would do it: the framework is asked with stand-ins for the devices. No
framework is imported for this.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nbdist.contract.snapshot import Axis, Device, Memory, Torus
from nbdist.engine.frameworks import imported
from nbdist.notation import columns
from nbdist.rehearsal.mesh import Axes, slices_of
from nbdist.rehearsal.topology import Topology

NAMES = "xyz"
"""The names of a torus's dimensions."""

HOST = 2
"""Side of the square of chips, 2 × 2, that a host has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AxisPlace:
    """Place of one axis of a mesh.

    Attributes:
      name: The axis's name.
      size: Its size, in all slices.
      slices: The number of slices it spans; 1 if it stays within each slice.
      lengths: For each dimension (`x` and so on; `core` for the cores of a chip), how many places the axis spans.
      rings: The dimensions of `lengths` that the axis covers completely and that have a link from the last chip to
        the first; None if it is not known which have such a link.
    """

    name: str
    size: int
    slices: int
    lengths: Mapping[str, int]
    rings: tuple[str, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshPlace:
    """Place of a mesh on a pod.

    Attributes:
      axes: One entry for each axis.
      order: The devices row-major, each as the number of its slice and its place in `stand_ins`.
      split: Whether an axis uses only a part of a dimension, which JAX does only on request.
    """

    axes: tuple[AxisPlace, ...]
    order: tuple[tuple[int, int], ...]
    split: bool


class StandIn:
    """A stand-in for a device, with the attributes JAX reads to lay a mesh over it.

    See `nbdist.engine.frameworks.jax.inspection`.
    """

    # No dataclass: a pod has thousands.
    __slots__ = ("coords", "core_on_chip", "device_kind", "id", "process_index")
    slice_index = 0
    platform = "tpu"

    def __init__(
        self, number: int, process: int, coords: tuple[int, int, int], core: int, kind: str
    ) -> None:
        self.id, self.process_index = number, process
        self.coords, self.core_on_chip, self.device_kind = coords, core, kind


def place_mesh(topology: Topology, axes: Axes) -> MeshPlace | None:
    """Return the place of each axis of a mesh; None if JAX is not imported or the chip is not known.

    Args:
      topology: The pod; it must have as many devices as the mesh.
      axes: The mesh's axes.
    """
    if topology.chip is None:
        return None
    slices = slices_of(axes, topology.slices)
    if slices is None:
        return None
    sizes = [size // slices[name] for name, size in axes.items()]
    devices = stand_ins(topology)
    ways = (one.mesh_over for one in imported())
    answers = (lay(sizes, devices) for lay in ways if lay is not None)
    found = next((answer for answer in answers if answer is not None), None)
    if found is None:
        return None
    grid, split = found
    places = []
    for number, (name, size) in enumerate(axes.items()):
        lengths = _lengths(grid, number)
        places.append(
            AxisPlace(
                name=name,
                size=size,
                slices=slices[name],
                lengths=lengths,
                rings=_rings(topology, lengths),
            )
        )
    return MeshPlace(axes=tuple(places), order=_order(grid, devices, axes, slices), split=split)


def _order(
    grid: Any, devices: list[StandIn], axes: Axes, slices: Mapping[str, int]
) -> tuple[tuple[int, int], ...]:
    """Return the devices of the whole mesh: along the axis that spans the slices, one slice after the other."""
    numbers = {id(device): number for number, device in enumerate(devices)}
    found = []
    for place in itertools.product(*map(range, axes.values())):
        inner, number = [], 0
        for at, (name, size) in zip(place, axes.items(), strict=True):
            each = size // slices[name]
            inner.append(at % each)
            number += at // each
        found.append((number, numbers[id(grid[tuple(inner)])]))
    return tuple(found)


def stand_ins(topology: Topology) -> list[StandIn]:
    """Return the devices of one slice in JAX's order: by host; x changes fastest, among hosts and within each.

    Their ids and process indices are those of libtpu: ids count all chips, x fastest, and each host has a process.
    """
    assert topology.chip is not None
    x, y, z = (*topology.shape, 1)[:3]
    hosts = itertools.product(range(z), range(0, y, HOST), range(0, x, HOST))
    places = [
        (i, j, k)
        for k, first_y, first_x in hosts
        for j in range(first_y, min(first_y + HOST, y))
        for i in range(first_x, min(first_x + HOST, x))
    ]
    cores = topology.devices_per_chip
    return [
        StandIn(
            ((place[2] * y + place[1]) * x + place[0]) * cores + core,
            number // HOST**2,
            place,
            core,
            topology.chip.kind,
        )
        for number, place in enumerate(places)
        for core in range(cores)
    ]


def _lengths(grid: Any, axis: int) -> dict[str, int]:
    """Return how many places of each dimension lie on the line along an axis that begins at the first device."""
    line = [
        grid[tuple(n if number == axis else 0 for number in range(grid.ndim))]
        for n in range(grid.shape[axis])
    ]
    found = {
        name: len({device.coords[number] for device in line}) for number, name in enumerate(NAMES)
    }
    found["core"] = len({device.core_on_chip for device in line})
    lengths = {name: count for name, count in found.items() if count > 1}
    # JAX lays small meshes along a ring through the chips, which follows no single dimension.
    return lengths if math.prod(lengths.values()) == len(line) else {}


def _rings(topology: Topology, lengths: Mapping[str, int]) -> tuple[str, ...] | None:
    wraps = topology.wraps
    if wraps is None:
        return None
    return tuple(
        name
        for number, name in enumerate(NAMES[: len(topology.shape)])
        if lengths.get(name) == topology.shape[number] and wraps[number]
    )


def devices_of(topology: Topology, memory: Memory | None = None) -> list[Device]:
    """Return the devices of all slices, with the ids and the processes that JAX would give them.

    Args:
      topology: The pod, with its chip. With several slices, ids continue from one slice to the next.
      memory: The memory of each device.
    """
    one = stand_ins(topology)
    processes = one[-1].process_index + 1
    return [
        Device(
            key=f"{number * processes + device.process_index}:{number * len(one) + device.id}",
            process_id=number * processes + device.process_index,
            id=number * len(one) + device.id,
            platform=device.platform,
            kind=device.device_kind,
            coords=device.coords,
            memory=memory,
            live_bytes=None,
        )
        for number in range(topology.slices)
        for device in one
    ]


def torus_of(topology: Topology, devices: Sequence[Device]) -> Torus | None:
    """Return the devices in the order of their places in the network, `x` changing fastest.

    Args:
      topology: The pod.
      devices: All its devices, slice by slice, with their coordinates; in each place as many as a chip has.

    Returns:
      None if a device has no coordinates, or the coordinates do not fit the topology.
    """
    sizes = {
        "slice": topology.slices,
        **dict(zip("zyx", (1, 1, *reversed(topology.shape))[-3:], strict=True)),
        "core": topology.devices_per_chip,
    }
    each = len(devices) // topology.slices
    placed = []
    for number, device in enumerate(devices):
        if device.coords is None:
            return None
        placed.append(((number // each, *reversed(device.coords)), number, device.key))
    placed.sort()
    slices, *chips, cores = map(range, sizes.values())
    if [place for place, *_ in placed] != [
        place for place in itertools.product(slices, *chips) for _ in cores
    ]:
        return None
    kept = {name: size for name, size in sizes.items() if size > 1 or name in ("y", "x")}
    wraps = topology.wraps
    return Torus(
        axes=tuple(Axis(name=name, size=size, type="auto") for name, size in kept.items()),
        devices=tuple(key for *_, key in placed),
        wraps=None
        if wraps is None
        else tuple(name for name, around in zip(NAMES, wraps, strict=False) if around),
    )


def place_lines(place: MeshPlace) -> list[str]:
    """Return a line for each axis, and a remark if JAX needs an option to lay out the mesh this way."""
    table = columns([[f"  {axis.name}={axis.size}", _place_text(axis)] for axis in place.axes])
    if place.split:
        table.append(
            "  An axis takes a part of a dimension: jax.make_mesh refuses that; "
            "mesh_utils.create_device_mesh takes allow_split_physical_axes=True."
        )
    return table


def _place_text(axis: AxisPlace) -> str:
    parts = [f"{axis.slices} slices, through the data center's network"] if axis.slices > 1 else []
    along = [_dimension_text(name, length, axis) for name, length in axis.lengths.items()]
    if along:
        parts.append(f"along {' × '.join(along)}")
    elif axis.size // axis.slices > 1:
        parts.append("along a ring of chips that JAX chooses")
    return "; ".join(parts) if parts else "one device"


def _dimension_text(name: str, length: int, axis: AxisPlace) -> str:
    if name == "core":
        return f"the {length} cores of a chip"
    ring = axis.rings is not None and name in axis.rings
    return f"{name} ({length}, a ring)" if ring else f"{name} ({length})"
