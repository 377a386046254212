"""Processes that wait for a collective in which no other will take part.

One that has finished the cell, or was never in it, sends nothing more until the next one. Who has sent more
programs than such a process, and waits, waits in vain.
"""

from __future__ import annotations

import time
from collections.abc import Collection

from nbdist.cells.execution import Execution
from nbdist.contract.asides import Aside
from nbdist.contract.calls.stepping import AskSent
from nbdist.contract.sent import Sent
from nbdist.errors import NbdistError
from nbdist.quantities import count_text, processes_text
from nbdist.session.engine_group import EngineGroup
from nbdist.session.recovery.compared import since

ANSWER_SECONDS = 0.3
"""How long threads of processes may take to say what was sent; asked again later, where they take longer."""

LOOK_SECONDS = 0.01


def waits_in_vain(
    engines: EngineGroup, execution: Execution, waiting: Collection[int]
) -> str | None:
    """Says for what processes wait that does not come; None where it may come yet.

    Args:
      engines: The processes.
      execution: The cell.
      waiting: All that are still in its code; their main threads have waited for long.
    """
    if not engines.facts.workers.issuperset(waiting):
        return None
    done = engines.facts.workers - set(waiting) - set(engines.facts.lost)
    counts = _counts_of_idle(engines, execution, done)
    if not counts:
        return None
    fewest = min(counts.values())
    ahead = {
        p: sent for p, sent in _counts_of(engines, execution, waiting).items() if sent > fewest
    }
    if not ahead:
        return None
    behind = [p for p, sent in counts.items() if sent == fewest]
    return (
        f"waiting in vain: {processes_text(ahead)} sent {_programs(max(ahead.values()))} to all devices, "
        f"{processes_text(behind)} only {fewest or 'none'}, and will send no more in this cell"
    )


def _programs(count: int) -> str:
    return count_text(count, "program")


def _counts_of_idle(
    engines: EngineGroup, execution: Execution, done: Collection[int]
) -> dict[int, int]:
    """What processes have sent that are not in the code of the cell."""
    counts = {p: _sent(engines, execution.steps[p].sent) for p in done if p in execution.steps}
    try:
        for process_id in sorted(set(done) - counts.keys()):
            counts[process_id] = _sent(
                engines, engines.send(process_id, AskSent()).get(ANSWER_SECONDS)[0].sent
            )
    except (NbdistError, TimeoutError):
        return {}  # in another cell, or gone
    return {p: sent for p, sent in counts.items() if sent >= 0}


def _counts_of(
    engines: EngineGroup, execution: Execution, waiting: Collection[int]
) -> dict[int, int]:
    """What processes have sent whose main threads wait."""
    for process_id in waiting:
        execution.sent.pop(process_id, None)
    engines.link.agents.ask(Aside.COUNT, sorted(waiting))
    deadline = time.monotonic() + ANSWER_SECONDS
    while not execution.sent.keys() >= set(waiting) and time.monotonic() < deadline:
        time.sleep(LOOK_SECONDS)
    return {p: _sent(engines, execution.sent[p]) for p in waiting if p in execution.sent}


def _sent(engines: EngineGroup, state: Sent) -> int:
    """Programs on the devices of all since they were in step; less than none where nobody counts them."""
    return since(state, engines.in_step_at) if state.counted else -1
