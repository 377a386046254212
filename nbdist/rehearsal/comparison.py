"""Comparison of rehearsals of the same code on several meshes: the result of each, as plain data and as one table.

The table has a block for each program and a column for each mesh, so that the same figure stands side by side. One
figure is the shortest time that a run can take at a device's peak speeds: a bound, not a forecast.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter
from typing import Any

from nbdist.contract.program import Program, ProgramMemory, totals
from nbdist.contract.wire import encode
from nbdist.notation import WIDTH, bytes_text, columns, count_text
from nbdist.rehearsal.mesh import AskedPod
from nbdist.rehearsal.topology import Chip, read_topology
from nbdist.view.program import BETWEEN, program_text

BEST = "*"
"""Mark after the figure that is best among the meshes on which the program fits."""

_COUNT = re.compile(r"^\d+ collectives?")

LEGEND = (
    "Bytes are of each device. The total has the program itself, too, and once what arguments and outputs "
    "share. What is sent is the least that one run must send along the axes, whichever algorithm is used. No run "
    "is faster than the bound."
)

MEMORY = ("arguments", "outputs", "temporaries", "total")
"""The memory figures, by their names in `Figures`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SentBytes:
    """The bytes that a device must send along some axes in one run.

    Attributes:
      axes: The axes; None for groups of devices that are not along axes of the mesh.
      between_slices: Whether the bytes go through the network between slices, not over a slice's own links.
      bytes: A lower limit for the number of bytes with any algorithm.
      certain: False where a collective lies in a branch, or in a loop with an unknown number of turns; `bytes`
        leaves it out.
    """

    axes: tuple[str, ...] | None
    between_slices: bool
    bytes: int
    certain: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """One program on one mesh. None stands for unknown, as for a program that the compiler refused.

    Attributes:
      program: The program's name.
      number: Its number, from 1, among the programs of that name on its mesh.
      mesh: The mesh, as a person types it; None for none.
      fits: Whether the program fits.
      arguments: Bytes on each device, as all memory figures.
      outputs: Likewise.
      temporaries: Likewise.
      total: All of them, aliased memory once, and the program itself.
      sent: Bytes that a device must send, by axes.
      bound_s: A lower limit for the seconds of a run.
      bound_left_out: The parts of a run that this limit does not count, in words.
      best: The figures in which no other mesh is better and at least one is worse: `total`, `bound_s`, `sent`, ….
    """

    program: str
    number: int
    mesh: str | None
    fits: bool
    arguments: int | None = None
    outputs: int | None = None
    temporaries: int | None = None
    total: int | None = None
    sent: tuple[SentBytes, ...] = ()
    bound_s: float | None = None
    bound_left_out: tuple[str, ...] = ()
    best: tuple[str, ...] = ()

    @property
    def sent_bytes(self) -> int | None:
        """Bytes sent along all axes; None if they are not certain."""
        certain = self.total is not None and all(each.certain for each in self.sent)
        return sum(each.bytes for each in self.sent) if certain else None


def figures(rehearsed: Sequence[tuple[AskedPod, Sequence[Program]]]) -> tuple[Figures, ...]:
    """Return one row for each program on each mesh, rows of the same program together, the best figures marked."""
    by_program: dict[tuple[str, int], list[Figures]] = {}
    for pod, programs in rehearsed:
        met: dict[str, int] = {}
        for program in programs:
            number = met[program.name] = met.get(program.name, 0) + 1
            row = _row(pod, program, number)
            by_program.setdefault((program.name, number), []).append(row)
    return tuple(row for rows in by_program.values() for row in _marked(rows))


def bound_of(program: Program, memory: ProgramMemory, chip: Chip) -> tuple[float, tuple[str, ...]]:
    """Return the fewest seconds that one run can take, and the parts that this leaves out, in words.

    No run is faster than the longest of these, as all may happen at the same time: the matrix products at peak
    speed, arguments and results moved once through the memory, and what the collectives must send over all links
    at once. A run is slower if these wait for each other. A program that reads only parts of its arguments may
    take less time for memory.

    Args:
      program: A program that fits.
      memory: The memory it needs.
      chip: A chip, which may be several devices. Half of its `ici_bytes_per_s`, which counts both directions, is
        for sending. Collectives in branches, in loops whose turns are not known, and between slices are left out.
    """
    sure = [each for each in program.collectives if not each.in_branch]
    links = [each for each in sure if not each.between_slices]
    seconds = [(memory.arguments + memory.outputs) / chip.hbm_bytes_per_s]
    left_out = []
    if program.matmul_flops is None:
        left_out.append("its products")
    else:
        seconds.append(program.matmul_flops / chip.bf16_flops)
    if chip.ici_bytes_per_s is None:
        left_out.append("its collectives")
    else:
        sent = sum(each.sent * each.times for each in links if each.times is not None)
        seconds.append(sent / (chip.ici_bytes_per_s / 2))
        if unknown := sum(each.times is None for each in links):
            unknown_text = count_text(unknown, "collective")
            left_out.append(f"{unknown_text} in loops whose turns are not known")
        if branched := len(program.collectives) - len(sure):
            left_out.append(f"{count_text(branched, 'collective')} in branches")
    if between := sum(each.between_slices for each in sure):
        left_out.append(f"{count_text(between, 'collective')} between slices")
    return max(seconds) * chip.devices, (*left_out, *program.unread)


