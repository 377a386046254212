"""Which devices hold how much of an array, from its description alone."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from nbdist import bounds


def piece_bytes(array: dict[str, Any], meshes: Mapping[str, dict[str, Any]]) -> int:
    """The bytes that the fullest of an array's devices holds.

    Args:
      array: In the form of `nbdist.contract.snapshot.Array`.
      meshes: In the form of `nbdist.contract.snapshot.Mesh`, by id.
    """
    sharding, nbytes = array["sharding"], int(array["nbytes"])
    shape: list[int] = array["shape"]
    elements = math.prod(shape)
    if sharding["kind"] == "indexed":
        largest = max(
            (bounds.elements(one["slices"]) for one in sharding["pieces"]), default=elements
        )
        return largest * nbytes // max(elements, 1)
    if sharding["kind"] != "named" or sharding["mesh"] not in meshes:
        return nbytes
    sizes = {axis["name"]: axis["size"] for axis in meshes[sharding["mesh"]]["axes"]}
    piece = 1
    for size, axes in zip(shape, sharding["spec"], strict=True):
        piece *= bounds.part_length(size, math.prod(sizes.get(axis, 1) for axis in axes))
    return int(piece) * nbytes // max(elements, 1)


def holders(array: dict[str, Any], meshes: Mapping[str, dict[str, Any]]) -> list[str]:
    """The keys of the devices that hold some of an array; none where they are not known."""
    sharding = array["sharding"]
    if sharding["kind"] == "single":
        return [sharding["device"]]
    if sharding["kind"] == "indexed":
        return [device for piece in sharding["pieces"] for device in piece["devices"]]
    mesh = meshes.get(sharding["mesh"])
    return list(mesh["devices"]) if mesh is not None else []


def is_whole_everywhere(array: dict[str, Any], meshes: Mapping[str, dict[str, Any]]) -> bool:
    """Whether each of two or more devices of a mesh holds all of an array."""
    sharding = array["sharding"]
    if sharding["kind"] != "named" or any(sharding["spec"]) or sharding["unreduced"]:
        return False
    return len(holders(array, meshes)) > 1


def totals(
    arrays: list[dict[str, Any]], meshes: Mapping[str, dict[str, Any]]
) -> list[dict[str, Any]]:
    """What each device holds of some arrays, as `nbdist.contract.snapshot.DeviceBytes`: the fullest first."""
    # By kind of place rather than device by device: a mesh may have thousands.
    by_place: dict[tuple[str, ...], int] = {}
    for array in arrays:
        place = tuple(holders(array, meshes))
        by_place[place] = by_place.get(place, 0) + piece_bytes(array, meshes)
    held: dict[str, int] = {}
    for place, nbytes in by_place.items():
        for device in place:
            held[device] = held.get(device, 0) + nbytes
    groups: dict[int, list[str]] = {}
    for device, nbytes in held.items():
        groups.setdefault(nbytes, []).append(device)
    return [
        {"devices": devices, "nbytes": nbytes}
        for nbytes, devices in sorted(groups.items(), reverse=True)
    ]
