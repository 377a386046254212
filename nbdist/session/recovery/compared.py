"""Comparison, without a collective, of what the processes have sent in a cell that went well."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from nbdist.contract.iopub import CellStep
from nbdist.contract.sent import Sent

Place = tuple[int, int]


def have_sent_the_same(steps: Mapping[int, CellStep], everyone: Collection[int]) -> bool:
    """Return whether all processes have sent the same programs; a process that says nothing has sent none.

    Programs on devices of only some processes can only be proven.

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
    """Return after which program processes that sent the same are in step; None where none has sent any."""
    return next((step.sent.place for step in steps.values() if step.compared), None)


def since(sent: Sent, in_step: Place | None) -> int:
    """Return how many programs a process has sent since all were in step.

    Args:
      sent: Its own count, from the last proof on.
      in_step: After which program they were in step, as a later comparison has shown.
    """
    if in_step is None or sent.generation != in_step[0]:
        return sent.programs
    return max(0, min(sent.programs, sent.serial - in_step[1]))
