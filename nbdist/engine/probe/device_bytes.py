"""How many bytes of an array each device holds, computed from the array's description alone."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from nbdist import bounds
from nbdist.contract.snapshot import (
    Array,
    DeviceBytes,
    DeviceKey,
    Indexed,
    Mesh,
    NamedSharding,
    SingleDevice,
)


def piece_bytes(array: Array, meshes: Mapping[str, Mesh]) -> int:
    """Return the bytes that the fullest of an array's devices holds.

    Args:
      array: As reported.
      meshes: By id.
    """
    sharding = array.sharding
    elements = math.prod(array.shape)
    if isinstance(sharding, Indexed):
        largest = max((bounds.elements(one.slices) for one in sharding.pieces), default=elements)
        return largest * array.nbytes // max(elements, 1)
    mesh = meshes.get(sharding.mesh) if isinstance(sharding, NamedSharding) else None
    if mesh is None or not isinstance(sharding, NamedSharding):
        return array.nbytes
    sizes = {axis.name: axis.size for axis in mesh.axes}
    piece = 1
    for size, axes in zip(array.shape, sharding.spec, strict=True):
        piece *= bounds.part_length(size, math.prod(sizes.get(axis, 1) for axis in axes))
    return piece * array.nbytes // max(elements, 1)


def holders(array: Array, meshes: Mapping[str, Mesh]) -> tuple[DeviceKey, ...]:
    """Return the keys of the devices that hold some of an array; none if they are not known."""
    sharding = array.sharding
    if isinstance(sharding, SingleDevice):
        return (sharding.device,)
    if isinstance(sharding, Indexed):
        return tuple(device for piece in sharding.pieces for device in piece.devices)
    if not isinstance(sharding, NamedSharding):
        return sharding.devices
    mesh = meshes.get(sharding.mesh)
    return mesh.devices if mesh is not None else ()


def is_whole_everywhere(array: Array, meshes: Mapping[str, Mesh]) -> bool:
    """Return whether each of two or more devices of a mesh holds all of an array."""
    sharding = array.sharding
    if not isinstance(sharding, NamedSharding) or any(sharding.spec) or sharding.unreduced:
        return False
    return len(holders(array, meshes)) > 1


def totals(arrays: Iterable[Array], meshes: Mapping[str, Mesh]) -> tuple[DeviceBytes, ...]:
    """Return how many bytes of these arrays each device holds, the fullest first."""
    # Summed by set of devices rather than device by device: a mesh may have thousands.
    by_place: dict[tuple[DeviceKey, ...], int] = {}
    for array in arrays:
        place = holders(array, meshes)
        by_place[place] = by_place.get(place, 0) + piece_bytes(array, meshes)
    held: dict[DeviceKey, int] = {}
    for place, nbytes in by_place.items():
        for device in place:
            held[device] = held.get(device, 0) + nbytes
    groups: dict[int, list[DeviceKey]] = {}
    for device, nbytes in held.items():
        groups.setdefault(nbytes, []).append(device)
    return tuple(
        DeviceBytes(devices=tuple(devices), nbytes=nbytes)
        for nbytes, devices in sorted(groups.items(), reverse=True)
    )
