"""`SessionRecovery`: how the processes of a session are kept in step, or replaced, for each kind of framework.

The base class is for processes that only a restart brings in step; `NewStrategy` is for TensorFlow, and `InPlace`
in `in_place.py` for JAX and Keras. For processes that do not leave a cell, `waits_in_vain` says what they wait
for, and `join_proof` makes others take part in the proof in which they wait.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial

from nbdist.contract.asides import Abandon, Count, Rescue
from nbdist.contract.calls.stepping import AskSent, Prove, Sent
from nbdist.contract.cells import Doubt
from nbdist.errors import NbdistError, Notice, SessionError
from nbdist.launch.model.framework import framework_named
from nbdist.launch.model.happenings import StartProgress
from nbdist.launch.start.connect import (
    end_processes,
    replace_processes,
)
from nbdist.launch.start.initialize import meet_again, rebuild_strategy
from nbdist.notation import capital, count_text, processes_text, seconds_text
from nbdist.session.cells.execution import Execution
from nbdist.session.cells.facts import ELSEWHERE
from nbdist.session.cells.outcome import place
from nbdist.session.cells.supervisor import Remedies
from nbdist.session.cells.watch import InVain
from nbdist.session.engine_group import EngineGroup
from nbdist.session.recovery.compared import programs_since
from nbdist.session.recovery.waiting import NOT_OURS, not_back, refuse_unfinished
from nbdist.spelling import command, option, sentence

Say = Callable[[str], None]
"""Called with lines of text while something takes long."""


@dataclass(frozen=True, slots=True)
class Settled:
    """The result of a proof or repair: the processes are in step unless `why` says why not.

    Attributes:
      why: Why they are not in step.
      because: Why they were not in step when the proof or repair began.
      differ: Whether that was because they had sent different programs, and not because of an end or a silence.
      mixed: Whether programs that did not belong together may have computed together, so that numbers were wrong.
      done: What was done, and what is not as before; None if nothing was done.
      unsure: Names whose values on new processes may differ from those on the ended ones, each with the reason.
      older: Names of arrays that were rolled back to their copies, each with the cell of these copies.
    """

    why: str | None = None
    because: str | None = None
    differ: bool = False
    mixed: bool = False
    done: Notice | None = None
    unsure: Mapping[str, Doubt] = field(default_factory=dict)
    older: Mapping[str, Doubt] = field(default_factory=dict)

    @property
    def lost(self) -> tuple[str, ...]:
        """The paths of arrays that were lost."""
        return () if self.done is None else self.done.lost


class SessionRecovery:
    """Recovery of processes that only a restart brings in step again, such as a single one.

    Args:
      engines: The processes.
    """

    def __init__(self, engines: EngineGroup) -> None:
        self._engines = engines

    def prove(self, *, automatic: bool, say: Say) -> Settled:
        """Prove that all are in step after a cell, or repair them.

        The base class compares nothing, and returns what is known from the last cell.

        Args:
          automatic: Whether they may be repaired without a person's request.
          say: Called with lines while it lasts.
        """
        return Settled(why=self._engines.facts.why)

    def free(self) -> Remedies:
        """Return the means, besides an interrupt, for processes that do not leave a cell."""
        return basic_remedies(self._engines)

    def restore(self, *, progress: StartProgress) -> Notice:
        """Bring all in step because a person asks for it, and start others in place of ended ones.

        Returns:
          What was done, and what is not as before.

        Raises:
          NbdistError: It is not possible (in the base class always), or failed; the session stays as it is.
        """
        engines = self._engines
        framework = framework_named(engines.plan.framework)
        self._refuse_not_ours()
        why = (
            "there is only one, or they were not joined when they were started"
            if framework.recovery == "in place"
            else f"nbdist has no repair for {framework.title}"
        )
        raise SessionError(
            f"The processes of this session ({framework.name}) cannot be repaired in place: {why}. "
            f"{command('restart')} starts it afresh."
        )

    def _refuse_not_ours(self) -> None:
        """Refuse processes that somebody else has started, before any is ended: nobody here can start it again."""
        if not self._engines.cluster.agents.all:
            raise SessionError(f"{NOT_OURS.capitalize()}. {sentence(ELSEWHERE)}")


class NewStrategy(SessionRecovery):
    """Recovery with TensorFlow: lost processes are replaced, and the others keep their variables."""

    def restore(self, *, progress: StartProgress) -> Notice:
        """Replace lost processes, and create the framework's strategy anew; see `SessionRecovery.restore`.

        Stuck processes are interrupted once more; those that do not come back are ended and replaced as well.

        Raises:
          SessionError: A process is in the middle of a cell, or somebody else has started them.
          LaunchError: It did not succeed; the session stays out of step.
        """
        engines = self._engines
        self._refuse_not_ours()
        if not engines.plan.initialize:
            raise SessionError(
                f"This session was started with {option('initialize', False)}: you make its strategy yourself."
            )
        started = time.monotonic()
        hopeless = not_back(
            engines,
            say=lambda text: progress(text, 0, len(engines.facts.workers)),
            interrupted=True,
        )
        refuse_unfinished(engines, hopeless)
        if hopeless:
            end_processes(engines.cluster, hopeless)
        gone = hopeless | set(engines.facts.lost)
        # If only an evaluator was lost, the workers and their models need no new strategy.
        workers = (
            engines.facts.out_of_step or not gone or not engines.facts.workers.isdisjoint(gone)
        )
        progress("joined", 0, len(engines.plan.workers) if workers else len(gone))
        if workers:
            meet_again(engines.cluster)
        if gone:
            replace_processes(engines.cluster, gone, progress=progress)
        rebuild_strategy(engines.cluster, gone, workers=workers, progress=progress)
        engines.health.recovered()
        kept = sorted(engines.plan.hosts.keys() - gone)
        was = "was replaced" if len(gone) == 1 else "were replaced"
        done = [f"{processes_text(gone)} {was}"] if gone else []
        if workers:
            done.append(f"the strategy is new on {count_text(len(engines.plan.workers), 'worker')}")
        seconds = seconds_text(time.monotonic() - started)
        means = [f"The variables of {processes_text(gone)} are lost."] if gone else []
        if kept:
            means.append(f"{capital(processes_text(kept))} kept their variables.")
        return Notice(
            level="warn",
            title=f"{capital(' and '.join(done))} in {seconds}.",
            text=" ".join(means),
            do="Create your models again under the new strategy." if workers else "",
            code="repaired",
        )


ANSWER_SECONDS = 0.3
"""Seconds threads of processes may take to say what was sent; slower ones are asked again later."""

LOOK_SECONDS = 0.01
"""How often to look whether they have answered."""


def waits_in_vain(
    engines: EngineGroup, execution: Execution, waiting: Collection[int]
) -> InVain | None:
    """Return what processes wait for in vain; None if it may still arrive.

    A process that has finished the cell, or was never in it, sends nothing more until the next cell. A waiting
    process that has sent more programs than such a process waits for a collective in which that process will not
    take part. If all are in the cell and all wait, the cause is uncertain: they may wait for a disk.

    Args:
      engines: The processes.
      execution: The cell.
      waiting: All processes still in the cell's code; their main threads have waited for a long time.
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
    # A call that has not returned is not in the count yet.
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
            f"{everyone} but {processes_text(behind)} left the cell without it. All processes must call the "
            "same functions on global arrays."
        )
    return InVain(text, certain=True)


