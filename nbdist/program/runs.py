"""How often each computation of a program runs: the turns of loops multiplied, branches marked."""

from __future__ import annotations

from dataclasses import dataclass

from nbdist.errors import ProgramError
from nbdist.program.frames import Frames, Source
from nbdist.program.hlo import Call, Module
from nbdist.program.loops import Loops


@dataclass(frozen=True, slots=True)
class Times:
    """How often a computation runs in one run of the program.

    Attributes:
      count: None where it is in a loop with an unknown number of turns.
      branch: Whether `count` is an upper limit, since the computation is in a branch of a conditional.
    """

    count: int | None
    branch: bool = False


class Runs:
    """The computations of a program, by their callers."""

    def __init__(self, module: Module, frames: Frames) -> None:
        self._module, self._frames = module, frames
        self._loops = Loops(module)
        self._times: dict[str, Times] = {module.entry: Times(1)}

    def times(self, computation: str) -> Times:
        """Return how often a computation runs.

        Raises:
          ProgramError: Nothing calls it, so the text is not the whole program.
        """
        if computation not in self._times:
            calls = self._module.calls.get(computation)
            if not calls:
                raise ProgramError(
                    f"In the text of the program {self._module.name} nothing calls the "
                    f"computation {computation!r}, so that it is not known how often it runs. "
                    "Give all of what compiled.as_text() returns."
                )
            # A computation that called itself would find this.
            self._times[computation] = Times(None)
            found = [self._called(call) for call in calls]
            counts = [each.count for each in found]
            self._times[computation] = Times(
                None if None in counts else sum(count for count in counts if count is not None),
                any(each.branch for each in found),
            )
        return self._times[computation]

    def _called(self, call: Call) -> Times:
        outer = self.times(call.caller)
        if call.role == "calls" and self._module.begins_with(call, "fusion"):
            return outer
        found = self._module.instruction_at(call.start)
        if found is None:
            return Times(None, outer.branch)
        if call.role == "branch":
            return Times(outer.count, True)
        if call.role in ("body", "condition") and found.opcode == "while":
            turns = self._loops.turns(call.caller, found)
            if turns is None or outer.count is None:
                return Times(None, outer.branch)
            return Times(outer.count * (turns + (call.role == "condition")), outer.branch)
        if found.opcode in ("fusion", "call", "async-start"):
            return outer
        if found.opcode in ("async-update", "async-done"):
            return Times(0)
        # A reduction runs its function as often as it has numbers; what a custom call does with one is not known.
        return Times(None, outer.branch)

    def source(self, computation: str, attributes: str) -> Source:
        """Return where an instruction comes from; where it does not say so, where its fusion comes from."""
        found = self._frames.source(attributes)
        while not found.operation and not found.file:
            calls = self._module.calls.get(computation, [])
            outer = self._module.instruction_at(calls[0].start) if len(calls) == 1 else None
            if outer is None or outer.opcode not in ("fusion", "call", "async-start"):
                break
            computation = calls[0].caller
            found = self._frames.source(outer.attributes)
        return found

    def caller_attributes(self, computation: str) -> str:
        """Return the text behind the operands of a computation's only caller; empty without such a caller."""
        calls = self._module.calls.get(computation, [])
        outer = self._module.instruction_at(calls[0].start) if len(calls) == 1 else None
        return outer.attributes if outer is not None else ""
