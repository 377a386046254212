"""The collectives of a program: the data exchanged, the axes, how often, and the source line of each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from msgspec import structs

from nbdist.contract.program import Collective, Direction, Grouping, MeshAxes
from nbdist.errors import ProgramError
from nbdist.program.axes import (
    NAMED,
    Groups,
    ProgramMesh,
    devices_text,
    groups_in,
    ids_of,
    kind_of,
    pairs_in,
)
from nbdist.program.hlo import Instruction, Module, Shape, SourceLine, shapes_in
from nbdist.program.runs import Runs, Times

KINDS = (
    "all-reduce",
    "all-gather",
    "reduce-scatter",
    "all-to-all",
    "collective-permute",
    "collective-broadcast",
    "ragged-all-to-all",
)
_GROUPS, _PAIRS = "replica_groups=", "source_target_pairs="
_INSERTED = 'is_spmd_generated="true"'
_OVERLAPPED = '"async_collective_fusion_config":'
_STEPS = 8
"""How many instructions back the line of a moved value is looked for."""
MOST_PLACES = 1_000_000
"""The most places of devices that all groupings of a program have together; further groupings are not kept."""

_CHAIN = re.compile(r'\bchain_id="(\w+)"')
_CHANNEL = re.compile(r"\bchannel_id=(\d+)")


@dataclass(frozen=True, slots=True)
class _Found:
    computation: str
    instruction: Instruction

    @property
    def kind(self) -> str:
        return self.instruction.opcode.removesuffix("-start")

    @property
    def place(self) -> tuple[str, str]:
        return self.computation, self.instruction.name

    @property
    def overlapped(self) -> tuple[str, ...] | None:
        """Return what identifies a collective that XLA for TPUs spreads over several fusions; None for others."""
        attributes = self.instruction.attributes
        if _OVERLAPPED not in attributes:
            return None
        parts = [pattern.search(attributes) for pattern in (_CHANNEL, _CHAIN)]
        return (self.kind, *(part[1] if part else "" for part in parts))


class Collectives:
    """Reads the collectives of a program.

    Args:
      module: The program.
      runs: How often its computations run.
      meshes: The user's meshes; the first that fits names the axes of a collective.
    """

    def __init__(self, module: Module, runs: Runs, meshes: Sequence[MeshAxes]) -> None:
        self._module, self._runs = module, runs
        count = module.replicas * module.partitions
        self._count = count
        found = [one for one in (ProgramMesh(mesh, count) for mesh in meshes) if one.fits]
        self._meshes = sorted(found, key=lambda one: one.sliced)
        self._along: dict[tuple[str, bool], tuple[tuple[str, ...] | None, str]] = {}
        self._inserted: set[tuple[str, ...]] = set()
        self.unread: list[str] = []
        self._groupings: dict[Grouping, int] = {}
        self._places = 0

    def read(self) -> tuple[Collective, ...]:
        """Return all collectives, in the order of the text.

        Raises:
          ProgramError: A collective is written in a form that this module does not know.
        """
        found = list(self._find())
        starts = self._starts()
        begun = {each.overlapped for each in found if each.place in starts}
        spread: dict[tuple[str, ...], set[Times]] = {}
        for each in found:
            if (key := each.overlapped) is not None:
                spread.setdefault(key, set()).add(self._runs.times(each.computation))
                if _INSERTED in self._runs.caller_attributes(each.computation):
                    self._inserted.add(key)
        seen: set[tuple[str, ...]] = set()
        collectives = []
        for each in found:
            key = each.overlapped
            times = self._runs.times(each.computation)
            if key is not None and key in begun:
                # Each of its fusions names the collective; count it once, where it begins.
                if each.place not in starts:
                    continue
            elif key is not None:
                if key in seen:
                    continue
                seen.add(key)
                times = times if len(spread[key]) == 1 else Times(None, times.branch)
            collectives.append(self._collective(each, times))
        collectives += self._between_slices()
        return tuple(collectives)

    def _between_slices(self) -> Iterator[Collective]:
        """Yield the transfers between slices, which all run the same program and send through their hosts."""
        module = self._module
        for computation, found in module.instructions_with(NAMED):
            if found.opcode != "send":
                continue
            kind = kind_of(found.attributes, module.name)
            ids, pairs = ids_of(found.attributes, module.name), kind == "collective-permute"
            axes, devices, places = self._named_between(ids, pairs=pairs)
            # The type of a send is a tuple: its operand, then values for its own use.
            (array, *_) = shapes_in(found.type)
            made = self._made(_Found(computation, found), kind, ids, self._runs.times(computation))
            yield structs.replace(
                made,
                axes=axes,
                devices=devices,
                bytes=array.bytes * (made.group_size if kind == "all-gather" else 1),
                arrays=(str(array),),
                between_slices=True,
                grouping=None
                if places is None
                else self._number(Grouping(groups=places, pairs=pairs)),
            )

    def _named_between(
        self, ids: Groups, *, pairs: bool
    ) -> tuple[tuple[str, ...] | None, str, Groups | None]:
        """Return the axes, or else the devices in words; and places in the first mesh if it spans slices."""
        first, *_ = [*self._meshes, None]
        places = first.places(ids) if first is not None and first.sliced else None
        for mesh in self._meshes:
            there = mesh.places(ids) if mesh.sliced else None
            axes = None if there is None else mesh.axes_of(there, pairs=pairs)
            if axes is not None:
                return axes, "", places
        return None, devices_text(ids, None, pairs=pairs), places

    @property
    def mesh(self) -> MeshAxes | None:
        """Return the user's first mesh with the program's devices, or with those of all slices if several."""
        return self._meshes[0].mesh if self._meshes else None

    @property
    def groupings(self) -> tuple[Grouping, ...]:
        """Return the groupings of the collectives read so far, each once."""
        return tuple(self._groupings)

    def _find(self) -> Iterator[_Found]:
        for computation, found in self._module.instructions_with(f", {_GROUPS}", f", {_PAIRS}"):
            if found.opcode.removesuffix("-start") in KINDS:
                yield _Found(computation, found)
            elif not found.opcode.endswith(("-done", "-update")):
                self.unread.append(f"{found.opcode} ({found.name}), which names groups of devices")

    def _starts(self) -> set[tuple[str, str]]:
        """Return the places where XLA for TPUs begins a collective that continues in other fusions."""
        starts = self._module.instructions_with('custom_call_target="AsyncCollectiveStart"')
        return {(computation, name) for computation, start in starts for name in start.operands}

    def _collective(self, each: _Found, times: Times) -> Collective:
        groups, axes, devices = self._groups(each)
        arrays = self._arrays(each)
        kind, fused = each.kind, ""
        outer = self._runs.caller_attributes(each.computation)
        if kind == "all-reduce" and self._is_sliced(each, outer):
            kind, fused = "reduce-scatter", "all-reduce and dynamic-slice in one fusion"
        made = self._made(each, kind, groups, times)
        return structs.replace(
            made,
            axes=axes,
            devices=devices,
            bytes=sum(shape.bytes for shape in arrays),
            arrays=tuple(map(str, arrays)),
            inserted=made.inserted
            or (bool(fused) and _INSERTED in outer)
            or each.overlapped in self._inserted,
            fused=fused,
            grouping=self._grouping(each, groups),
        )

    def _made(self, each: _Found, kind: str, groups: Groups, times: Times) -> Collective:
        """Return a collective without its devices and arrays, which the caller adds."""
        source = self._source(each)
        return Collective(
            kind=kind,
            axes=None,
            devices="",
            group_size=2 if kind == "collective-permute" else max(map(len, groups)),
            bytes=0,
            arrays=(),
            times=times.count,
            in_branch=times.branch,
            direction=direction_of(source.operation),
            inserted=_INSERTED in each.instruction.attributes,
            fused="",
            file=source.file,
            line=source.line,
            function=source.function,
            operation=source.operation,
            name=each.instruction.name,
        )

    def _grouping(self, each: _Found, groups: Groups) -> int | None:
        """Return the number of a collective's grouping; None for replicas, whose devices are not known here."""
        if self._module.replicas > 1 and not self._are_devices(each):
            return None
        in_all = self._meshes[0].in_each(groups) if self._meshes else groups
        return self._number(Grouping(groups=in_all, pairs=_PAIRS in each.instruction.attributes))

    def _number(self, grouping: Grouping) -> int | None:
        """Return the index of a grouping among the program's; None if there are too many."""
        if grouping not in self._groupings:
            places = sum(map(len, grouping.groups))
            if self._places + places > MOST_PLACES:
                return None
            self._places += places
            self._groupings[grouping] = len(self._groupings)
        return self._groupings[grouping]

    def _source(self, each: _Found) -> SourceLine:
        """Return a collective's source line; if XLA added it, the line of the value that it moves."""
        found = own = self._runs.source(each.computation, each.instruction.attributes)
        moved: Instruction | None = each.instruction
        for _ in range(_STEPS):
            if found.file or moved is None or not moved.operands:
                break
            moved = self._module.defined(each.computation, moved.operands[0])
            if moved is not None:
                found = self._runs.source(each.computation, moved.attributes)
        if not found.file:
            return own
        return replace(found, operation=own.operation or found.operation)

    def _is_sliced(self, each: _Found, outer: str) -> bool:
        """Return whether one fusion has an all-reduce and takes each device's slice: a reduce-scatter."""
        if not (
            each.computation.startswith("all-reduce-scatter") or "AllReduceScatterFusion" in outer
        ):
            return False
        begin, end = self._module.spans[each.computation]
        return f" dynamic-slice(%{each.instruction.name}," in self._module.text[begin:end]

    def _groups(self, each: _Found) -> tuple[Groups, tuple[str, ...] | None, str]:
        attributes = each.instruction.attributes
        pairs = _PAIRS in attributes
        key = _PAIRS if pairs else _GROUPS
        at = attributes.index(key) + len(key)
        text, groups = (
            pairs_in(attributes[at:]) if pairs else groups_in(attributes[at:], self._count)
        )
        if not pairs and not self._are_devices(each):
            # The groups list replicas; each replica stands for all its partitions.
            if self._module.replicas == 1:
                text, groups = "all", (tuple(range(self._count)),)
            else:
                return groups, None, f"replicas {devices_text(groups, None)}"
        if (text, pairs) not in self._along:
            self._along[text, pairs] = self._named(groups, pairs)
        return groups, *self._along[text, pairs]

    def _are_devices(self, each: _Found) -> bool:
        """Return whether the numbers of its groups are partitions, not replicas."""
        if (
            self._module.partitions == 1
            or "use_global_device_ids=true" in each.instruction.attributes
        ):
            return True
        channel = _CHANNEL.search(each.instruction.attributes)
        return channel is not None and each.kind in (
            "all-to-all",
            "collective-broadcast",
            "ragged-all-to-all",
        )

    def _named(self, groups: Groups, pairs: bool) -> tuple[tuple[str, ...] | None, str]:
        for mesh in self._meshes:
            axes = mesh.axes_of(mesh.in_each(groups), pairs=pairs)
            if axes is not None:
                return axes, ""
        own = next((one.mesh for one in self._meshes if not one.sliced), None)
        return None, devices_text(groups, own, pairs=pairs)

    def _arrays(self, each: _Found) -> tuple[Shape, ...]:
        found, kind = each.instruction, each.kind
        shapes = shapes_in(found.type)
        if found.opcode in ("all-gather-start", "collective-permute-start"):
            # The type of a start has its operands, its results and values for its own use.
            count = len(found.operands)
            shapes = shapes[count : 2 * count]
        elif kind in ("reduce-scatter", "ragged-all-to-all"):
            operands = found.operands if kind == "reduce-scatter" else found.operands[:1]
            shapes = tuple(shape for name in operands for shape in self._shapes_of(each, name))
        if (
            kind == "collective-permute"
            and len(found.operands) > 1
            and "slice_sizes=" in found.attributes
        ):
            raise ProgramError(
                f"The program {self._module.name} has a permutation of parts of arrays ({found.name}), which "
                "cannot be read here."
            )
        if not shapes:
            raise ProgramError(
                f"The program {self._module.name} has a collective without arrays: {found.opcode} ({found.name})"
            )
        return shapes

    def _shapes_of(self, each: _Found, operand: str) -> tuple[Shape, ...]:
        found = self._module.defined(each.computation, operand)
        if found is None:
            raise ProgramError(
                f"The program {self._module.name} has no {operand!r}, which {each.instruction.name} takes. "
                "Give all of what compiled.as_text() returns."
            )
        return shapes_in(found.type)


def direction_of(operation: str) -> Direction:
    """Return the direction from JAX's name of an operation, such as `jit(step)/transpose(jvp())/dot_general`.

    An operation that XLA has merged from several has all their names: `jit(step)/(a:b)`.
    """
    parts = operation.split(":") if "/(" in operation else [operation]
    backward = ["transpose(" in part for part in parts]
    if all(backward):
        return "backward"
    if any(backward):
        return "both"
    return "forward" if any("jvp(" in part for part in parts) else ""
