"""Waiting for what all processes have sent: a cut would lose it, and a proof would be asked for in vain."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from nbdist.contract.calls.stepping import AskUnderWay, Trail
from nbdist.quantities import processes_text
from nbdist.session.engine_group import EngineGroup
from nbdist.session.recovery.asking import ask_all
from nbdist.session.recovery.versions import common_serial

States = Mapping[int, Trail]
"""What each process says it has sent, by process id."""

ANSWER_SECONDS = 10.0
"""How long a process that is in no cell may take to answer."""

LOOK_SECONDS = 0.05

STILL_SECONDS = 1.0
"""After so long in which nobody has computed or received anything, it waits for what does not come."""

LIMIT_SECONDS = 300.0

SAY_SECONDS = 2.0


def until_computed(engines: EngineGroup, states: States, *, say: Callable[[str], None]) -> None:
    """Waits until the programs that all processes have sent are computed, as long as they get on with them.

    Args:
      engines: Processes of which none is in a cell.
      states: What each has said just now.
      say: Gets a line when it takes longer. An interrupt ends the wait.

    Raises:
      RecoveryError: One did not answer.
    """
    common = common_serial(states.values())
    # Who said that nothing of it is left is not asked again.
    if not any(_is_left(state, common) for state in states.values()):
        return
    began = moved = time.monotonic()
    before: dict[int, tuple[int, int]] = {}
    said = False
    while not engines.hurry.is_set():
        answers = ask_all(engines, AskUnderWay(common=common), within_s=ANSWER_SECONDS, of=states)
        waiting = sorted(p for p, answer in answers.items() if answer.arrays)
        now = time.monotonic()
        progress = {p: answer.progress for p, answer in answers.items()}
        if progress != before:
            before, moved = progress, now
        if not waiting or now - moved > STILL_SECONDS or now - began > LIMIT_SECONDS:
            return
        if not said and now - began > SAY_SECONDS:
            said = True
            verb = "computes" if len(waiting) == 1 else "compute"
            who = f"{processes_text(waiting)} still {verb} what all have sent"
            say(f"{who}; waiting for it (an interrupt ends the wait)")
        engines.hurry.wait(LOOK_SECONDS)


def _is_left(state: Trail, common: int) -> bool:
    return state.earliest is not None and state.earliest <= common
