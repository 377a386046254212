"""Make the context of a cell from the processes it runs on, with remedies for those that do not leave the cell."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from nbdist.contract.calls.stepping import AskSent, Sent
from nbdist.contract.cells import OpenCell, Rules
from nbdist.contract.questions import Aside
from nbdist.errors import NbdistError
from nbdist.interrupts import kernel_ends
from nbdist.notation import processes_text
from nbdist.session.cells.context import (
    CellContext,
    EndOfCell,
    Remedies,
    nothing,
)
from nbdist.session.cells.execution import Execution
from nbdist.session.cells.facts import ProcessFacts
from nbdist.session.cells.outcome import place
from nbdist.session.cells.watch import InVain
from nbdist.session.engine_group import EngineGroup
from nbdist.session.recovery.after import join_proof
from nbdist.session.recovery.compared import since
from nbdist.spelling import option

ANSWER_SECONDS = 0.3
"""How long threads of processes may take to say what was sent; if they take longer, they are asked again later."""

LOOK_SECONDS = 0.01
"""How often to look whether they have said it."""


def waits_in_vain(
    engines: EngineGroup, execution: Execution, waiting: Collection[int]
) -> InVain | None:
    """Return for what processes wait in vain; None where it may still come.

    A process that has finished the cell, or was never in it, sends nothing more until the next cell. A process
    that has sent more programs than such a one, and waits, waits for a collective in which that one will not take
    part. Where all are in the cell and all wait, nobody can tell: they may wait for a disk.

    Args:
      engines: The processes.
      execution: The cell.
      waiting: All processes still in the cell's code; their main threads have waited for long.
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
    """Return how many programs each process outside the cell's code has sent; empty if one cannot say."""
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
    """Return what each process with a waiting main thread has sent, if its other threads say so in time."""
    for process_id in waiting:
        execution.sent.pop(process_id, None)
    engines.cluster.agents.ask(Aside.COUNT, sorted(waiting))
    deadline = time.monotonic() + ANSWER_SECONDS
    while not execution.sent.keys() >= set(waiting) and time.monotonic() < deadline:
        time.sleep(LOOK_SECONDS)
    return {p: execution.sent[p] for p in waiting if p in execution.sent}


def _sent(engines: EngineGroup, state: Sent) -> int:
    """Return how many programs on all devices were sent since all were in step; -1 if they are not counted."""
    return since(state, engines.in_step_at) if state.counted else -1


def remedies_for(engines: EngineGroup) -> Remedies:
    """Return the remedies for a cell's processes: all of them if the processes can prove that they are in step."""
    ask = engines.cluster.agents.ask
    always = Remedies(
        abandon=partial(ask, Aside.ABANDON),
        rescue=partial(ask, Aside.RESCUE),
        reply=engines.asides.reply,
    )
    if not engines.proves:
        return always
    return replace(
        always,
        join=partial(join_proof, engines),
        in_vain=partial(waits_in_vain, engines),
        free=partial(ask, Aside.FREE),
    )


LEAVE_SECONDS = 1.0
"""How long after an interrupt a request to end the kernel may come; Jupyter sends it a few milliseconds later."""


def cell_context(
    engines: EngineGroup,
    targets: Collection[int],
    *,
    rules: Rules,
    ended: Callable[[EndOfCell], ProcessFacts],
    began: Callable[[int, Sequence[int]], None] = nothing,
    requested: Callable[[OpenCell], None] = nothing,
) -> CellContext:
    """Return the context of one cell.

    Args:
      engines: The processes of the session.
      targets: The processes that run the cell.
      rules: The session's rules.
      ended: Takes the cell's end.
      began: As in `CellContext`.
      requested: As in `CellContext`.
    """
    return CellContext(
        cluster=engines.cluster,
        hosts=engines.plan.hosts,
        reports=engines.monitor,
        facts=engines.facts,
        interrupt=engines.interrupt,
        remedies=remedies_for(engines),
        folder=Path(engines.cluster.folder) / "output",
        grace_s=rules.grace_s,
        give_up_s=rules.give_up_s,
        next_number=engines.next_number,
        in_step=engines.in_step_at if engines.facts.workers.issubset(targets) else None,
        widgets=engines.widgets,
        earlier=engines.earlier,
        progress=lambda running: engines.health.note(ProcessFacts.in_cell, running),
        began=began,
        requested=requested,
        ended=ended,
        leaves=partial(_leaves, engines),
    )


def _leaves(engines: EngineGroup) -> bool:
    """Return whether to leave a kept session because the kernel ends; nothing more can be sent from here then."""
    if not engines.plan.keep or not kernel_ends(within_s=LEAVE_SECONDS):
        return False
    engines.turn.close()  # before the cell is left: the next kernel is to follow it
    return True
