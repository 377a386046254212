"""Axes of the user's mesh along which devices exchange data, found from XLA's groups of devices.

A program's text names the devices that take part in a collective together by their partition numbers, in several
notations. XLA for TPUs compiles one program for one slice, and each slice runs it: the groups of its collectives
count only the devices of one slice. A transfer to other slices is a `send` with attributes for the runtime
(`_xla_megascale_…`): the ids of the devices of the slices, and the collective that the transfer is part of.

Source for transfers between slices: read in the output of libtpu 0.0.50.1; `tests/rehearsal/test_slices.py`
compiles for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import combinations, product
from math import prod
from typing import Any

from msgspec import structs

from nbdist.contract.program import MeshAxes
from nbdist.errors import ProgramError
from nbdist.notation import ranges_text

Groups = tuple[tuple[int, ...], ...]

_LISTS = re.compile(r"\{((?:\{[\d,\s]*\}[,\s]*)*)\}")
_LIST = re.compile(r"\{([\d,\s]*)\}")
_IOTA = re.compile(r"\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?")
_MESH = re.compile(
    r"mesh\[([^\]]*)\](?:, device_ids=\(((?:\[[\d,]*\](?:T\([\d,]*\))?)|[\d,\s]*)\))? \{([^}]*)\}"
)
_AXIS = re.compile(r"'?([^'=,]+)'?=(\d+)")
_TAKEN = re.compile(r"'?([^',:]+)'?(?::\((\d+)\)(\d+)'?)?")
_ORDER = re.compile(r"\[([\d,]*)\](?:T\(([\d,]*)\))?")


def groups_in(attributes: str, count: int) -> tuple[str, Groups]:
    """Return the groups of a collective.

    Three notations are read: `{{0,4},{1,5}}`; `[2,4]<=[4,2]T(1,0)`; and `mesh['data'=2,'model'=4] {'model'}`,
    which may also have a device order and parts of axes.

    Args:
      attributes: The attributes of the instruction, from `replica_groups=` on.
      count: The number of the program's devices, which form one group if the text lists no groups.

    Returns:
      The notation, and the groups.

    Raises:
      ProgramError: The notation is unknown.
    """
    for pattern, read in ((_LISTS, _listed), (_IOTA, _iota), (_MESH, _in_mesh)):
        match = pattern.match(attributes)
        if match is not None:
            groups = read(match)
            if not groups:
                groups = (tuple(range(count)),)
            return match[0], groups
    raise ProgramError(
        f"The groups of a collective are written in a form that is not known here: {attributes[:80]!r}"
    )


def pairs_in(attributes: str) -> tuple[str, Groups]:
    """Return the notation, and the source and target of each transfer of a permutation, such as `{{0,1},{1,2}}`.

    Raises:
      ProgramError: As `groups_in` does.
    """
    match = _LISTS.match(attributes)
    if match is None or any(len(pair) != 2 for pair in _listed(match)):
        raise ProgramError(
            f"The pairs of a permutation are written in a form that is not known here: {attributes[:80]!r}"
        )
    return match[0], _listed(match)


def _listed(match: re.Match[str]) -> Groups:
    return tuple(_numbers(inner) for inner in _LIST.findall(match[1]))


def _iota(match: re.Match[str]) -> Groups:
    dims, shape = _numbers(match[1]), _numbers(match[2])
    if len(dims) != 2 or prod(dims) != prod(shape):
        raise ProgramError(f"The groups of a collective do not belong together: {match[0]!r}")
    return _cut(_transposed(shape, _numbers(match[3]) if match[3] else range(len(shape))), dims[1])


def _in_mesh(match: re.Match[str]) -> Groups:
    axes = {name: int(size) for name, size in _AXIS.findall(match[1])}
    names, sizes = list(axes), list(axes.values())
    if match[2] is None:
        order: Sequence[int] = range(prod(sizes))
    elif iota := _ORDER.fullmatch(match[2]):
        shape = _numbers(iota[1])
        order = _transposed(shape, _numbers(iota[2]) if iota[2] else range(len(shape)))
    else:
        order = _numbers(match[2])
    # A part of an axis splits it into three axes: (before, part, after).
    split: list[int] = []
    taken: list[int] = []
    wanted: dict[str, list[tuple[int, int]]] = {}
    for name, before, size in _TAKEN.findall(match[3]):
        if name not in axes:
            raise ProgramError(f"The groups of a collective name an unknown axis: {match[0]!r}")
        part = (int(before), int(size)) if before else (1, axes[name])
        wanted.setdefault(name, []).append(part)
    for name, size in zip(names, sizes, strict=True):
        done = 1
        for pre, length in sorted(wanted.get(name, [])):
            if pre < done or pre % done or size % (pre * length):
                raise ProgramError(
                    f"The groups of a collective do not belong together: {match[0]!r}"
                )
            split.append(pre // done)
            taken.append(len(split))
            split.append(length)
            done = pre * length
        split.append(size // done)
    if prod(split) != len(order):
        raise ProgramError(f"The groups of a collective do not belong together: {match[0]!r}")
    rest = [axis for axis in range(len(split)) if axis not in taken]
    places = _transposed(split, [*rest, *taken])
    return _cut([order[place] for place in places], prod(split[axis] for axis in taken))


def _transposed(shape: Sequence[int], axes: Iterable[int]) -> list[int]:
    """Return the elements 0, 1, … of an array of this shape, read with its axes in another order."""
    strides = [prod(shape[axis + 1 :]) for axis in range(len(shape))]
    ordered = list(axes)
    if sorted(ordered) != list(range(len(shape))):
        raise ProgramError(f"The groups of a collective have axes {ordered} of {len(shape)}")
    return [
        sum(place)
        for place in product(
            *(range(0, shape[axis] * strides[axis], strides[axis]) for axis in ordered)
        )
    ]


def _cut(numbers: Sequence[int], size: int) -> Groups:
    return tuple(
        tuple(numbers[begin : begin + size]) for begin in range(0, len(numbers), max(size, 1))
    )


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.split(",") if number.strip())


def mesh_axes(mesh: Any) -> MeshAxes:
    """Return the axes of a `jax.sharding.Mesh`."""
    # Only TPU devices have this attribute.
    slices = tuple(getattr(device, "slice_index", 0) for device in mesh.devices.flat)
    return MeshAxes(
        names=tuple(map(str, mesh.axis_names)),
        shape=tuple(mesh.devices.shape),
        devices=tuple(device.id for device in mesh.devices.flat),
        slices=slices if len(set(slices)) > 1 else (),
    )


SHOWN = 4
"""Largest number of groups that are written out if they are not along axes of the mesh."""


def axes_of(groups: Groups, mesh: MeshAxes) -> tuple[str, ...] | None:
    """Return the axes along which the devices of each group differ, if groups are along axes.

    Args:
      groups: Numbers of partitions. A program's partitions are numbered in the order of its mesh's devices.
      mesh: The user's mesh; axes of size 1 are never among the result.

    Returns:
      Names in the mesh's order; empty if each device is alone. None if the groups are not along axes of the mesh.
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
    """Return the axes in which a source and its target differ; None if the mesh lacks one of their places."""
    if any(not 0 <= place < len(mesh.devices) for pair in pairs for place in pair):
        return None
    moved = set()
    for source, target in pairs:
        a, b = (_coordinates(place, mesh.shape) for place in (source, target))
        moved |= {axis for axis in range(len(a)) if a[axis] != b[axis]}
    return tuple(name for axis, name in enumerate(mesh.names) if axis in moved)


