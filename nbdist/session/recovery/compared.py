"""What the processes have sent in a cell that went well, compared: that needs no collective."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from nbdist.cells.execution import place

State = Mapping[str, Any]
Place = tuple[int, int]


def have_sent_the_same(steps: Mapping[int, State], everyone: Collection[int]) -> bool:
    """Whether all processes have sent the same programs; those that say nothing have sent none.

    Programs on devices of some processes alone can only be proven.

    Args:
      steps: What processes have said at the end of a cell. Those that have proven it say so, and are not compared.
      everyone: All processes that take part in collectives.
    """
    said = [state for state in steps.values() if state.get("compared")]
    if not said:
        return True
    facts = {(place(s), s["names"], s["kinds"]) for s in said}
    complete = len(said) == len(steps) and steps.keys() >= set(everyone)
    return complete and len(facts) == 1 and not any(s["parts"] for s in said)


def place_of(steps: Mapping[int, State]) -> Place | None:
    """After which program processes that have sent the same are in step; None where none has sent any."""
    return next((place(state) for state in steps.values() if state.get("compared")), None)


def since(state: State, in_step: Place | None) -> int:
    """How many programs a process has sent since all were in step.

    Args:
      state: What it says, which counts from the last proof.
      in_step: After which program they were, as a comparison has shown since then.
    """
    sent = int(state["programs"])
    if in_step is None or place(state)[0] != in_step[0]:
        return sent
    return max(0, min(sent, place(state)[1] - in_step[1]))
