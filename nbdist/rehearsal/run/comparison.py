"""Comparison of rehearsals of the same code on several meshes: the result of each, as plain data and as one table.

The table has a block for each program and a column for each mesh, so that the same figure stands side by side.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from nbdist.contract.program import Program
from nbdist.contract.wire import encode
from nbdist.notation import WIDTH, bytes_text, columns
from nbdist.rehearsal.run.asked import AskedPod
from nbdist.rehearsal.run.figures import MEMORY, Figures, SentBytes, figures
from nbdist.view.text.program import BETWEEN, program_text

BEST = "*"
"""Mark behind the best of the meshes on which the program fits."""

_COUNT = re.compile(r"^\d+ collectives?")

LEGEND = (
    "Bytes are of each device. The total has the program itself, too, and once what arguments and outputs "
    "share. What is sent is the least that one run must send along the axes, whichever algorithm is used. No run "
    "is faster than the bound."
)


def table(rows: Sequence[Figures], *, width: int = WIDTH) -> str:
    """Return a block for each program, with a column for each mesh.

    Args:
      rows: The rows, as `figures` gives them.
      width: Characters of a line; meshes for which a line has no room follow below.
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
    """Return `12.3 ms`: three figures, from nanoseconds up."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size * 0.9995:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def _block(rows: Sequence[Figures], width: int) -> str:
    """Return the lines of one program, with the meshes side by side as far as a line has room."""
    name = rows[0].program + (f" (its program {rows[0].number})" if rows[0].number > 1 else "")
    # The same axes stand in another order in another mesh.
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
      failure: Why the rehearsal did not come to its end; empty where it did.
      output: The text that it printed.
    """

    pod: AskedPod
    programs: tuple[Program, ...]
    failure: str = ""
    output: str = ""

    @property
    def fits(self) -> bool:
        """Return whether all its programs fit."""
        return all(program.fits for program in self.programs)


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
    """Return the first line of the refusal's own text, which ends where the compiler's words begin."""
    return f"{label}: {program_text(program).splitlines()[0].removesuffix(' The compiler:')}"
