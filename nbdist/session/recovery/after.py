"""Keeping the processes in step: at the end of a cell, and when a person asks for it."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from nbdist.contract.calls.stepping import AskSent, Prove
from nbdist.errors import GoneError, NbdistError, RecoveryError
from nbdist.interrupts import put_off, taken_by
from nbdist.launch.model.framework import framework_named
from nbdist.launch.model.happenings import StartProgress
from nbdist.session.cells.context import EndOfCell
from nbdist.session.cells.execution import Execution
from nbdist.session.cells.facts import ProcessFacts
from nbdist.session.engine_group import EngineGroup
from nbdist.session.recovery import strategy
from nbdist.session.recovery.controller import bring_back
from nbdist.session.recovery.settle import Settled, disproven, hindrance, mend, settle
from nbdist.session.recovery.waiting import not_back
from nbdist.spelling import command

T = TypeVar("T")

STATE_SECONDS = 10.0
"""How long a process that is in no cell may take to say what it has sent."""

LEFT_SECONDS = 0.5
"""The same for a kernel that has just come; another kernel sees to a busy process."""

IN_STEP = "in step: checked just now; nothing to do"

PROVE_SECONDS = 30.0
"""How long a process takes part in a proof in which others wait already."""


def after_cell(engines: EngineGroup, end: EndOfCell, *, automatic: bool) -> ProcessFacts:
    """Prove or repair after a cell that did not end alike on all; say what was done below its output."""
    if engines.facts.out_of_step and (end.looked or not automatic):
        return engines.facts
    settled = exclusive(engines, lambda: settle(engines, automatic=automatic, say=end.say))
    if end.clean:
        # Nothing stops who runs all cells: the next that counts on what has gone back is to ask first.
        settled = replace(settled, unsure={**settled.older, **settled.unsure})
    return replace(
        _learn(engines, settled, end.cell.number, end.say),
        diverged=settled.because or settled.why,
        forgotten=settled.lost,
        mixed=settled.mixed,
    )


def _learn(
    engines: EngineGroup, settled: Settled, cell: int, say: Callable[[str], None]
) -> ProcessFacts:
    if settled.why is not None:
        engines.health.note(ProcessFacts.unlike, cell, settled.why)
    else:
        engines.health.recovered(settled.done, unsure=settled.unsure)
        if settled.done is not None:
            say(settled.done)
    return engines.facts


def left_unsettled(engines: EngineGroup) -> bool:
    """Return whether an ended kernel has left idle processes without making sure that they are in step."""
    if engines.facts.out_of_step:
        return True
    there = sorted(engines.facts.workers - set(engines.facts.lost))
    try:
        for request in [engines.send(p, AskSent()) for p in there]:
            request.wait(LEFT_SECONDS)
            if not request.ready():
                return False  # in a cell of another kernel, which sees to it
            sent = request.get()[0].sent
            if sent.unsettled or sent.programs or sent.parts:
                return True
    except GoneError:
        return True  # it has ended just now
    return False


def make_sure(engines: EngineGroup, *, automatic: bool) -> str | None:
    """Prove or repair after a failure outside a cell, or after one process has computed alone.

    Returns:
      What was done, or why the processes are not in step; None when they are and nothing was done.
    """
    said: list[str] = []
    settled = exclusive(
        engines,
        lambda: settle(engines, automatic=automatic, say=said.append),
    )
    # Nobody has read yet what has become of these when the next cell comes; it may count on them.
    settled = replace(settled, unsure={**settled.older, **settled.unsure})
    _learn(engines, settled, engines.facts.last_cell, said.append)
    if settled.why is not None:
        said.append(f"the session is out of step: {settled.why}. {engines.facts.remedy}")
    return "\n".join(said) or None


def controller_brought_back(engines: EngineGroup) -> str:
    """Restart the controller of processes that cannot prove that they are in step; return what was done."""
    said: list[str] = []
    why = exclusive(engines, lambda: bring_back(engines, say=said.append))
    return "\n".join(said) if why is None else f"{why}. {engines.facts.remedy}"


def join_proof(engines: EngineGroup, execution: Execution) -> bool:
    """Make processes take part in a proof in which others wait at the end of a cell.

    Waiting processes that need only their own programs need nobody, if all others have sent the same.

    Args:
      engines: The processes.
      execution: The cell; its targets that are still in it have finished its code.

    Returns:
      Whether the wait can end by itself: all have sent equally many programs, or a proof has passed on one.
      Whether these were the same is compared afterwards, where it is a proof.
    """
    outcomes = execution.outcomes()
    waiting = {p for p, s in outcomes.items() if s.outcome == "running"}
    others = sorted(engines.facts.workers - waiting)
    compared = all(execution.steps[p].compared for p in waiting)
    if not others and not compared:
        return True  # the proof itself shows it; where it does not come back, its wait is ended
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
        return False  # it is gone, or in another cell; what it has sent nobody knows
    if compared:
        return len({(s.place, s.names, s.kinds) for s in states.values()}) == 1
    if any(states[process_id].proven == execution.number for process_id in others):
        return True  # all have taken part, and those that wait are about to see it
    if len({state.place for state in states.values()}) > 1:
        return False
    for process_id in others:
        engines.send(process_id, Prove(number=execution.number, timeout_s=PROVE_SECONDS))
    return True


def recover(engines: EngineGroup, *, progress: StartProgress) -> str:
    """Bring the processes in step where they are not; see `nbdist.session.recovery.settle` and `.strategy`.

    Returns:
      One line that says what was done.

    Raises:
      SessionError: A process is in the middle of a cell.
      RecoveryError: It did not succeed; the session stays as it is.
    """
    said: list[str] = []
    if engines.lost_controller:
        why = exclusive(engines, lambda: bring_back(engines, say=said.append))
        if why is not None:
            raise RecoveryError(f"{why}. {engines.facts.remedy}")
        if not engines.facts.lost and not engines.proves and not engines.facts.out_of_step:
            return "\n".join(said)
    if framework_named(engines.plan.framework).recovery != "in place" or not engines.proves:
        return "\n".join([*said, strategy.recover(engines, progress=progress)])
    if not engines.cluster.agents.all:
        return _proven_alone(engines, progress=progress)
    stuck = not_back(engines, say=_as_progress(engines, progress), interrupted=True)
    strategy.refuse_busy(engines, stuck)
    if not engines.facts.out_of_step:
        say = _as_progress(engines, progress)
        if exclusive(engines, lambda: disproven(engines, say=say)) is None:
            return "\n".join(said) or IN_STEP
    settled = exclusive(engines, lambda: mend(engines, say=said.append, stuck=stuck))
    _learn(engines, settled, engines.facts.last_cell, said.append)
    if settled.why is not None:
        raise RecoveryError(f"{settled.why}. {engines.facts.remedy}")
    return "\n".join(said)


def _proven_alone(engines: EngineGroup, *, progress: StartProgress) -> str:
    """Prove that processes which this kernel has not started are in step; it cannot repair them.

    Whoever has started them may have repaired them meanwhile.

    Raises:
      RecoveryError: They are not in step; says where they can be repaired.
    """
    why = hindrance(engines)
    if why is None:
        strategy.refuse_busy(engines, set())
        say = _as_progress(engines, progress)
        settled = exclusive(engines, lambda: settle(engines, automatic=False, say=say))
        _learn(engines, settled, engines.facts.last_cell, say)
        if settled.why is None:
            return settled.done or IN_STEP
        why = settled.why
    gone = engines.facts.workers.intersection(engines.facts.lost)
    # Of a session of nbdist's the record says so; of another cluster nothing does.
    again = f" Then leave them, with {command('shutdown')}, and attach again."
    then = again if gone and engines.cluster.turn_file else ""
    raise RecoveryError(f"{why}, and {strategy.NOT_OURS}. {engines.facts.remedy}{then}")


def _as_progress(engines: EngineGroup, progress: StartProgress) -> Callable[[str], None]:
    return lambda text: progress(text, 0, len(engines.facts.workers))


def exclusive(engines: EngineGroup, work: Callable[[], T]) -> T:
    """Do work that an interrupt of the notebook must not end halfway, on a thread of its own.

    The work ends by itself: everything it waits for has a time limit. An interrupt meanwhile only sets
    `engines.hurry`: the cell has failed already.
    """
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            with engines.settling:
                results.append(work())
        except BaseException as error:  # noqa: BLE001 - raised where it was asked for
            errors.append(error)

    context = contextvars.copy_context()  # with the door of who reads what is made there
    thread = threading.Thread(target=context.run, args=(run,), name="nbdist-settle", daemon=True)
    with put_off():
        engines.hurry.clear()
    with taken_by(engines.hurry.set):
        thread.start()
        thread.join()
    if errors:
        raise errors[0]
    return results[0]
