"""Going on after a failure: lost processes are replaced, the others keep their variables."""

from __future__ import annotations

import time

from nbdist.engine_group import EngineGroup
from nbdist.errors import SessionError
from nbdist.launch.model.progress import Tell
from nbdist.launch.start.replace import end, meet_again, rebuild_strategy, replace
from nbdist.quantities import count_text, processes_text, seconds_text

BACK_SECONDS = 5.0
"""What a stuck process may take to come back from one more interrupt."""

REPORT_SECONDS = 3.0
"""What a process that has ended its cell may take to say so."""


def recover(crew: EngineGroup, *, tell: Tell) -> str:
    """Replaces lost workers and makes TensorFlow's strategy anew on all.

    Stuck processes are interrupted once more; those that do not come back are ended and replaced as well.

    Returns:
      One line: who was started again, who kept their variables, how long it took.

    Raises:
      SessionError: Another framework, or a process is in the middle of a cell.
      LaunchError: It did not succeed; the session stays out of step.
    """
    framework = crew.plan.framework
    if framework != "tensorflow":
        raise SessionError(
            f"The processes of this session ({framework}) cannot be brought in step without a restart: one alone "
            "needs it, and others were not joined by %dist_init. %dist_init --restart starts it afresh."
        )
    if not crew.plan.initialize:
        raise SessionError(
            "This session was started with --no-initialize: its strategy is your own."
        )
    started = time.monotonic()
    hopeless = _not_back(crew)
    refuse_busy(crew, hopeless)
    if hopeless:
        end(crew.link, hopeless)
    gone = hopeless | set(crew.facts.lost)
    # The workers of a lost evaluator are as good as before, and their models stay of use.
    workers = crew.facts.out_of_step or not gone or not crew.facts.workers.isdisjoint(gone)
    tell("joined", 0, len(crew.plan.workers) if workers else len(gone))
    if workers:
        meet_again(crew.link)
    if gone:
        replace(crew.link, gone, tell=tell)
    rebuild_strategy(crew.link, gone, workers=workers, tell=tell)
    crew.recovered()
    kept = sorted(crew.plan.hosts.keys() - gone)
    parts = []
    if workers:
        count = count_text(len(crew.plan.workers), "worker")
        parts.append(f"strategy made anew on {count}: make models anew under it, too")
    if gone:
        parts.append(f"{processes_text(gone)} started again, their variables are lost")
    if kept:
        parts.append(f"{processes_text(kept)} kept their variables")
    return f"{'; '.join(parts)}; {seconds_text(time.monotonic() - started)}"


def _not_back(crew: EngineGroup) -> set[int]:
    """The stuck processes that do not come back from one more interrupt."""
    stuck = {p for p in crew.facts.stuck if p not in crew.facts.lost and not _idle(crew, p)}
    if stuck:
        crew.interrupt(sorted(stuck))
    return _busy(crew, stuck, within_s=BACK_SECONDS)


def refuse_busy(crew: EngineGroup, hopeless: set[int]) -> None:
    """Lets pass when no worker is in a cell, those in `hopeless` aside.

    Raises:
      SessionError: One is; says in which cell.
    """
    others = crew.facts.workers - set(crew.facts.lost) - hopeless
    # A report from before the end of a cell may come after it.
    busy = _busy(crew, set(others), within_s=REPORT_SECONDS)
    if busy:
        activity = crew.monitor.activity(min(busy))
        cell = f"cell {activity.cell}" if activity and activity.cell is not None else "a cell"
        raise SessionError(
            f"{processes_text(busy)} still in {cell}; interrupt it first, or wait for its end with %sync."
        )


def _busy(crew: EngineGroup, process_ids: set[int], *, within_s: float) -> set[int]:
    """Those that do not become idle in time."""
    deadline = time.monotonic() + within_s
    busy = {p for p in process_ids if not _idle(crew, p)}
    while busy and time.monotonic() < deadline:
        time.sleep(0.05)
        busy = {p for p in busy if not _idle(crew, p)}
    return busy


def _idle(crew: EngineGroup, process_id: int) -> bool:
    activity = crew.monitor.activity(process_id)
    return activity is None or activity.state == "idle"
