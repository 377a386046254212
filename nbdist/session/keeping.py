"""What lets a session outlive its kernel: it is written down, and its running cells are taken up again."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace

from nbdist.cells.attached_cell import RegainedRun
from nbdist.cells.cellrun import CellHandle
from nbdist.cells.context import Ended
from nbdist.cells.execution import Cell
from nbdist.cells.facts import Facts
from nbdist.contract.asides import Aside
from nbdist.contract.calls.engine import Recall
from nbdist.contract.history import OpenCell
from nbdist.launch.model.plan import Plan
from nbdist.launch.sessions import recorded
from nbdist.quantities import processes_text
from nbdist.rules import Rules
from nbdist.session.engine_group import EngineGroup
from nbdist.session.recovery.context import cell_context
from nbdist.spelling import command

OnEnd = Callable[[Ended], Facts]


def write_down(engines: EngineGroup, *, session: str, asked: Plan, rules: Rules) -> str | None:
    """Has the session found from elsewhere.

    Returns:
      Why it cannot be, as a sentence; None when it can.
    """
    try:
        recorded.write_down(
            engines.link,
            session=session,
            asked=asked,
            answers=engines.answers,
            rules=rules,
        )
    except OSError as error:
        return (
            f"This session can be neither listed nor attached to: {error}. Set NBDIST_STATE to a folder that "
            "you can write to."
        )
    if engines.plan.keep:
        engines.link.own_agents.keep()
    return None


def take_up(
    engines: EngineGroup,
    cells: Iterable[OpenCell],
    *,
    besides: Collection[int],
    rules: Rules,
    ended: OnEnd,
) -> Iterator[RegainedRun]:
    """Follows the cells that another kernel has sent and that nobody follows.

    Args:
      engines: The processes.
      cells: As they were noted when they were sent.
      besides: Numbers of other kernels that live; they see to their own cells.
      rules: Of the session.
      ended: Called with their ends.

    Yields:
      Each as soon as it is followed.
    """
    for cell in cells:
        requests = {p: r for p, r in cell.requests.items() if p in engines.plan.hosts}
        if cell.kernel in besides or not requests:
            continue
        # Processes that have not got this cell count what they have sent from an earlier one on.
        engines.in_step_at = engines.in_step_at or cell.in_step
        context = cell_context(engines, requests, rules=rules, ended=ended)
        folder = context.folder / f"again-{time.time_ns()}"
        run = RegainedRun(
            Cell(number=cell.number, code=cell.code, offset=cell.offset),
            targets=sorted(requests),
            context=replace(context, folder=folder, in_step=None),
        )
        run.rejoin(
            cell,
            engines.link.connection,
            recall=lambda p, request: engines.send(p, Recall(request=request)),
            repeat=functools.partial(engines.link.agents.ask, Aside.REPEAT, sorted(requests))
            if engines.link.agents.all
            else None,
        )
        yield run


def say_running(runs: Iterable[RegainedRun]) -> list[str]:
    """A sentence for each cell that runs on."""
    said = []
    for run in runs:
        run.until_known()
        outcomes = CellHandle(run).outcomes
        still = [p for p, s in outcomes.items() if s.outcome == "running"]
        if still:
            verb = "runs" if len(still) == 1 else "run"
            said.append(
                f"{processes_text(still)} still {verb} cell {run.cell.number}: its output goes on below, "
                f"{command('sync')} waits for its end, {command('interrupt')} interrupts it."
            )
    return said


def say_kept(session: str) -> str:
    """How to come back to a session that outlives its kernel."""
    return (
        f"Session {session} is kept: {command('attach', session)} is back after a restart of this kernel, "
        f"{command('shutdown')} or nbdist stop {session} ends it."
    )
