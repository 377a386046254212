"""Compiled programs: as text, on devices in the view, and as the result for users (`Explained`)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from msgspec import structs

from nbdist.contract.calls.inspection import ProgramFound
from nbdist.contract.program import (
    Collective,
    Program,
    ProgramMemory,
    Refusal,
    ShownCollective,
    ShownMemory,
    ShownProgram,
    ShownValue,
    Total,
    totals,
)
from nbdist.contract.snapshot import Array, Axis, Device, DeviceKey, Memory, Mesh, Snapshot, Torus
from nbdist.errors import Notice
from nbdist.notation import ROWS, WIDTH, bytes_text, columns, count_text, cut, where_text
from nbdist.view.feed import OneFrame
from nbdist.view.picture import Picture

BAR = 30
"""Characters of the bar of the memory."""

BETWEEN = ", between slices"
"""Text after the axes of data sent through the network between slices."""

_CELL = re.compile(r"[/\\]ipykernel_\d+[/\\]")


def program_text(program: Program, *, width: int = WIDTH) -> str:
    """Return the memory, the collectives, and the bytes sent along each axis, as text.

    Args:
      program: A compiled program, or one that the compiler refused.
      width: Characters a line.
    """
    if program.refusal is not None:
        return f"{title_text(program)}. The compiler:\n{program.refusal.text.strip()}"
    lines = [title_text(program)]
    if program.memory is not None:
        lines += ["", *_memory_lines(program.memory)]
    lines += ["", *_collective_lines(program.collectives)]
    if program.unread:
        lines += ["", f"Not counted: {'; '.join(program.unread)}."]
    lines += ["", *_work(program)]
    return "\n".join(cut(line, width) for line in lines)


def title_text(program: Program) -> str:
    """Return in one line whether a program fits; for a refused one, what the compiler asked for."""
    if program.refusal is not None:
        return f"{program.name or 'The program'} does not fit{_required(program.refusal)}"
    memory = program.memory
    if memory is None:
        return f"{program.name}: compiled; its memory is not known"
    if memory.limit is None:
        return f"{program.name}: {bytes_text(memory.needed)} on each device"
    fits = "fits" if program.fits else "does not fit"
    return f"{program.name}: {fits}, {bytes_text(memory.needed)} of {bytes_text(memory.limit)} on each device"


def _required(refusal: Refusal) -> str:
    if refusal.required is None or refusal.available is None:
        return ""
    return f", {bytes_text(refusal.required)} of {bytes_text(refusal.available)} on each device"


def _memory_lines(memory: ProgramMemory) -> list[str]:
    parts = [
        ("arguments", memory.arguments),
        ("outputs", memory.outputs),
        ("temporaries", memory.temporaries),
        ("code", memory.code),
        ("reused arguments (donated)", -memory.aliased),
    ]
    whole = max(memory.limit or 0, memory.needed, memory.arguments, memory.outputs, 1)
    rows = [
        [name, f"−{bytes_text(-size)}" if size < 0 else bytes_text(size), _bar(abs(size), whole)]
        for name, size in parts
        if size or name in ("arguments", "outputs", "temporaries")
    ]
    rows.append(["together", bytes_text(memory.needed), _bar(memory.needed, whole)])
    if memory.limit is not None:
        rows.append(["limit", bytes_text(memory.limit), _bar(memory.limit, whole)])
    return columns(rows, right=(1,))


def _bar(size: int, whole: int) -> str:
    """Return a bar as long as the part; any part has at least one character."""
    return "█" * max(round(size * BAR / whole), 1 if size else 0)


def _collective_lines(collectives: tuple[Collective, ...]) -> list[str]:
    if not collectives:
        return ["Its devices exchange nothing."]
    rows = [["collective", "along", "per device", "times", "pass", "line"]]
    rows += [
        [
            f"{each.kind}{' *' if each.resharding else ''}",
            axes_words(each),
            bytes_text(each.bytes),
            times_text(each),
            each.direction,
            line_text(each.file, each.line),
        ]
        for each in collectives[:ROWS]
    ]
    lines = columns(rows, right=(2, 3))
    if len(collectives) > ROWS:
        lines.append(f"and {len(collectives) - ROWS} more")
    lines += ["", *(total_text(total) for total in totals(collectives))]
    if any(each.resharding for each in collectives):
        lines += [
            "",
            "* Inserted by the compiler, since a value is not laid out as its user needs it.",
        ]
    return lines


def axes_words(collective: Collective) -> str:
    """Return `data, model`; or the devices themselves, if they are not along axes of the mesh."""
    between = BETWEEN if collective.between_slices else ""
    if collective.axes is None:
        return f"devices {collective.devices}{between}"
    return f"{', '.join(collective.axes) or 'nothing'}{between}"


def times_text(collective: Collective) -> str:
    """Return `6`, `≤ 6` in a branch, `?` in a loop with an unknown number of iterations."""
    if collective.times is None:
        return "?"
    return f"{'≤ ' if collective.in_branch else ''}{collective.times}"


def line_text(file: str, line: int) -> str:
    """Return `train.py:12`; for a cell `cell, line 12`; empty if the line is not known."""
    if not file:
        return ""
    if _CELL.search(file):
        return f"cell, line {line}"
    return f"{PurePath(file).name}:{line}"


def total_text(total: Total) -> str:
    """Return `along data: 1.5 MB per device in one run`."""
    along = "devices that are no axes" if total.axes is None else ", ".join(total.axes) or "nothing"
    along += BETWEEN if total.between_slices else ""
    bound = "at most " if total.at_most else ""
    more = (
        f", and {count_text(total.uncounted, 'collective')} of unknown times"
        if total.uncounted
        else ""
    )
    return f"along {along}: {bound}{bytes_text(total.bytes)} per device in one run{more}"


def _work(program: Program) -> list[str]:
    lines = []
    if program.matmul_flops is not None:
        lines.append(f"matrix products: {_count(program.matmul_flops)} operations per device")
    if program.flops is not None:
        once = ", each loop's body once" if program.loops else ""
        lines.append(f"as XLA counts{once}: {_count(program.flops)} operations per device")
    if program.largest:
        lines += ["", "largest values"]
        lines += columns(
            [
                [bytes_text(each.bytes), each.array, line_text(each.file, each.line)]
                for each in program.largest
            ],
            right=(0,),
        )
    return lines


def _count(number: float) -> str:
    """Return `1.5 T`, in powers of 1000."""
    for unit in ("", " k", " M", " G", " T"):
        if number < 999.5:
            return f"{number:.3g}{unit}"
        number /= 1000
    return f"{number:.3g} P"


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
      devices: All devices; their memory figures are replaced by what the program needs.
      arrays: The arrays to show beside the program, such as its arguments.
      arrays_omitted: How many more arrays there are.
      meshes: The meshes of these arrays.
      torus: How the devices are connected.
      notices: Notices about the picture.
    """
    needed, limit = _needed(program)
    memory = Memory(bytes_in_use=needed, peak_bytes_in_use=None, bytes_limit=limit)
    mesh = _mesh(program, {device.id: device.key for device in devices}, meshes)
    known = list(meshes) if mesh is None or mesh in meshes else [mesh, *meshes]
    return Snapshot(
        session=f"program {program.name}",
        sequence=1,
        time=0.0,
        state="compiled" if program.refusal is None else "refused",
        devices=tuple(
            structs.replace(device, memory=memory, live_bytes=None) for device in devices
        ),
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
    """Return the bytes that the program needs on each device, and the bytes available; None if not known."""
    if program.refusal is not None:
        return program.refusal.required, program.refusal.available
    memory = program.memory
    return (None, None) if memory is None else (memory.needed, memory.limit)


def _memory(memory: ProgramMemory) -> ShownMemory:
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
    """Return a program's mesh, or an equal known one; None if it has none or its devices are missing."""
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
