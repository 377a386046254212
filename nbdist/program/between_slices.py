"""What a program of several slices sends between them, and the mesh over all of them.

XLA for TPUs compiles one program of one slice, which each slice runs: the groups of its collectives are those of
one slice. What goes to other slices is a `send` with attributes for the runtime (`_xla_megascale_…`): which
devices of which slices, by their ids, and what the transfer stands for.

Source: read in what libtpu 0.0.50.1 makes; `tests/rehearsal/test_slices.py` compiles for it.
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
"""What the instructions have."""

KINDS = {
    "ALL_REDUCE": "all-reduce",
    "ALL_GATHER": "all-gather",
    "REDUCE_SCATTER": "reduce-scatter",
    "ALL_TO_ALL": "all-to-all",
    "ONE_TO_ONE": "collective-permute",
}
"""What a transfer stands for, as XLA calls it within a slice."""

ID_OF_SLICE = 100_000
"""Device k of slice s, counted from 1, has the id `s * ID_OF_SLICE + k`."""

_TRANSFER = re.compile(rf'{NAMED}(\w+)"')
_TARGET = re.compile(r'_xla_megascale_target=("[^"]*"|\{\{[^"]*?\}\})')
_PRODUCT = re.compile(r"\{([\d,:]+)\}x\{([\d,:]+)\}")
_LISTED = re.compile(r"\{([\d,\s]+)\}")
_PAIR = re.compile(r"\{(\d+)->(\d+)\}")
_RANGE = re.compile(r"(\d+):(\d+)")


def kind_of(attributes: str, program: str) -> str:
    """What a transfer stands for: one of XLA's collectives.

    Raises:
      ProgramError: Something that is not known here.
    """
    found = _TRANSFER.search(attributes)
    if found is None or found[1] not in KINDS:
        raise ProgramError(
            f"The program {program} has a transfer between slices that cannot be read here: "
            f"{found[1] if found else attributes[:80]!r}. Known: {', '.join(KINDS)}."
        )
    return KINDS[found[1]]


def ids_of(attributes: str, program: str) -> Groups:
    """The ids of the devices that take part together; of a permutation source and target.

    Raises:
      ProgramError: They are written in a form that is not known here.
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
    """A mesh over several slices, of which a program is that of one.

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
        """Whether each slice has so many devices of it."""
        return all(len(members) == count for members in self._members.values())

    def in_each(self, groups: Groups) -> Groups:
        """Groups of one slice's partitions, which are numbered in the mesh's order: in all slices."""
        return tuple(
            tuple(members[number] for number in group)
            for members in self._members.values()
            for group in groups
        )

    def axes_of(self, groups: Groups, *, pairs: bool) -> tuple[str, ...] | None:
        """As `axes_of` and `axes_of_pairs`; also an axis of which only the part in a slice, or over all, is meant.

        Args:
          groups: Of places in the mesh.
          pairs: Whether they are sources and targets.
        """
        found = axes_of_pairs(groups, self._cut) if pairs else axes_of(groups, self._cut)
        return None if found is None else tuple(dict.fromkeys(found))

    def places(self, ids: Groups) -> Groups | None:
        """Groups of ids as places in the mesh; None where it does not have all of them."""
        try:
            return tuple(tuple(self._places[number] for number in group) for group in ids)
        except KeyError:
            return None


def sliced_meshes(meshes: Sequence[MeshAxes], count: int) -> list[SlicedMesh]:
    """Those that are over several slices of so many devices each."""
    found = [SlicedMesh(mesh) for mesh in meshes if mesh.slices]
    return [one for one in found if one.has_each(count)]


def _cut_at_slices(mesh: MeshAxes) -> MeshAxes:
    """The mesh with each axis that goes over slices as two of its name: over slices, and within one."""
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
    """`0,2` and `0:7`, in which both ends count."""
    found: list[int] = []
    for part in filter(None, (word.strip() for word in text.split(","))):
        if ends := _RANGE.fullmatch(part):
            found += range(int(ends[1]), int(ends[2]) + 1)
        else:
            found.append(int(part))
    return tuple(found)
