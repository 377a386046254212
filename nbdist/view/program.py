"""Compiled programs as the view shows them on devices (`compiled_snapshot`), as users get them (`Explained`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from nbdist.contract.calls.arrays import ProgramFound
from nbdist.contract.program import (
    Collective,
    Memory,
    Program,
    ShownCollective,
    ShownMemory,
    ShownProgram,
    ShownValue,
    totals,
)
from nbdist.contract.snapshot import (
    Array,
    Axis,
    Device,
    DeviceKey,
    Mesh,
    Notice,
    Snapshot,
    Torus,
)
from nbdist.contract.snapshot import Memory as DeviceMemory
from nbdist.notation import where_text
from nbdist.view.feed import OneFrame
from nbdist.view.picture import Picture
from nbdist.view.text.program import (
    axes_words,
    line_text,
    program_text,
    times_text,
    title_text,
    total_text,
)

MESH = "compiled"
"""The id of the mesh of a program."""


def compiled_snapshot(
    program: Program,
    devices: Sequence[Device],
    *,
    arrays: Sequence[Array] = (),
    arrays_omitted: int = 0,
    meshes: Sequence[Mesh] = (),
    torus: Torus | None = None,
    notices: Sequence[Notice] = (),
) -> Snapshot:
    """Return a snapshot of a program and of the devices that would run it, with its mesh and arrays.

    Args:
      program: The program.
      devices: All devices; what they say of their memory is replaced by what the program needs.
      arrays: The arrays to show beside the program, such as its arguments.
      arrays_omitted: How many more arrays there are.
      meshes: The meshes of these arrays.
      torus: How the devices are connected.
      notices: What must be known of the picture.
    """
    needed, limit = _needed(program)
    memory = DeviceMemory(bytes_in_use=needed, peak_bytes_in_use=None, bytes_limit=limit)
    mesh = _mesh(program, {device.id: device.key for device in devices}, meshes)
    known = list(meshes) if mesh is None or mesh in meshes else [mesh, *meshes]
    return Snapshot(
        session=f"program {program.name}",
        sequence=1,
        time=0.0,
        state="compiled" if program.refusal is None else "refused",
        devices=tuple(replace(device, memory=memory, live_bytes=None) for device in devices),
        meshes=tuple(known),
        arrays=tuple(arrays),
        arrays_omitted=arrays_omitted,
        notices=tuple(notices),
        torus=torus,
        program=shown_program(program, mesh=None if mesh is None else mesh.id),
    )


def shown_program(program: Program, *, mesh: str | None) -> ShownProgram:
    """Return the numbers of a program with the words of its text form.

    Args:
      program: The program.
      mesh: The id of its mesh in the snapshot; None if its devices are not known.
    """
    needed, limit = _needed(program)
    return ShownProgram(
        name=program.name,
        title=title_text(program),
        fits=program.fits,
        needed=needed,
        limit=limit,
        refusal=None if program.refusal is None else program.refusal.text.strip(),
        mesh=mesh,
        memory=None if program.memory is None else _memory(program.memory),
        collectives=tuple(map(_collective, program.collectives)),
        groupings=program.groupings,
        totals=tuple(total_text(total) for total in totals(program.collectives)),
        largest=tuple(
            ShownValue(bytes=each.bytes, array=each.array, line=line_text(each.file, each.line))
            for each in program.largest
        ),
        unread=program.unread,
        text=program_text(program),
    )


def _needed(program: Program) -> tuple[int | None, int | None]:
    """Return the bytes that the program needs on each device, and those that there are; None if not known."""
    if program.refusal is not None:
        return program.refusal.required, program.refusal.available
    memory = program.memory
    return (None, None) if memory is None else (memory.needed, memory.limit)


def _memory(memory: Memory) -> ShownMemory:
    return ShownMemory(
        arguments=memory.arguments,
        outputs=memory.outputs,
        temporaries=memory.temporaries,
        aliased=memory.aliased,
        code=memory.code,
        needed=memory.needed,
    )


def _collective(each: Collective) -> ShownCollective:
    return ShownCollective(
        kind=each.kind,
        along=axes_words(each),
        bytes=each.bytes,
        arrays=", ".join(each.arrays),
        times=times_text(each),
        direction=each.direction,
        line=line_text(each.file, each.line),
        resharding=each.resharding,
        grouping=each.grouping,
    )


def _mesh(program: Program, keys: dict[int, DeviceKey], meshes: Sequence[Mesh]) -> Mesh | None:
    """Return a program's mesh, or the known one that equals it; None if it has none, or devices are not there."""
    mesh = program.mesh
    if mesh is None or not all(device in keys for device in mesh.devices):
        return None
    axes = tuple(zip(mesh.names, mesh.shape, strict=True))
    devices = tuple(keys[device] for device in mesh.devices)
    for one in meshes:
        if one.devices == devices and tuple((axis.name, axis.size) for axis in one.axes) == axes:
            return one
    return Mesh(
        id=MESH,
        axes=tuple(Axis(name=name, size=size, type="auto") for name, size in axes),
        devices=devices,
    )


@dataclass(frozen=True, slots=True)
class Explained:
    """The answer to `%dist_explain`: the program that a call would run, as all processes have compiled it.

    Attributes:
      expression: The call.
      program: The program that the lowest process has compiled.
      session: The session when the program was compiled.
      differ: The processes, and their hosts, that would run another program; empty if all would run this one.
    """

    expression: str
    program: Program
    session: Snapshot
    differ: str

    @classmethod
    def of(
        cls,
        expression: str,
        answers: Mapping[int, ProgramFound],
        hosts: Mapping[int, str],
        *,
        session: Snapshot,
    ) -> Explained:
        """Return the program from the processes' answers.

        :meta private:
        """
        first = min(answers)
        others = [p for p in answers if answers[p].digest != answers[first].digest]
        differ = where_text(others, hosts) if others else ""
        return cls(expression, answers[first].program, session, differ)

    def text(self) -> str:
        """Return the text that `%dist_explain` prints in a terminal."""
        return "\n".join(filter(None, [self.remark, program_text(self.program)]))

    @property
    def remark(self) -> str:
        """A remark that names the processes whose program differs; empty if none does."""
        if not self.differ:
            return ""
        return (
            f"{self.expression} is another program on {self.differ}. Programs that run together must be equal: "
            "compare what it is made of there. What follows is of the lowest process."
        )

    def picture(self) -> Picture:
        """Return a picture of the session's devices, arrays and meshes, with the program on them."""
        session = self.session
        found = compiled_snapshot(
            self.program,
            session.devices,
            arrays=session.arrays,
            arrays_omitted=session.arrays_omitted,
            meshes=session.meshes,
        )
        return Picture(OneFrame(found), lambda: found)

    def __repr__(self) -> str:
        return self.text()