def _row(pod: AskedPod, program: Program, number: int) -> Figures:
    plain = Figures(program=program.name, number=number, mesh=pod.mesh, fits=program.fits)
    memory, chip = program.memory, read_topology(pod.topology).chip
    if memory is None or chip is None:
        return plain
    bound_s, left_out = bound_of(program, memory, chip)
    return replace(
        plain,
        arguments=memory.arguments,
        outputs=memory.outputs,
        temporaries=memory.temporaries,
        total=memory.needed,
        sent=tuple(
            SentBytes(
                axes=one.axes,
                between_slices=one.between_slices,
                bytes=one.sent,
                certain=not (one.uncounted or one.at_most),
            )
            for one in totals(program.collectives)
        ),
        bound_s=bound_s,
        bound_left_out=left_out,
    )


def _marked(rows: Sequence[Figures]) -> list[Figures]:
    """Mark the best of the programs that fit; a bound that leaves something out is never marked."""
    known: dict[str, Callable[[Figures], float | None]] = {
        **{name: attrgetter(name) for name in MEMORY},
        "sent": attrgetter("sent_bytes"),
        "bound_s": lambda row: None if row.bound_left_out else row.bound_s,
    }
    best: dict[str, float] = {}
    for name, figure in known.items():
        found = [figure(row) for row in rows if row.fits]
        certain = [value for value in found if value is not None]
        if len(certain) == len(found) and len(set(certain)) > 1:
            best[name] = min(certain)
    return [
        replace(
            row, best=tuple(n for n, least in best.items() if row.fits and known[n](row) == least)
        )
        for row in rows
    ]


def table(rows: Sequence[Figures], *, width: int = WIDTH) -> str:
    """Return a block for each program, with a column for each mesh.

    Args:
      rows: The rows, as `figures` gives them.
      width: Characters of a line; meshes that do not fit into a line follow below.
    """
    blocks = [
        _block(list(group), width)
        for _, group in groupby(rows, key=lambda row: (row.program, row.number))
    ]
    best = f" {BEST} the best of those that fit." if any(row.best for row in rows) else ""
    left_out = dict.fromkeys(
        _COUNT.sub("collectives", part) for row in rows for part in row.bound_left_out
    )
    more = f" A bound with ≥ does not count {', '.join(left_out)}." if left_out else ""
    return "\n\n".join([*blocks, textwrap.fill(f"{LEGEND}{more}{best}", width)])


