"""Going on after a failure: the processes are proven to be in step, repaired where they are, or replaced.

What comes in: a cell that did not end alike on all processes, the end of a process or of a service, or a person's
`%dist_recover`. What goes out: processes that are in step, or a sentence that says why they are not. The functions
here are the entry points: a cell's context, a cell's end, and a person's request.

Read after this `recovery.py`, the interface, with TensorFlow's way and that of processes which cannot be repaired,
and `in_place.py`, the way of JAX and Keras.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from nbdist.contract.calls.stepping import AskSent
from nbdist.contract.cells import OpenCell
from nbdist.errors import GoneError, Notice
from nbdist.interrupts import kernel_ends
from nbdist.launch.model.framework import framework_named
from nbdist.launch.model.happenings import StartProgress
from nbdist.launch.model.start_options import Rules
from nbdist.notation import capital
from nbdist.session.cells.facts import ProcessFacts
from nbdist.session.cells.supervisor import CellContext, EndOfCell, nothing
from nbdist.session.engine_group import EngineGroup
from nbdist.session.recovery.in_place import IN_STEP, InPlace, learn, not_recovered
from nbdist.session.recovery.recovery import NewStrategy, SessionRecovery
from nbdist.session.recovery.repair import bring_back

LEFT_SECONDS = 0.5
"""Seconds a process may take to say what it has sent; a busy one is left to the kernel whose cell it runs."""


def after_cell(engines: EngineGroup, end: EndOfCell, *, automatic: bool) -> ProcessFacts:
    """Prove or repair after a cell that did not end alike on all; the facts say what was done."""
    if engines.facts.out_of_step and (end.began_out_of_step or not automatic):
        return engines.facts
    settled = engines.exclusive(
        lambda: recovery_of(engines).prove(automatic=automatic, say=end.say)
    )
    if end.clean:
        # When all cells are run, nobody reads this in time: the next cell that uses a rolled-back array is refused
        # once.
        settled = replace(settled, unsure={**settled.older, **settled.unsure})
    return replace(
        learn(engines, settled, end.cell.number),
        diverged=settled.because or settled.why,
        differ=settled.differ,
        forgotten=settled.lost,
        mixed=settled.mixed,
    )


def left_unsettled(engines: EngineGroup) -> bool:
    """Return whether an ended kernel has left idle processes without a proof that they are in step."""
    if engines.facts.out_of_step:
        return True
    there = sorted(engines.facts.workers - set(engines.facts.lost))
    try:
        for request in [engines.send(p, AskSent()) for p in there]:
            request.wait(LEFT_SECONDS)
            if not request.ready():
                return False  # in a cell of another kernel, which takes care of it
            sent = request.get()[0].sent
            if sent.unsettled or sent.programs or sent.parts:
                return True
    except GoneError:
        return True  # a process has just ended
    return False


def ensure_in_step(engines: EngineGroup, *, automatic: bool) -> str | None:
    """Prove or repair after a failure outside a cell, or after one process has computed alone.

    Returns:
      What was done, or why the processes are not in step; None if they are and nothing was done.
    """
    said: list[str] = []
    settled = engines.exclusive(
        lambda: recovery_of(engines).prove(automatic=automatic, say=said.append)
    )
    # The next cell may use these names before a person has read what happened to them.
    settled = replace(settled, unsure={**settled.older, **settled.unsure})
    facts = learn(engines, settled, engines.facts.last_cell)
    notice = settled.done
    if settled.why is not None:
        title = f"The session is out of step: {settled.why}."
        notice = Notice(level="bad", title=title, text="", do=facts.remedy, code="out of step")
    if notice is None and said:
        notice = Notice(level="warn", title=capital(f"{said.pop()}."), text="", code="in step")
    return None if notice is None else str(engines.noticed(notice, said))


def restore_controller(engines: EngineGroup) -> str:
    """Restart the controller of processes that cannot prove that they are in step; return what was done."""
    said: list[str] = []
    why = engines.exclusive(lambda: bring_back(engines, say=said.append))
    return "\n".join(said) if why is None else f"{why}. {engines.facts.remedy}"


def recovery_of(engines: EngineGroup) -> SessionRecovery:
    """Return the recovery for these processes, by their framework."""
    if engines.proves:
        return InPlace(engines)
    if framework_named(engines.plan.framework).recovery == "strategy":
        return NewStrategy(engines)
    return SessionRecovery(engines)


def recover(engines: EngineGroup, *, progress: StartProgress) -> Notice:
    """Bring the processes in step if they are not; see `SessionRecovery.restore`."""
    said: list[str] = []
    if engines.lost_controller:
        why = engines.exclusive(lambda: bring_back(engines, say=said.append))
        if why is not None:
            raise not_recovered(engines, why)
        if not engines.facts.lost and not engines.proves and not engines.facts.out_of_step:
            return engines.noticed(replace(IN_STEP, title=capital(f"{said.pop()}.")), said)
    return engines.noticed(recovery_of(engines).restore(progress=progress), said)


LEAVE_SECONDS = 1.0
"""Seconds after an interrupt in which a request to end the kernel may arrive; Jupyter sends it milliseconds
later."""


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
        remedies=recovery_of(engines).free(),
        folder=Path(engines.cluster.folder) / "output",
        grace_s=rules.grace_s,
        give_up_s=rules.give_up_s,
        next_number=engines.next_number,
        in_step=engines.in_step_at if engines.facts.workers.issubset(targets) else None,
        widgets=engines.widgets,
        earlier=engines.earlier,
        progress=lambda running, at: engines.health.note(ProcessFacts.in_cell, running, at),
        began=began,
        requested=requested,
        ended=ended,
        noticed=engines.noticed,
        leaves=partial(_leaves, engines),
    )


def _leaves(engines: EngineGroup) -> bool:
    """Return whether to leave a kept session because the kernel ends; then nothing more can be sent from here."""
    if not engines.plan.keep or not kernel_ends(within_s=LEAVE_SECONDS):
        return False
    engines.turn.close()  # before the cell is left, since the next kernel is to follow it
    return True
