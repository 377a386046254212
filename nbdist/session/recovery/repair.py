"""Repair of all processes in place, and of ipyparallel's controller; the processes keep all that they hold.

`bring_back` starts a controller in place of an ended one. `repair` gives all processes a new coordination service
and new back ends, and keeps their Python objects.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import partial

from nbdist.contract.asides import Abandon, Cut, Free, Repeat
from nbdist.contract.calls.stepping import (
    NOT_SENT,
    AskSent,
    Leave,
    Prove,
    Rejoin,
    Restore,
    Save,
    SavedForRepair,
)
from nbdist.contract.cells import Doubt
from nbdist.contract.events import Coordinating
from nbdist.errors import LaunchError, Notice, RecoveryError
from nbdist.launch.model.framework import framework_named
from nbdist.launch.start import initialize
from nbdist.launch.start.connect import restart_controller, unanswered
from nbdist.notation import bytes_text, capital, processes_text, seconds_text
from nbdist.session.asking import ANSWER_SECONDS, LOOK_SECONDS, ask_all
from nbdist.session.engine_group import EngineGroup
from nbdist.session.recovery.compared import common_serial, disagreeing
from nbdist.session.recovery.consequences import Consequences, lost_in_part
from nbdist.session.recovery.replacing import (
    LiveProcesses,
    bring,
    copy_arrays_after_repair,
    doubts,
    forgotten_in_part,
    join_call,
    name_lost,
    roll_back,
    sources,
    start_again,
)
from nbdist.session.recovery.waiting import States, until_computed
from nbdist.session.values.namespace import ask_things

SAVE_SECONDS = 300.0
"""Seconds the copies of all arrays may take; this includes the wait for computations that were sent."""

LEAVE_SECONDS = 60.0
"""Seconds for taking a back end down; it takes a tenth of a second."""

REJOIN_SECONDS = 60.0
"""Seconds the processes may take to find each other again; they take a tenth of a second."""

RESTORE_SECONDS = 300.0
"""Seconds for making everything anew; a heap of a million objects takes seconds."""

PROVE_SECONDS = 20.0

NOT_BACK = "did not stop when interrupted"
"""Why a process that had not ended by itself was ended."""


@dataclass(frozen=True, slots=True)
class Repaired:
    """The result of a repair.

    Attributes:
      done: What was done, and what is not as before.
      unsure: See `nbdist.session.recovery.replacing.doubts`.
      older: The names of arrays rolled back to their copies; see `RolledBack.names`.
    """

    done: Notice
    unsure: Mapping[str, Doubt]
    older: Mapping[str, Doubt]


def repair(
    engines: EngineGroup,
    *,
    number: int,
    say: Callable[[str], None],
    states: States | None = None,
    gone: AbstractSet[int] = frozenset(),
) -> Repaired:
    """Bring all processes in step; their variables stay.

    Args:
      engines: Processes of which none is in a cell.
      number: The number of the proof at its end.
      say: Called with lines while the repair lasts.
      states: What the processes have reported to have sent, if still valid; None: they are asked.
      gone: Processes that have ended, or are to be ended, and are replaced.

    Raises:
      RecoveryError: The repair failed; the text says on which process.
      LaunchError: An ended process could not be replaced.
    """
    started = time.monotonic()
    living = engines.facts.workers - set(gone)
    ended = {p: engines.facts.lost.get(p, NOT_BACK) for p in sorted(gone)}
    cluster, plan = engines.cluster, engines.plan
    first = plan.processes[0].process_id
    services = cluster.agents.of(first).numbers(Coordinating)
    if states is None:
        states = ask_all(engines, AskSent(), within_s=ANSWER_SECONDS, of=living)
    common = common_serial(states.values())
    until_computed(engines, states, say=say)
    cut = partial(cluster.agents.ask, Cut())
    cut(sorted(living))
    service = initialize.ask_for_service(cluster, again=True)
    # New processes start in the meantime.
    things = ask_things(
        LiveProcesses(engines),
        sources(engines, gone) if gone else (),
        key=str(engines.next_number()),
    )
    before = start_again(engines, gone) if gone else {}
    # A program queued behind the one that was cut connects anew and waits in vain too, so the cut is repeated.
    saved = ask_all(engines, Save(common=common), within_s=SAVE_SECONDS, meanwhile=cut, of=living)
    _say_disk(engines, saved, say)
    mixed = disagreeing({p: answer.versions for p, answer in saved.items()}, common=common)
    initialize.wait_for_service(cluster, service)
    # From here on processes wait for each other, now that all are known to take part.
    ask_all(engines, Leave(), within_s=LEAVE_SECONDS, of=living)
    generation = 1 + max(answer.versions.generation for answer in saved.values())
    joined = ask_all(
        engines,
        {
            p.process_id: join_call(engines, p.process_id)
            if p.process_id in gone
            else Rejoin(
                arguments={
                    **framework_named(plan.framework).rejoin(plan, p, cluster.rendezvous),
                    "initialization_timeout": int(REJOIN_SECONDS) - 10,
                }
            )
            for p in plan.processes
        },
        within_s=REJOIN_SECONDS,
    )
    restored = ask_all(
        engines,
        Restore(
            lost=mixed.paths,
            unnamed=mixed.unnamed,
            generation=generation,
        ),
        within_s=RESTORE_SECONDS,
        of=living,
    )
    brought = bring(engines, before, things, generation=generation)
    missing = lost_in_part(brought)
    gone_paths = {name for answer in restored.values() for name in answer.lost} | set(mixed.paths)
    in_part = forgotten_in_part(engines, missing, known=gone_paths)
    gone_paths |= in_part.keys()
    returned = roll_back(engines, gone_paths, new=gone)
    ports = {p: answer.ports for p, answer in restored.items()}
    engines.meet(ports | {p: joined[p].ports or () for p in gone})
    answers = ask_all(
        engines,
        Prove(number=number, timeout_s=PROVE_SECONDS, compared=True),
        within_s=PROVE_SECONDS + 10,
    )
    if not all(answer.passed for answer in answers.values()):
        raise RecoveryError("the processes are not in step after the repair")
    doubted = doubts(brought)
    if gone:
        # Another kernel that finds the new processes must know of these doubts, even if this kernel ends now.
        engines.health.on_doubt({**engines.facts.unsure, **doubted})
        engines.replaced({p: joined[p] for p in gone})
        without_copies = copy_arrays_after_repair(engines, returned)
        if without_copies is not None:
            say(without_copies)
    # Services of failed repairs are ended as well.
    for earlier in services - {service}:
        initialize.end_service(cluster, earlier)
    means = Consequences(
        lost=gone_paths - returned.paths,
        in_part=in_part,
        ended=ended,
        unread={
            path: f"its values could not be read on {engines.where(p)}: {why}"
            for p, answer in saved.items()
            for path, why in answer.versions.reasons.items()
            if why != NOT_SENT
        },
        returned=returned,
        brought=brought,
        doubted=doubted,
        stale={name for answer in restored.values() for name in answer.stale},
    )
    name_lost(engines, means)
    seconds = seconds_text(time.monotonic() - started)
    if gone:
        was = f"was replaced in {seconds}" if len(gone) == 1 else f"were replaced in {seconds}"
        title = f"{capital(processes_text(gone))} {was}."
    else:
        title = f"The session was repaired in {seconds}."
    return Repaired(
        done=means.notice(title, code="repaired", made_in=engines.made_in),
        unsure=doubted,
        older=returned.names,
    )


def _say_disk(
    engines: EngineGroup, saved: Mapping[int, SavedForRepair], say: Callable[[str], None]
) -> None:
    """Report the processes on which memory was too small for the copies."""
    remarks = []
    for process_id, answer in saved.items():
        if answer.on_disk:
            remarks.append(
                f"{engines.where(process_id)}: {bytes_text(answer.on_disk)} of "
                f"{bytes_text(answer.nbytes)} are written to disk, since only {bytes_text(answer.free)} of "
                "memory are free"
            )
    if remarks:
        say("\n".join(["the repair takes longer:", *(f"   {r}" for r in remarks)]))


REPORT_SECONDS = 5.0
"""Seconds processes may take to report through the new controller; they reconnect within a tenth of a second."""

CONTROLLER_SECONDS = 20.0
"""Seconds an idle process may take to answer through the new controller."""

BACK_SECONDS = 5.0
"""Seconds a process may take to come back from the interrupt of a cell whose answer is lost."""

AGAIN_SECONDS = 1.0
"""How often such a process is interrupted again, and freed from a collective that others have left."""

MOST_CONTROLLERS = 3
"""How many controllers are started in succession, if each one ends at once."""

CONTROLLER_ENDED = "the controller of ipyparallel has ended"


def bring_back(engines: EngineGroup, *, say: Callable[[str], None]) -> str | None:
    """Start the controller again if it has ended.

    Processes in the middle of a cell are interrupted, since the cell's answer is lost.

    Args:
      engines: The processes.
      say: Called with a line when the controller has been started again.

    Returns:
      Why the processes cannot be asked for anything; None if they can.
    """
    began, first = time.monotonic(), engines.lost_controller
    for _ in range(MOST_CONTROLLERS):
        if engines.lost_controller is None:
            break
        why = _start_another(engines)
        if why is not None:
            engines.cut_off()
            return f"{CONTROLLER_ENDED}, and {why}"
    if engines.lost_controller is not None:
        engines.cut_off()
        return f"{CONTROLLER_ENDED}, and so has each of {MOST_CONTROLLERS} that were started in its place"
    if first is not None:
        say(
            f"the controller of ipyparallel has ended ({replace(first, because_of=None)}); another took its "
            f"place after {seconds_text(time.monotonic() - began)}"
        )
    return None


def _start_another(engines: EngineGroup) -> str | None:
    """Return why processes do not answer through a new controller; None if they do, or it has ended as well."""
    try:
        restart_controller(engines.cluster)
    except LaunchError as error:
        return str(error)
    engines.reconnected()
    _until_reported(engines)
    _until_back(engines)
    idle = engines.plan.hosts.keys() - engines.cluster.exits.keys() - engines.facts.stuck
    silent = unanswered(engines.cluster, idle, within_s=CONTROLLER_SECONDS)
    if silent:
        return f"{processes_text(silent)} did not answer when it was started again"
    return None


def _until_reported(engines: EngineGroup) -> None:
    """Wait until all processes have reported, since their last reports may have been lost."""
    began = time.monotonic()

    def silent() -> list[int]:
        passed = time.monotonic() - began
        there = engines.plan.hosts.keys() - engines.cluster.exits.keys()
        return [p for p in sorted(there) if engines.monitor.silence(p) > passed]

    while (left := silent()) and time.monotonic() - began < REPORT_SECONDS:
        engines.cluster.agents.ask(Repeat(), left)
        time.sleep(LOOK_SECONDS)


def _until_back(engines: EngineGroup) -> None:
    """Interrupt the processes that are in a cell; count those that do not come back as stuck."""
    began = asked = time.monotonic()
    inside = _inside(engines)
    if inside:
        engines.interrupt(sorted(inside))
    while inside and time.monotonic() - began < BACK_SECONDS:
        time.sleep(LOOK_SECONDS)
        inside = _inside(engines)
        if inside and time.monotonic() - asked >= AGAIN_SECONDS:
            asked = time.monotonic()
            engines.interrupt(sorted(inside))
            for what in (Abandon(), Free()):
                engines.cluster.agents.ask(what, sorted(inside))
    if inside:
        engines.health.stuck(inside)


def _inside(engines: EngineGroup) -> AbstractSet[int]:
    there = engines.plan.hosts.keys() - engines.cluster.exits.keys()
    return {p for p in there if engines.reports.busy(p)}
