"""Recovery after a failure with TensorFlow: lost processes are replaced, the others keep their variables."""

from __future__ import annotations

import time

from nbdist.errors import SessionError
from nbdist.launch.model.framework import framework_named
from nbdist.launch.model.happenings import StartProgress
from nbdist.launch.start.replace import end, meet_again, rebuild_strategy, replace
from nbdist.notation import count_text, processes_text, seconds_text
from nbdist.session.cells.facts import ELSEWHERE
from nbdist.session.engine_group import EngineGroup
from nbdist.session.recovery.waiting import not_back
from nbdist.spelling import command, option, sentence

NOT_OURS = "this kernel has not started these processes, and cannot repair them"

REPORT_SECONDS = 3.0
"""How long a process that has ended its cell may take to say so."""

LOOK_SECONDS = 0.05
"""How often to look."""


def recover(engines: EngineGroup, *, progress: StartProgress) -> str:
    """Replace lost workers, and make the framework's strategy anew on all.

    Stuck processes are interrupted once more; those that do not come back are ended and replaced as well.

    Returns:
      One line: who was started again, who kept their variables, how long it took.

    Raises:
      SessionError: Another framework, or a process is in the middle of a cell, or somebody else has started them.
      LaunchError: It did not succeed; the session stays out of step.
    """
    framework = framework_named(engines.plan.framework)
    if not engines.cluster.agents.all:
        # Before any is ended that nobody here could start again.
        raise SessionError(f"T{NOT_OURS[1:]}. {sentence(ELSEWHERE)}")
    if framework.recovery != "strategy":
        why = (
            "there is only one, or they were not joined when they were started"
            if framework.recovery == "in place"
            else f"nbdist has no repair for {framework.title}"
        )
        raise SessionError(
            f"The processes of this session ({framework.name}) cannot be repaired in place: {why}. "
            f"{command('restart')} starts it afresh."
        )
    if not engines.plan.initialize:
        raise SessionError(
            f"This session was started with {option('initialize', False)}: you make its strategy yourself."
        )
    started = time.monotonic()
    hopeless = not_back(
        engines, say=lambda text: progress(text, 0, len(engines.facts.workers)), interrupted=True
    )
    refuse_busy(engines, hopeless)
    if hopeless:
        end(engines.cluster, hopeless)
    gone = hopeless | set(engines.facts.lost)
    # The workers of a lost evaluator are as good as before, and their models stay of use.
    workers = engines.facts.out_of_step or not gone or not engines.facts.workers.isdisjoint(gone)
    progress("joined", 0, len(engines.plan.workers) if workers else len(gone))
    if workers:
        meet_again(engines.cluster)
    if gone:
        replace(engines.cluster, gone, progress=progress)
    rebuild_strategy(engines.cluster, gone, workers=workers, progress=progress)
    engines.health.recovered()
    kept = sorted(engines.plan.hosts.keys() - gone)
    parts = []
    if workers:
        count = count_text(len(engines.plan.workers), "worker")
        parts.append(f"new strategy on {count}: create your models again under it")
    if gone:
        parts.append(f"{processes_text(gone)} started again, their variables are lost")
    if kept:
        parts.append(f"{processes_text(kept)} kept their variables")
    return f"{'; '.join(parts)}; {seconds_text(time.monotonic() - started)}"


def refuse_busy(engines: EngineGroup, hopeless: set[int]) -> None:
    """Raise if a worker is in a cell, except those in `hopeless`.

    Raises:
      SessionError: One is; says in which cell.
    """
    others = engines.facts.workers - set(engines.facts.lost) - hopeless
    # A report from before the end of a cell may come after it.
    busy = _busy(engines, set(others), within_s=REPORT_SECONDS)
    if busy:
        activity = engines.monitor.activity(min(busy))
        cell = f"cell {activity.cell}" if activity and activity.cell is not None else "a cell"
        raise SessionError(
            f"{processes_text(busy)} still in {cell}; interrupt it first, or wait for its end with "
            f"{command('sync')}."
        )


def _busy(engines: EngineGroup, process_ids: set[int], *, within_s: float) -> set[int]:
    """Return the processes that do not become idle in time."""
    deadline = time.monotonic() + within_s
    busy = {p for p in process_ids if not _idle(engines, p)}
    while busy and time.monotonic() < deadline:
        time.sleep(LOOK_SECONDS)
        busy = {p for p in busy if not _idle(engines, p)}
    return busy


def _idle(engines: EngineGroup, process_id: int) -> bool:
    activity = engines.monitor.activity(process_id)
    return activity is None or activity.state == "idle"
