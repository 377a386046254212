"""Replacement of ended processes by new ones: they get the names of a living process, and its copies of arrays.

Processes also keep copies of each other's arrays, made between two cells; lost arrays go back to these copies.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from nbdist.contract.calls import Call
from nbdist.contract.calls.engine import Initialize
from nbdist.contract.calls.namespace import NamespaceArray
from nbdist.contract.calls.stepping import Forget, NameLost
from nbdist.contract.cells import Doubt
from nbdist.contract.wire import encode
from nbdist.errors import NbdistError
from nbdist.launch.model.framework import framework_named
from nbdist.launch.model.happenings import silent
from nbdist.launch.start.connect import end_processes, replace_processes
from nbdist.monitor.disagreements import After, compared
from nbdist.notation import array_type_text, bytes_text
from nbdist.session.asking import ask_all
from nbdist.session.cells.doubt import root_name
from nbdist.session.engine_group import EngineGroup
from nbdist.session.recovery.consequences import Consequences, RolledBack, is_unnamed
from nbdist.session.values.copies import KeptCopies, go_back, make_copies
from nbdist.session.values.flow import Progress
from nbdist.session.values.namespace import AskedThings, Bringing, Brought, changes_numbers

REPORT_SECONDS = 1.0
"""Seconds the process whose names are copied may take to report their present values."""

FORGET_SECONDS = 10.0
"""Seconds an idle process may take to forget arrays."""

BRING_SECONDS = 120.0
"""Seconds after which the copy of a namespace is given up if nothing moves."""


def replaceable(engines: EngineGroup, stuck: Collection[int] = ()) -> frozenset[int]:
    """Return the ended workers if they can be replaced, else none.

    Args:
      engines: The processes.
      stuck: Processes that are to be ended, since they no longer answer.
    """
    gone = engines.facts.workers & {*engines.facts.lost, *stuck}
    agents = engines.cluster.agents
    can = (
        engines.proves
        and framework_named(engines.plan.framework).recovery == "in place"
        and agents.all
        and agents.controller_end is None
        and gone < engines.facts.workers
        # The new coordination service is started beside process 0.
        and all(agents.of(p).poll() is None for p in {*gone, engines.plan.processes[0].process_id})
        and not engines.facts.silent
        # One agent may serve several hosts, and survive the loss of one of them.
        and gone.isdisjoint(engines.facts.unreachable)
    )
    return gone if can else frozenset()


Ended = Mapping[int, After]
"""The reported names of each process that has ended."""


def start_again(engines: EngineGroup, gone: AbstractSet[int]) -> Ended:
    """Start processes in place of ended ones; the new ones join the others later.

    Processes that have not ended are ended first. After an unfinished repair, the reports from before that repair
    count: the processes it started have only reported the names they were brought.

    Returns:
      The reported names of each ended process.

    Raises:
      LaunchError: A process could not be ended, or did not come up; the others are unchanged.
    """
    for process_id in gone:
        engines.reported.setdefault(process_id, engines.monitor.samples(process_id))
    reported = {p: engines.reported[p] for p in gone}
    end_processes(engines.cluster, gone - engines.cluster.exits.keys())
    replace_processes(engines.cluster, gone, progress=silent)
    return reported


def join_call(engines: EngineGroup, process_id: int) -> Call[Any]:
    """Return the call that makes a new process join the others, as at the start."""
    cluster, plan = engines.cluster, engines.plan
    (planned,) = (p for p in plan.processes if p.process_id == process_id)
    stage = framework_named(plan.framework).late(plan, planned, cluster.rendezvous)
    return Initialize(stage=encode(stage))


def sources(engines: EngineGroup, gone: Collection[int]) -> list[int]:
    """Return the living workers; the first is the one whose names new processes get.

    Process 0 comes last, since code most often treats it differently.
    """
    return sorted(engines.facts.workers - set(gone), key=lambda p: (p == 0, p))


def bring(
    engines: EngineGroup, gone: Ended, things: AskedThings, *, generation: int
) -> dict[int, Brought]:
    """Give new processes the namespace of a living one, and the pieces of arrays that others have.

    Args:
      engines: All processes, joined; none is in a cell.
      gone: For each new process, the reported names of the one before it.
      things: The requests for what other processes have beside their names.
      generation: The number of the present back end of all.

    Raises:
      NbdistError: A process has ended in the meantime, did not answer, or could not make the values that came.
    """
    living = sources(engines, gone)
    # Values set since the last report must not be mistaken for the reported ones.
    if gone:
        engines.reports.renew(living[:1], within_s=REPORT_SECONDS)
    found = {}
    for process_id in sorted(gone):
        found[process_id] = Bringing(
            processes=LiveProcesses(engines),
            newcomer=process_id,
            sources=living,
            things=things,
            token=str(engines.next_number()),
            generation=generation,
            timeout_s=BRING_SECONDS,
            before=compared(gone[process_id], engines.monitor.samples(living[0])),
        ).run()
    return found


def types_by_path(arrays: Iterable[NamespaceArray]) -> dict[str, str]:
    """Return the types of the arrays that a name leads to, by path."""
    return {a.key: array_type_text(a.dtype, a.shape) for a in arrays if not is_unnamed(a)}


def forgotten_in_part(
    engines: EngineGroup, missing: Sequence[NamespaceArray], *, known: Collection[str]
) -> dict[str, str]:
    """Delete incomplete arrays on all processes, so that using one is an error; return the paths that led to them.

    Args:
      engines: All processes.
      missing: As `lost_in_part` returns them.
      known: Paths that are lost for another reason.

    Returns:
      The paths that are not in `known`, with the types of the arrays; a type is empty if unknown.
    """
    if not missing:
        return {}
    call = Forget(
        paths=tuple(types_by_path(missing)),
        unnamed=tuple(a.origin for a in missing if is_unnamed(a) and a.origin is not None),
        whole=True,
    )
    answers = ask_all(engines, call, within_s=FORGET_SECONDS)
    paths = {path: "" for answer in answers.values() for path in answer.lost} | types_by_path(
        missing
    )
    return {path: of for path, of in sorted(paths.items()) if path not in known}


def name_lost(engines: EngineGroup, means: Consequences) -> None:
    """Make the use of lost arrays an error that says when and why they were lost, on all processes.

    New processes also get what is known of arrays that were lost before.
    """
    engines.lost_texts |= means.lost_texts(engines.facts.last_cell, engines.made_in)
    if engines.lost_texts:
        ask_all(engines, NameLost(texts=engines.lost_texts), within_s=FORGET_SECONDS)


def doubts(found: Mapping[int, Brought]) -> dict[str, Doubt]:
    """Return names and things that may differ from those of ended processes, each with the reason."""
    things = {
        thing: Doubt(kind="unlike", of=one.source)
        for one in found.values()
        for thing in sorted(one.not_carried)
        if changes_numbers(thing)
    }
    return things | {
        name: Doubt(kind="copied", of=one.source)
        for one in found.values()
        for name in sorted(one.unsure)
    }


class LiveProcesses:
    """The processes of a session as they are now: unlike `EngineGroup`, without ended ones that were replaced."""

    def __init__(self, engines: EngineGroup) -> None:
        self._engines = engines
        self.send = engines.send
        self.where = engines.where

    def gone(self, process_id: int) -> str | None:
        """Return how a process has ended; None while it, or its replacement, lives."""
        end = self._engines.cluster.exits.get(process_id)
        return None if end is None else str(end)


MOVE_SECONDS = 60.0
"""Seconds after which making or using copies is given up if nothing moves."""


def copies_are_due(engines: EngineGroup) -> bool:
    """Return whether copies are to be made now, between two cells."""
    facts = engines.facts
    return (
        engines.copies.due
        and engines.proves
        and len(facts.workers) > 1
        and not facts.out_of_step
        and not facts.silent
        and facts.workers.isdisjoint({*facts.lost, *facts.stuck, *engines.cluster.exits})
    )


def copy_arrays(engines: EngineGroup, cell: int, at: float | None = None) -> str | None:
    """Make copies; return why none were made, or None.

    Args:
      engines: The processes; none is in a cell, and all are in step.
      cell: The number of the last cell.
      at: The time of the state that is copied (monotonic); None: now.
    """
    began = time.monotonic()
    try:
        copied = make_copies(
            LiveProcesses(engines),
            {p: engines.plan.hosts[p] for p in engines.facts.workers},
            number=engines.next_number(),
            in_step=engines.in_step_at,
            timeout_s=MOVE_SECONDS,
            progress=_until(engines),
        )
    except NbdistError as error:
        return f"no copies were made after this cell: {error}"
    finally:
        engines.copies.tried()
    engines.copies.kept = KeptCopies(
        copied=copied, cell=cell, at=began if at is None else at, seconds=time.monotonic() - began
    )
    return None


def copy_arrays_after_repair(engines: EngineGroup, returned: RolledBack) -> str | None:
    """Make copies after a repair, so that new processes have some as well; return what `copy_arrays` returns."""
    before, copies = engines.copies.kept, engines.copies
    if copies.every_s is None or len(engines.facts.workers) < 2:
        return None
    if before is not None and returned.paths:
        # These copies show the state that was just restored.
        return copy_arrays(engines, before.cell, before.at)
    return copy_arrays(engines, engines.facts.last_cell)


def roll_back(
    engines: EngineGroup,
    lost: Collection[str],
    *,
    new: Collection[int] = (),
    gone: Collection[int] = (),
) -> RolledBack:
    """Set lost arrays, and others that have changed since, back to the last copies.

    Args:
      engines: The processes; none is in a cell.
      lost: The paths of arrays that have no values any more.
      new: Processes that have replaced ended ones, and have joined the others.
      gone: Ended processes that were not replaced.

    Raises:
      NbdistError: A process has ended in the meantime, or did not answer.
    """
    kept = engines.copies.kept
    if kept is None or not lost:
        return RolledBack()
    found = go_back(
        LiveProcesses(engines),
        sorted(engines.facts.workers - {*new, *gone}),
        sorted(new),
        number=kept.copied.number,
        token=str(engines.next_number()),
        lost=lost,
        timeout_s=MOVE_SECONDS,
    )
    names = dict.fromkeys(_roots(found.newer), Doubt(kind="newer", of=kept.cell))
    if found.older:
        names |= dict.fromkeys(_roots(found.paths), Doubt(kind="older", of=kept.cell))
    return RolledBack(
        paths=frozenset(found.paths),
        older=found.older,
        newer=found.newer,
        names=names,
        age=kept.age,
        why_not=found.why_not,
    )


def _roots(leading: Collection[str]) -> list[str]:
    """Return the names with which texts begin: paths, and texts such as `average (through a cell)`."""
    return sorted(root for root in set(map(root_name, leading)) if root.isidentifier())


def _until(engines: EngineGroup) -> Progress:
    """Return a `Progress` that stops a round of copies after an interrupt."""

    def progress(done: int, total: int) -> None:
        if engines.hurry.is_set():
            raise NbdistError(f"interrupted, with {bytes_text(done)} of {bytes_text(total)} sent")

    return progress
