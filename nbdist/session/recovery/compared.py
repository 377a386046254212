"""What the processes have sent in a cell that went well, compared: that needs no collective."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from nbdist.contract.iopub import CellStep
from nbdist.contract.sent import Sent

Place = tuple[int, int]


def have_sent_the_same(steps: Mapping[int, CellStep], everyone: Collection[int]) -> bool:
    """Whether all processes have sent the same programs; those that say nothing have sent none.

    Programs on devices of some processes alone can only be proven.

    Args:
      steps: What processes have said at the end of a cell. Those that have proven it say so, and are not compared.
      everyone: All processes that take part in collectives.
    """
    said = [step.sent for step in steps.values() if step.compared]
    if not said:
        return True
    facts = {(s.place, s.names, s.kinds) for s in said}
    complete = len(said) == len(steps) and steps.keys() >= set(everyone)
    return complete and len(facts) == 1 and not any(s.parts for s in said)


def place_of(steps: Mapping[int, CellStep]) -> Place | None:
    """After which program processes that have sent the same are in step; None where none has sent any."""
    return next((step.sent.place for step in steps.values() if step.compared), None)


def since(sent: Sent, in_step: Place | None) -> int:
    """How many programs a process has sent since all were in step.

    Args:
      sent: What it says, which counts from the last proof.
      in_step: After which program they were, as a comparison has shown since then.
    """
    if in_step is None or sent.generation != in_step[0]:
        return sent.programs
    return max(0, min(sent.programs, sent.serial - in_step[1]))
