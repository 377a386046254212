"""Rehearsals of the same code on several meshes: what came of each, as plain data and in words."""

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
    """What came of one of them.

    Attributes:
      pod: With its mesh.
      programs: In the order in which they were compiled; also of one that failed, up to there.
      failure: Why it did not come to its end; empty where it did.
      output: What it printed.
    """

    pod: AskedPod
    programs: tuple[Program, ...]
    failure: str = ""
    output: str = ""

    @property
    def fits(self) -> bool:
        """Whether all its programs do."""
        return all(program.fits for program in self.programs)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Rehearsals of the same code on several meshes.

    Attributes:
      rehearsed: One each, in the order in which the meshes were given.
    """

    rehearsed: tuple[Rehearsed, ...]

    @property
    def figures(self) -> tuple[Figures, ...]:
        """A row for each program on each mesh; those of the same program stand together."""
        return figures([(one.pod, one.programs) for one in self.rehearsed])

    def text(self) -> str:
        """The table, what failed, and what does not fit."""
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
        """What was printed, then each program on each mesh as a rehearsal alone shows it."""
        programs = [
            f"── {one.pod.label}\n\n{program_text(program)}"
            for one in self.rehearsed
            for program in one.programs
        ]
        return "\n\n".join(filter(None, [self.output_text(), *programs]))

    def output_text(self) -> str:
        """What the rehearsals printed; what several have alike stands once, with their meshes."""
        by_text: dict[str, list[str]] = {}
        for one in self.rehearsed:
            if one.output.strip():
                by_text.setdefault(one.output.rstrip("\n"), []).append(one.pod.label)
        if len(by_text) == 1 and len(next(iter(by_text.values()))) == len(self.rehearsed):
            return next(iter(by_text))
        return "\n\n".join(f"── {'; '.join(labels)}\n{text}" for text, labels in by_text.items())

    def plain(self) -> dict[str, Any]:
        """All of it as JSON has it."""
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
    """The first line of its own text, which ends where the compiler's words begin."""
    return f"{label}: {program_text(program).splitlines()[0].removesuffix(' The compiler:')}"
