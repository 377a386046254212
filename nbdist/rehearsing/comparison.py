"""Rehearsals of the same code on several meshes: the result of each, as plain data and in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nbdist.contract.program import Program
from nbdist.contract.wire import encode
from nbdist.rehearsing.asked import AskedPod
from nbdist.rehearsing.figures import Figures, figures
from nbdist.rehearsing.table import table
from nbdist.view.text.program import program_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsed:
    """The result of one rehearsal.

    Attributes:
      pod: With its mesh.
      programs: In the order in which they were compiled; also of a failed rehearsal, up to its failure.
      failure: Why it did not come to its end; empty where it did.
      output: The text it printed.
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
      rehearsed: One for each mesh, in the order in which they were given.
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
