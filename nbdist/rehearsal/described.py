"""The devices of a pod that is not there, and how they are connected, for a picture."""

from __future__ import annotations

from collections.abc import Sequence

from nbdist.contract.snapshot import Axis, Device, Memory, Torus
from nbdist.rehearsal.topology import Topology
from nbdist.rehearsal.torus import NAMES, stand_ins


def devices_of(topology: Topology, memory: Memory | None = None) -> list[Device]:
    """The devices of all slices, with the ids and the processes that JAX would give them.

    Args:
      topology: With its chip. Of several slices each counts on from the one before.
      memory: Of each device.
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
    """The devices in the order of their places in the network, `x` changing fastest.

    Args:
      topology: What they are of.
      devices: All of them, slice by slice, with their coordinates; in each place as many as a chip has.

    Returns:
      None where a device has no coordinates, or these are not those of the topology.
    """
    shape = (*topology.shape, 1)[: len(NAMES)]
    each = len(devices) // topology.slices
    placed = []
    for number, device in enumerate(devices):
        if device.coords is None:
            return None
        placed.append(((number // each, *reversed(device.coords), number), device.key))
    places = [place[:-1] for place, _ in sorted(placed)]
    if places != _all_places(topology, shape):
        return None
    sizes = {
        "slice": topology.slices,
        **dict(reversed(list(zip(NAMES, shape, strict=True)))),
        "core": topology.devices_per_chip,
    }
    kept = {name: size for name, size in sizes.items() if size > 1 or name in ("y", "x")}
    wraps = topology.wraps
    return Torus(
        axes=tuple(Axis(name=name, size=size, type="auto") for name, size in kept.items()),
        devices=tuple(key for _, key in sorted(placed)),
        wraps=None
        if wraps is None
        else tuple(name for name, around in zip(NAMES, wraps, strict=False) if around),
    )


def _all_places(topology: Topology, shape: Sequence[int]) -> list[tuple[int, ...]]:
    x, y, z = shape
    return [
        (number, k, j, i)
        for number in range(topology.slices)
        for k in range(z)
        for j in range(y)
        for i in range(x)
        for _ in range(topology.devices_per_chip)
    ]
