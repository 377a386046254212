"""From groups of devices to the axes of the user's mesh, whatever names XLA gives them."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations
from math import prod

from nbdist.contract.program import MeshAxes
from nbdist.program.groups import Groups
from nbdist.quantities import ranges_text

SHOWN = 4
"""So many groups are written out where they are no axes of the mesh."""


def axes_of(groups: Groups, mesh: MeshAxes) -> tuple[str, ...] | None:
    """The axes along which devices of a group differ, all others being equal.

    Args:
      groups: Numbers of partitions. A program's partitions are numbered in the order of its mesh's devices.
      mesh: The user's; axes of size 1 never appear.

    Returns:
      In the mesh's order; empty where each device is alone. None where the groups are no axes of the mesh.
    """
    count = len(mesh.devices)
    wanted = {frozenset(group) for group in groups}
    sizes = {len(group) for group in wanted}
    if (
        len(sizes) != 1
        or sum(map(len, wanted)) != count
        or set().union(*wanted) != set(range(count))
    ):
        return None
    size = sizes.pop()
    real = [axis for axis, length in enumerate(mesh.shape) if length > 1]
    for number in range(len(real) + 1):
        for chosen in combinations(real, number):
            if prod(mesh.shape[axis] for axis in chosen) != size:
                continue
            if _along(mesh.shape, chosen) == wanted:
                return tuple(mesh.names[axis] for axis in chosen)
    return None


def axes_of_pairs(pairs: Groups, mesh: MeshAxes) -> tuple[str, ...] | None:
    """The axes in which a source and its target differ anywhere; None where the mesh does not have all of them."""
    if any(not 0 <= place < len(mesh.devices) for pair in pairs for place in pair):
        return None
    moved = set()
    for source, target in pairs:
        a, b = (_coordinates(place, mesh.shape) for place in (source, target))
        moved |= {axis for axis in range(len(a)) if a[axis] != b[axis]}
    return tuple(name for axis, name in enumerate(mesh.names) if axis in moved)


def devices_text(groups: Groups, mesh: MeshAxes | None, *, pairs: bool = False) -> str:
    """`{0–2, 5}, {3, 4, 6, 7}`, by the ids of the mesh's devices where it has them; `{0→1}` of pairs."""
    ids = mesh.devices if mesh is not None else ()

    def named(places: Iterable[int]) -> list[int]:
        return [ids[place] if place < len(ids) else place for place in places]

    shown = [
        f"{{{'→'.join(map(str, named(group)))}}}"
        if pairs
        else f"{{{ranges_text(sorted(named(group)))}}}"
        for group in groups[:SHOWN]
    ]
    more = [f"and {len(groups) - SHOWN} more"] if len(groups) > SHOWN else []
    return ", ".join([*shown, *more])


def _along(shape: tuple[int, ...], chosen: tuple[int, ...]) -> set[frozenset[int]]:
    found: dict[tuple[int, ...], list[int]] = {}
    for place in range(prod(shape)):
        at = _coordinates(place, shape)
        key = tuple(value for axis, value in enumerate(at) if axis not in chosen)
        found.setdefault(key, []).append(place)
    return {frozenset(group) for group in found.values()}


def _coordinates(place: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    found = []
    for size in reversed(shape):
        place, rest = divmod(place, size)
        found.append(rest)
    return tuple(reversed(found))
