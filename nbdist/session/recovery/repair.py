"""The repair of all processes in place: a new coordination service, new back ends, the same Python objects."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import partial

from nbdist.contract.asides import Cut
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
from nbdist.errors import RecoveryError
from nbdist.launch.model.framework import framework_named
from nbdist.launch.start import initialize
from nbdist.notation import bytes_text, capital, processes_text, seconds_text
from nbdist.notice import Notice
from nbdist.session.asking import ask_all
from nbdist.session.engine_group import EngineGroup
from nbdist.session.recovery.compared import common_serial, disagreeing
from nbdist.session.recovery.consequences import Consequences, lost_in_part
from nbdist.session.recovery.copying import LiveProcesses, make_after_repair, roll_back
from nbdist.session.recovery.replacing import (
    bring,
    doubts,
    forgotten_in_part,
    join_call,
    name_lost,
    sources,
    start_again,
)
from nbdist.session.recovery.waiting import States, until_computed
from nbdist.session.values.namespace import ask_things

ANSWER_SECONDS = 10.0
"""How long a process that is in no cell may take to answer."""

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
        without_copies = make_after_repair(engines, returned)
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
