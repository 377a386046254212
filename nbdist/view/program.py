"""`%dist_explain`: the program that a call would run, as all processes have compiled it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nbdist.contract.calls.arrays import ProgramFound
from nbdist.contract.program import Program
from nbdist.contract.snapshot import Snapshot
from nbdist.quantities import where_text
from nbdist.view.compiled import compiled_snapshot
from nbdist.view.one_frame import OneFrame
from nbdist.view.picture import Picture
from nbdist.view.text.program import program_text


@dataclass(frozen=True, slots=True)
class Explained:
    """The program of a call.

    Attributes:
      expression: The call.
      program: As the lowest process has compiled it.
      session: The session when it was compiled.
      differ: The processes, and their hosts, that would run another program; empty where all would run this one.
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
        """A remark that names the processes whose program differs; empty where none does."""
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
