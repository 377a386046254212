"""Transfers of a program between several slices, and the mesh over all slices.

XLA for TPUs compiles one program for one slice, and each slice runs it: the groups of its collectives count only
the devices of one slice. A transfer to other slices is a `send` with attributes for the runtime
(`_xla_megascale_…`): which devices of which slices, by their ids, and which collective the transfer stands for.

Source: read in the output of libtpu 0.0.50.1; `tests/rehearsal/test_slices.py` compiles for it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from math import prod

from nbdist.contract.program import MeshAxes
from nbdist.errors import ProgramError
from nbdist.program.axes import axes_of, axes_of_pairs
from nbdist.program.groups import Groups

NAMED = '_xla_megascale_transfer_type="'
"""Part of the text of each such instruction."""

KINDS = {
    "ALL_REDUCE": "all-reduce",
    "ALL_GATHER": "all-gather",
    "REDUCE_SCATTER": "reduce-scatter",
    "ALL_TO_ALL": "all-to-all",
    "ONE_TO_ONE": "collective-permute",
}
"""The collective that a transfer stands for, by XLA's name within a slice."""

ID_OF_SLICE = 100_000
"""Device k of slice s, counted from 1, has the id `s * ID_OF_SLICE + k`."""

_TRANSFER = re.compile(rf'{NAMED}(\w+)"')
_TARGET = re.compile(r'_xla_megascale_target=("[^"]*"|\{\{[^"]*?\}\})')
_PRODUCT = re.compile(r"\{([\d,:]+)\}x\{([\d,:]+)\}")
_LISTED = re.compile(r"\{([\d,\s]+)\}")
_PAIR = re.compile(r"\{(\d+)->(\d+)\}")
_RANGE = re.compile(r"(\d+):(\d+)")


def kind_of(attributes: str, program: str) -> str:
    """Return the XLA collective that a transfer stands for.

    Raises:
      ProgramError: It is not known here.
    """
    found = _TRANSFER.search(attributes)
    if found is None or found[1] not in KINDS:
        raise ProgramError(
            f"The program {program} has a transfer between slices that cannot be read here: "
            f"{found[1] if found else attributes[:80]!r}. Known: {', '.join(KINDS)}."
        )
    return KINDS[found[1]]


def ids_of(attributes: str, program: str) -> Groups:
    """Return the ids of the devices that take part together; for a permutation source and target.

    Raises:
      ProgramError: The ids are written in a form that is not known here.
    """
    found = _TARGET.search(attributes)
    text = found[1].strip('"') if found else ""
    if product := _PRODUCT.fullmatch(text):
        slices, devices = (_numbers(part) for part in product.groups())
        return tuple(tuple(n * ID_OF_SLICE + device for n in slices) for device in devices)
    pairs: Groups = tuple((int(a), int(b)) for a, b in _PAIR.findall(text))
    groups = pairs or tuple(_numbers(part) for part in _LISTED.findall(text))
    if not groups:
        raise ProgramError(
            f"The devices of a transfer between slices of the program {program} are written in a form that is "
            f"not known here: {text[:80] or attributes[:80]!r}"
        )
    return groups


class SlicedMesh:
    """A mesh over several slices; a program runs on one of them.

    Args:
      mesh: With the slice of each device.
    """

    def __init__(self, mesh: MeshAxes) -> None:
        self.mesh = mesh
        self._cut = _cut_at_slices(mesh)
        self._places = {number: place for place, number in enumerate(mesh.devices)}
        self._members: dict[int, list[int]] = {}
        for place, number in enumerate(mesh.slices):
            self._members.setdefault(number, []).append(place)

    def has_each(self, count: int) -> bool:
        """Return whether each slice has `count` devices of the mesh."""
        return all(len(members) == count for members in self._members.values())

    def in_each(self, groups: Groups) -> Groups:
        """Return groups of one slice's partitions, numbered in the mesh's order, as groups of all slices."""
        return tuple(
            tuple(members[number] for number in group)
            for members in self._members.values()
            for group in groups
        )

    def axes_of(self, groups: Groups, *, pairs: bool) -> tuple[str, ...] | None:
        """Return axes as `axes_of` and `axes_of_pairs` do, also for part of an axis: within or over slices.

        Args:
          groups: Groups of places in the mesh.
          pairs: Whether they are sources and targets.
        """
        found = axes_of_pairs(groups, self._cut) if pairs else axes_of(groups, self._cut)
        return None if found is None else tuple(dict.fromkeys(found))

    def places(self, ids: Groups) -> Groups | None:
        """Return groups of ids as places in the mesh; None where the mesh does not have all of them."""
        try:
            return tuple(tuple(self._places[number] for number in group) for group in ids)
        except KeyError:
            return None


def sliced_meshes(meshes: Sequence[MeshAxes], count: int) -> list[SlicedMesh]:
    """Return the meshes over several slices that have `count` devices in each slice."""
    found = [SlicedMesh(mesh) for mesh in meshes if mesh.slices]
    return [one for one in found if one.has_each(count)]


def _cut_at_slices(mesh: MeshAxes) -> MeshAxes:
    """Return the mesh with each axis over slices as two axes of its name: over slices, and within one."""
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
    return replace(mesh, names=tuple(names), shape=tuple(shape))


def _numbers(text: str) -> tuple[int, ...]:
    """Return the numbers of `0,2` and `0:7`; a range includes both ends."""
    found: list[int] = []
    for part in filter(None, (word.strip() for word in text.split(","))):
        if ends := _RANGE.fullmatch(part):
            found += range(int(ends[1]), int(ends[2]) + 1)
        else:
            found.append(int(part))
    return tuple(found)