def devices_text(groups: Groups, mesh: MeshAxes | None, *, pairs: bool = False) -> str:
    """Return `{0–2, 5}, {3, 4, 6, 7}`, by the ids of the mesh's devices if it has them; `{0→1}` for pairs."""
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


NAMED = '_xla_megascale_transfer_type="'
"""Part of the text of each instruction that sends data to other slices."""

KINDS = {
    "ALL_REDUCE": "all-reduce",
    "ALL_GATHER": "all-gather",
    "REDUCE_SCATTER": "reduce-scatter",
    "ALL_TO_ALL": "all-to-all",
    "ONE_TO_ONE": "collective-permute",
}
"""XLA's name within a slice of the collective that a transfer stands for, by the runtime's name."""

ID_OF_SLICE = 100_000
"""Factor of a slice in an id: device k of slice s, counted from 1, has the id `s * ID_OF_SLICE + k`."""

_TRANSFER = re.compile(rf'{NAMED}(\w+)"')
_TARGET = re.compile(r'_xla_megascale_target=("[^"]*"|\{\{[^"]*?\}\})')
_PRODUCT = re.compile(r"\{([\d,:]+)\}x\{([\d,:]+)\}")
_LISTED = re.compile(r"\{([\d,\s]+)\}")
_PAIR = re.compile(r"\{(\d+)->(\d+)\}")
_RANGE = re.compile(r"(\d+):(\d+)")