def seconds_figure(seconds: float) -> str:
    """Return `12.3 ms`: three significant digits, from nanoseconds up."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size * 0.9995:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def _block(rows: Sequence[Figures], width: int) -> str:
    """Return the lines of one program, with the meshes side by side as far as a line has room."""
    name = rows[0].program + (f" (its program {rows[0].number})" if rows[0].number > 1 else "")
    # Another mesh may have the same axes in another order.
    along = list({_along_of(each): each for row in rows for each in row.sent}.values())
    figures = ["fits", *MEMORY, *(_words(each) for each in along), "sent in all", "bound"]
    cells = [
        [
            row.mesh or "no mesh",
            "yes" if row.fits else "no",
            *(_best(row, name, _bytes(getattr(row, name))) for name in MEMORY),
            *(_along(row, each) for each in along),
            _best(row, "sent", _all_sent(row)),
            _best(row, "bound_s", _bound(row)),
        ]
        for row in rows
    ]
    head = [name, *figures]
    parts: list[list[list[str]]] = [[]]
    for column in cells:
        if parts[-1] and _width([head, *parts[-1], column]) > width:
            parts.append([])
        parts[-1].append(column)
    return "\n\n".join("\n".join(columns(list(zip(head, *part, strict=True)))) for part in parts)


def _width(found: Sequence[Sequence[str]]) -> int:
    return len(found) * 2 - 2 + sum(max(map(len, column)) for column in found)


def _best(row: Figures, name: str, text: str) -> str:
    return f"{text} {BEST}" if name in row.best else text


def _bytes(size: int | None) -> str:
    return "?" if size is None else bytes_text(size)


def _words(each: SentBytes) -> str:
    along = "devices that are no axes" if each.axes is None else ", ".join(each.axes) or "nothing"
    return f"sent along {along}{BETWEEN if each.between_slices else ''}"


def _along_of(each: SentBytes) -> tuple[frozenset[str] | None, bool]:
    return None if each.axes is None else frozenset(each.axes), each.between_slices


def _along(row: Figures, along: SentBytes) -> str:
    if row.total is None:
        return "?"
    return _sent([each for each in row.sent if _along_of(each) == _along_of(along)])


def _all_sent(row: Figures) -> str:
    return "?" if row.total is None else _sent(row.sent)


def _sent(each: Sequence[SentBytes]) -> str:
    about = "" if all(one.certain for one in each) else "about "
    return f"{about}{bytes_text(sum(one.bytes for one in each))}"


def _bound(row: Figures) -> str:
    if row.bound_s is None:
        return "?"
    return f"{'≥ ' if row.bound_left_out else ''}{seconds_figure(row.bound_s)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsed:
    """The result of one rehearsal.

    Attributes:
      pod: The pod, with its mesh.
      programs: Programs in the order in which they were compiled; also of a failed rehearsal, up to its failure.
      failure: Why the rehearsal did not complete; empty if it did.
      output: The text that the rehearsal printed.
    """

    pod: AskedPod
    programs: tuple[Program, ...]
    failure: str = ""
    output: str = ""

    @property
    def fits(self) -> bool:
        """Return whether all its programs fit."""
        return all(program.fits for program in self.programs)

    @property
    def exit_code(self) -> int:
        """Exit code of `nbdist rehearse`: 1 if a program does not fit, else 2 if it failed, else 0."""
        return 1 if not self.fits else 2 if self.failure else 0


@dataclass(frozen=True, slots=True)
class Comparison:
    """The results of rehearsals of the same code on several meshes.

    Attributes:
      rehearsed: One result for each mesh, in the order in which the meshes were given.
    """

    rehearsed: tuple[Rehearsed, ...]

    @property
    def figures(self) -> tuple[Figures, ...]:
        """A row for each program on each mesh; rows of the same program stand together."""
        return figures([(one.pod, one.programs) for one in self.rehearsed])

    @property
    def exit_code(self) -> int:
        """Exit code of `nbdist rehearse`: the highest of all meshes."""
        return max(one.exit_code for one in self.rehearsed)

    def text(self) -> str:
        """Return the table, the failures, and what does not fit."""
        parts = []
        if rows := self.figures:
            parts.append(table(rows))
        parts += [
            _refused(one.pod.label, program)
            for one in self.rehearsed
            for program in one.programs
            if program.refusal is not None
        ]
        parts += [f"{one.pod.label} failed: {one.failure}" for one in self.rehearsed if one.failure]
        parts += [
            f"{one.pod.label} has compiled no program."
            for one in self.rehearsed
            if not one.failure and not one.programs
        ]
        return "\n\n".join(parts)

    def details(self) -> str:
        """Return the printed output, then each program on each mesh as a single rehearsal shows it."""
        programs = [
            f"── {one.pod.label}\n\n{program_text(program)}"
            for one in self.rehearsed
            for program in one.programs
        ]
        return "\n\n".join(filter(None, [self.output_text(), *programs]))

    def output_text(self) -> str:
        """Return the printed output of the rehearsals; equal output stands once, with its meshes."""
        by_text: dict[str, list[str]] = {}
        for one in self.rehearsed:
            if one.output.strip():
                by_text.setdefault(one.output.rstrip("\n"), []).append(one.pod.label)
        if len(by_text) == 1 and len(next(iter(by_text.values()))) == len(self.rehearsed):
            return next(iter(by_text))
        return "\n\n".join(f"── {'; '.join(labels)}\n{text}" for text, labels in by_text.items())

    def plain(self) -> dict[str, Any]:
        """Return everything as JSON has it."""
        return {
            "rehearsals": [
                {
                    "topology": one.pod.topology,
                    "slices": one.pod.slices,
                    "mesh": one.pod.mesh,
                    "fits": one.fits,
                    "failure": one.failure,
                    "programs": [encode(program) for program in one.programs],
                }
                for one in self.rehearsed
            ],
            "comparison": [encode(row) for row in self.figures],
        }

    def __repr__(self) -> str:
        return self.text()


def _refused(label: str, program: Program) -> str:
    """Return the first line of nbdist's text about the refusal, which comes before the compiler's message."""
    return f"{label}: {program_text(program).splitlines()[0].removesuffix(' The compiler:')}"
