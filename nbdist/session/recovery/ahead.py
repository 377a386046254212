"""Processes that wait for a collective in which no other will take part.

A process that has finished the cell, or was never in it, sends nothing more until the next cell. A process that
has sent more programs than such a one, and waits, waits in vain. Where all are in the cell and all wait, nobody
can tell: they may wait for a disk.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping

from nbdist.cells.execution import Execution
from nbdist.cells.outcome import place
from nbdist.cells.remedies import InVain
from nbdist.contract.asides import Aside
from nbdist.contract.calls.stepping import AskSent
from nbdist.contract.sent import Sent
from nbdist.errors import NbdistError
from nbdist.quantities import processes_text
from nbdist.session.engine_group import EngineGroup
from nbdist.session.recovery.compared import since
from nbdist.spelling import option

ANSWER_SECONDS = 0.3
"""How long threads of processes may take to say what was sent; if they take longer, they are asked again later."""

LOOK_SECONDS = 0.01


def waits_in_vain(
    engines: EngineGroup, execution: Execution, waiting: Collection[int]
) -> InVain | None:
    """Return for what processes wait in vain; None where it may still come.

    Args:
      engines: The processes.
      execution: The cell.
      waiting: All processes still in its code; their main threads have waited for long.
    """
    workers = engines.facts.workers
    if not workers.issuperset(waiting):
        return None
    done = workers - set(waiting) - set(engines.facts.lost)
    counts = _counts_of_idle(engines, execution, done)
    if done and not counts:
        return None
    before = dict(execution.sent)
    now = _ask(engines, execution, waiting)
    if not counts:
        still = now.keys() >= set(waiting) and all(before.get(p) == now[p] for p in waiting)
        return InVain(_all_wait(now), certain=False) if still else None
    fewest = min(counts.values())
    # A call that has not returned is not counted yet.
    ahead = [p for p, one in now.items() if _sent(engines, one) + one.calling > fewest]
    if not ahead:
        return None
    behind = {p for p, sent in counts.items() if sent == fewest}
    number, source = place(execution.outcomes()[min(ahead)].activity)
    what = source or ("the cell" if number is None else f"line {number}")
    everyone = f"{what} needs all {len(workers)} processes"
    if behind.isdisjoint(execution.targets):
        on = ",".join(map(str, sorted(execution.targets)))
        text = (
            f"{everyone} but ran on {processes_text(execution.targets)} only ({option('on')} {on}). "
            f"Run it without {option('on')}."
        )
    else:
        text = (
            f"{everyone} but {processes_text(behind)} left the cell without it, so that "
            f"{processes_text(ahead)} waited for nobody. All processes must call the same functions on "
            "global arrays."
        )
    return InVain(text, certain=True)


def _all_wait(states: Mapping[int, Sent]) -> str:
    lines = [
        "all processes wait, and nothing is computed or sent; an interrupt of the cell ends it"
    ]
    lines += [
        f"{processes_text([p])}   waits after it has raised {one.raising}"
        for p, one in sorted(states.items())
        if one.raising is not None
    ]
    return "\n".join(lines)


def _counts_of_idle(
    engines: EngineGroup, execution: Execution, done: Collection[int]
) -> dict[int, int]:
    """Return how many programs the processes that are not in the code of the cell have sent."""
    counts = {p: _sent(engines, execution.steps[p].sent) for p in done if p in execution.steps}
    try:
        for process_id in sorted(set(done) - counts.keys()):
            counts[process_id] = _sent(
                engines, engines.send(process_id, AskSent()).get(ANSWER_SECONDS)[0].sent
            )
    except (NbdistError, TimeoutError):
        return {}  # in another cell, or gone
    return {p: sent for p, sent in counts.items() if sent >= 0}


def _ask(engines: EngineGroup, execution: Execution, waiting: Collection[int]) -> dict[int, Sent]:
    """Return what processes with waiting main threads have sent."""
    for process_id in waiting:
        execution.sent.pop(process_id, None)
    engines.link.agents.ask(Aside.COUNT, sorted(waiting))
    deadline = time.monotonic() + ANSWER_SECONDS
    while not execution.sent.keys() >= set(waiting) and time.monotonic() < deadline:
        time.sleep(LOOK_SECONDS)
    return {p: execution.sent[p] for p in waiting if p in execution.sent}


def _sent(engines: EngineGroup, state: Sent) -> int:
    """Return how many programs on all devices were sent since all were in step; negative if nobody counts."""
    return since(state, engines.in_step_at) if state.counted else -1