def _all_wait(states: Mapping[int, Sent]) -> str:
    lines = ["all processes wait, and nothing is computed or sent"]
    lines += [
        f"{processes_text([p])}   waits after it has raised {one.raising}"
        for p, one in sorted(states.items())
        if one.raising is not None
    ]
    return "\n".join(lines)


def _counts_of_idle(
    engines: EngineGroup, execution: Execution, done: Collection[int]
) -> dict[int, int]:
    """Return how many programs each process outside the cell's code has sent; empty if a process cannot say."""
    counts = {p: _sent(engines, execution.steps[p].sent) for p in done if p in execution.steps}
    try:
        for process_id in sorted(set(done) - counts.keys()):
            counts[process_id] = _sent(
                engines, engines.send(process_id, AskSent()).get(ANSWER_SECONDS)[0].sent
            )
    except (NbdistError, TimeoutError):
        return {}  # a process is in another cell, or gone
    return {p: sent for p, sent in counts.items() if sent >= 0}


def _ask(engines: EngineGroup, execution: Execution, waiting: Collection[int]) -> dict[int, Sent]:
    """Return what each waiting process has sent, if another thread of it answers in time."""
    for process_id in waiting:
        execution.sent.pop(process_id, None)
    engines.cluster.agents.ask(Count(), sorted(waiting))
    deadline = time.monotonic() + ANSWER_SECONDS
    while not execution.sent.keys() >= set(waiting) and time.monotonic() < deadline:
        time.sleep(LOOK_SECONDS)
    return {p: execution.sent[p] for p in waiting if p in execution.sent}


def _sent(engines: EngineGroup, state: Sent) -> int:
    """Return how many programs on all devices were sent since all were in step; -1 if they are not counted."""
    return programs_since(state, engines.in_step_at) if state.counted else -1


def basic_remedies(engines: EngineGroup) -> Remedies:
    """Return the remedies that need no proof."""
    ask = engines.cluster.agents.ask
    return Remedies(
        abandon=partial(ask, Abandon()),
        rescue=partial(ask, Rescue()),
        reply=engines.asides.reply,
    )


STATE_SECONDS = 10.0
"""Seconds an idle process may take to say what it has sent."""

PROVE_SECONDS = 30.0
"""Seconds a process may take for a proof in which others already wait."""


def join_proof(engines: EngineGroup, execution: Execution) -> bool:
    """Make processes take part in a proof in which others wait at the end of a cell.

    If the waiting processes compare their programs, no proof is needed, and the result says whether all have sent
    the same.

    Args:
      engines: The processes.
      execution: The cell; its targets that are still in it have finished its code.

    Returns:
      Whether the wait can end by itself: all have sent equally many programs, or the proof has passed on a
      process. After a proof, whether the programs were the same is compared separately.
    """
    outcomes = execution.outcomes()
    waiting = {p for p, s in outcomes.items() if s.outcome == "running"}
    others = sorted(engines.facts.workers - waiting)
    compared = all(execution.steps[p].compared for p in waiting)
    if not others and not compared:
        return True  # the proof itself will show it; if it does not return, its wait is ended
    if engines.facts.workers.intersection(engines.facts.lost) or any(
        s.outcome == "gone" for s in outcomes.values()
    ):
        return False
    states = {p: execution.steps[p].sent for p in waiting}
    try:
        for process_id in others:
            said = execution.steps.get(process_id) if compared else None
            states[process_id] = (
                said.sent
                if said is not None
                else engines.send(process_id, AskSent()).get(STATE_SECONDS)[0].sent
            )
    except (NbdistError, TimeoutError):
        return False  # it is gone, or in another cell, so that what it has sent is unknown
    if compared:
        return len({(s.place, s.names, s.kinds) for s in states.values()}) == 1
    if any(states[process_id].proven == execution.number for process_id in others):
        return True  # all have taken part, and the waiting ones are about to see that
    if len({state.place for state in states.values()}) > 1:
        return False
    for process_id in others:
        engines.send(process_id, Prove(number=execution.number, timeout_s=PROVE_SECONDS))
    return True
