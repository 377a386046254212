"""`%dist_explain`: the program that a call would run, as all processes have compiled it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nbdist.contract.calls.arrays import ProgramFound
from nbdist.contract.program import Program
from nbdist.quantities import where_text
from nbdist.view.text.program import program_text


@dataclass(frozen=True, slots=True)
class Explained:
    """The program of a call.

    Attributes:
      expression: The call.
      program: As the lowest process has compiled it.
      differ: The processes, and their hosts, that would run another program; empty where all would run this one.
    """

    expression: str
    program: Program
    differ: str

    @classmethod
    def of(
        cls, expression: str, answers: Mapping[int, ProgramFound], hosts: Mapping[int, str]
    ) -> Explained:
        """What the processes have compiled, by their ids.

        :meta private:
        """
        first = min(answers)
        others = [p for p in answers if answers[p].digest != answers[first].digest]
        return cls(expression, answers[first].program, where_text(others, hosts) if others else "")

    def text(self) -> str:
        """As `%dist_explain` prints it."""
        text = program_text(self.program)
        if not self.differ:
            return text
        return (
            f"{self.expression} is another program on {self.differ}. Programs that run together must be equal: "
            f"compare what it is made of there. What follows is of the lowest process.\n{text}"
        )

    def __repr__(self) -> str:
        return self.text()