def kind_of(attributes: str, program: str) -> str:
    """Return the XLA collective that a transfer stands for.

    Raises:
      ProgramError: The collective is unknown.
    """
    found = _TRANSFER.search(attributes)
    if found is None or found[1] not in KINDS:
        raise ProgramError(
            f"The program {program} has a transfer between slices that cannot be read here: "
            f"{found[1] if found else attributes[:80]!r}. Known: {', '.join(KINDS)}."
        )
    return KINDS[found[1]]


def ids_of(attributes: str, program: str) -> Groups:
    """Return the ids of the devices that take part together; for a permutation, pairs of source and target.

    Raises:
      ProgramError: The ids are written in an unknown form.
    """
    found = _TARGET.search(attributes)
    text = found[1].strip('"') if found else ""
    if product := _PRODUCT.fullmatch(text):
        slices, devices = (_slice_numbers(part) for part in product.groups())
        return tuple(tuple(n * ID_OF_SLICE + device for n in slices) for device in devices)
    pairs: Groups = tuple((int(a), int(b)) for a, b in _PAIR.findall(text))
    groups = pairs or tuple(_slice_numbers(part) for part in _LISTED.findall(text))
    if not groups:
        raise ProgramError(
            f"The devices of a transfer between slices of the program {program} are written in a form that is "
            f"not known here: {text[:80] or attributes[:80]!r}"
        )
    return groups


class ProgramMesh:
    """One of the user's meshes, over the devices of a program, or over several slices that each run it.

    Args:
      mesh: The mesh; its slices matter only if it has more devices than the program.
      count: The number of the program's devices.
    """

    def __init__(self, mesh: MeshAxes, count: int) -> None:
        self.mesh = mesh
        self.sliced = len(mesh.devices) != count
        """Whether the mesh goes over several slices."""
        self._cut = _cut_at_slices(mesh) if self.sliced and mesh.slices else mesh
        self._places = {number: place for place, number in enumerate(mesh.devices)}
        self._members: dict[int, list[int]] = {}
        for place, number in enumerate(mesh.slices if self.sliced else ()):
            self._members.setdefault(number, []).append(place)
        fitting = [len(members) == count for members in self._members.values()]
        self.fits = not self.sliced or (bool(fitting) and all(fitting))
        """Whether it has the program's devices, in each slice."""

    def in_each(self, groups: Groups) -> Groups:
        """Return groups of the program's partitions, numbered in the mesh's order, as groups of all slices."""
        if not self.sliced:
            return groups
        return tuple(
            tuple(members[number] for number in group)
            for members in self._members.values()
            for group in groups
        )

    def axes_of(self, groups: Groups, *, pairs: bool) -> tuple[str, ...] | None:
        """Return axes as `axes_of` and `axes_of_pairs` do, also for a part of an axis, within or across slices.

        Args:
          groups: Groups of places in the mesh.
          pairs: Whether they are sources and targets.
        """
        found = axes_of_pairs(groups, self._cut) if pairs else axes_of(groups, self._cut)
        return None if found is None else tuple(dict.fromkeys(found))

    def places(self, ids: Groups) -> Groups | None:
        """Return groups of ids as places in a mesh across slices; None if the mesh lacks one of them."""
        try:
            return tuple(tuple(self._places[number] for number in group) for group in ids)
        except KeyError:
            return None


def _cut_at_slices(mesh: MeshAxes) -> MeshAxes:
    """Return the mesh with each axis across slices as two axes of the same name: across and within slices."""
    names: list[str] = []
    shape: list[int] = []
    for number, (name, size) in enumerate(zip(mesh.names, mesh.shape, strict=True)):
        step = prod(mesh.shape[number + 1 :])
        along = mesh.slices[: step * size : step]
        within = next((at for at in range(size) if along[at] != along[0]), size)
        blocks = [set(along[at : at + within]) for at in range(0, size, within)]
        if size % within or any(len(block) > 1 for block in blocks):
            within = size
        for part in (size // within, within):
            if part > 1 or size == 1:
                names.append(name)
                shape.append(part)
    return structs.replace(mesh, names=tuple(names), shape=tuple(shape))


def _slice_numbers(text: str) -> tuple[int, ...]:
    """Return the numbers of `0,2` and `0:7`; a range includes both ends."""
    found: list[int] = []
    for part in filter(None, (word.strip() for word in text.split(","))):
        if ends := _RANGE.fullmatch(part):
            found += range(int(ends[1]), int(ends[2]) + 1)
        else:
            found.append(int(part))
    return tuple(found)
