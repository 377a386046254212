"""Change of the number of processes: new ones start, get names and arrays of the old ones, and replace them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any, TypeVar

from nbdist.contract.asides import Cut
from nbdist.contract.calls import Call
from nbdist.contract.calls.namespace import OfferNamespace
from nbdist.contract.calls.stepping import AskSent, Forget, Save
from nbdist.contract.calls.values import LetGo
from nbdist.errors import GoneError, OptionError, SessionError
from nbdist.launch.model.framework import why_fixed
from nbdist.launch.model.plan import Plan
from nbdist.launch.start.pending import Pending
from nbdist.notation import (
    hosts_text,
    names_text,
)
from nbdist.session.asking import ANSWER_SECONDS, ask_all
from nbdist.session.engine_group import EngineGroup
from nbdist.session.recovery.compared import common_serial, disagreeing
from nbdist.session.recovery.consequences import Consequences, lost_in_part
from nbdist.session.recovery.replacing import (
    doubts,
    forgotten_in_part,
    name_lost,
    roll_back,
    types_by_path,
)
from nbdist.session.recovery.waiting import refuse_unfinished, until_computed
from nbdist.session.values.flow import ask_each, send
from nbdist.session.values.namespace import Bringing, Brought, ask_things
from nbdist.spelling import command, option

A = TypeVar("A")

SAVE_SECONDS = 300.0
"""Seconds for looking at all arrays; this includes the wait for a computation that was sent."""

BRING_SECONDS = 120.0
"""Seconds after which the copy of a namespace is given up if nothing moves."""

LEAVING_SECONDS = 2.0
"""Seconds a process on a host that is left out may take to answer; one in a cell does not answer."""

NEW = 1 << 20
"""Added to the ids of new processes while both groups exist."""


def refuse(engines: EngineGroup, asked: Plan) -> None:
    """Refuse to change the number of processes of a session if that is impossible.

    Raises:
      SessionError: It is impossible; the text says what to do.
    """
    then = (
        f"Nothing was changed. {command('save')}, a start with another number, and {command('restore')} "
        "take arrays there."
    )
    why = why_fixed(asked)
    if why is not None:
        raise SessionError(f"{why} {then}")
    if not engines.cluster.agents.all:
        raise SessionError(f"Another kernel has started the processes. {then}")


def planned(asked: Plan, processes: int) -> Plan:
    """Return the plan with another number of processes on this machine, or in the same allocation.

    Raises:
      OptionError: There are as many already, or the number is impossible.
    """
    if processes < 1:
        raise OptionError(
            f"{option('processes', processes)}: the number of processes must be 1 or more."
        )
    if processes == len(asked.processes):
        raise OptionError(
            f"{option('processes', processes)}: there are {processes} already; nothing was changed."
        )
    if asked.placement.job is None and not asked.placement.on_this_machine:
        raise OptionError(
            f"{option('processes', processes)}: the processes are on {hosts_text(asked.hosts.values())}. "
            f"{command('recover')} leaves hosts out with {option('without', 'HOST')}. Nothing was changed."
        )
    return asked.resized(processes)


def planned_without(asked: Plan, hosts: Collection[str]) -> Plan:
    """Return the plan without these hosts.

    Raises:
      OptionError: There are no such hosts, or no other hosts.
    """
    if asked.placement.job is not None:
        raise OptionError(
            f"{option('without', ','.join(hosts))}: Slurm lays the tasks of a job on its nodes. "
            f"{command('start')} with another number of processes goes on in the same allocation."
        )
    there = tuple(dict.fromkeys(asked.hosts.values()))
    unknown = [host for host in hosts if host not in there]
    if unknown:
        raise OptionError(
            f"{option('without', unknown[0])}: the hosts of this session are {names_text(there)}."
        )
    if not set(there) - set(hosts):
        raise OptionError(
            f"{option('without', ','.join(hosts))}: no host would be left. {command('shutdown')} ends the session."
        )
    for host in hosts:
        asked = asked.without(host)
    return asked


def hosts_gone(engines: EngineGroup) -> list[str]:
    """Return the hosts on which nothing could be started at the last attempt; they may be back by now."""
    facts = engines.facts
    if not (facts.leaves_out and facts.proves and engines.cluster.agents.all):
        return []
    return sorted({engines.plan.hosts[p] for p in facts.workers & facts.unreachable})


def sources(engines: EngineGroup, without: Collection[str]) -> list[int]:
    """Return the processes whose arrays are copied; the first is the one whose names are copied.

    Processes on hosts that are left out come last, so that arrays that only they have are copied if they answer.

    Raises:
      SessionError: A process is in a cell or gone, or they may hold values that do not belong together.
    """
    facts, hosts = engines.facts, engines.plan.hosts
    left_out = {p for p in facts.workers if hosts[p] in without}
    refuse_unfinished(engines, {*left_out, *facts.stuck})
    staying = facts.workers - left_out
    ended = staying & {*facts.lost, *facts.stuck}
    if ended == staying:
        raise SessionError(
            f"No process lives on {hosts_text(hosts[p] for p in staying)}. {command('restart')} starts afresh."
        )
    if (ended or facts.out_of_step) and not without:
        raise SessionError(
            f"The processes are not in step{f': {facts.why}' if facts.why else ''}. {command('recover')} "
            "brings them there; then their number can be changed."
        )
    leaving = _answering(engines, left_out - {*facts.lost, *facts.stuck})
    # Process 0 comes last among those that stay, since code most often treats it differently.
    return [*sorted(staying - ended, key=lambda p: (p == 0, p)), *leaving]


def _answering(engines: EngineGroup, process_ids: Collection[int]) -> list[int]:
    """Return the processes that answer within `LEAVING_SECONDS`."""
    asked = {}
    for process_id in sorted(process_ids):
        if engines.proves and engines.plan.hosts[process_id] not in engines.facts.silent:
            with contextlib.suppress(GoneError):
                asked[process_id] = engines.send(process_id, AskSent())
    until = time.monotonic() + LEAVING_SECONDS
    for request in asked.values():
        request.wait(max(0.0, until - time.monotonic()))
    return [process_id for process_id, request in asked.items() if request.answered()]


def drop_uncommon(
    engines: EngineGroup, living: Collection[int], *, say: Callable[[str], None]
) -> tuple[str, ...]:
    """Delete the arrays that not all processes have computed, so that all remaining ones can be read.

    Args:
      engines: Processes of which none is in a cell.
      living: The living processes of a session that is out of step.
      say: Called with lines while it lasts.

    Returns:
      The paths of the deleted arrays.

    Raises:
      RecoveryError: A process failed, ended, or did not answer.
    """
    states = ask_all(engines, AskSent(), within_s=ANSWER_SECONDS, of=living)
    common = common_serial(states.values())
    until_computed(engines, states, say=say)
    cut = partial(engines.cluster.agents.ask, Cut())
    cut(sorted(living))
    saved = ask_all(engines, Save(common=common), within_s=SAVE_SECONDS, meanwhile=cut, of=living)
    mixed = disagreeing({p: answer.versions for p, answer in saved.items()}, common=common)
    forgotten = ask_all(
        engines,
        Forget(paths=mixed.paths, unnamed=mixed.unnamed),
        within_s=ANSWER_SECONDS,
        of=living,
    )
    return tuple(sorted({*mixed.paths, *(n for a in forgotten.values() for n in a.lost)}))


def changes(engines: EngineGroup, source: int, processes: int) -> tuple[str, ...]:
    """Return what would be laid out differently on another number of processes, a sentence each; change nothing.

    Raises:
      ArrayError: Something cannot exist on that number.
    """
    token = str(engines.next_number())
    try:
        call = OfferNamespace(token=token, processes=processes)
        asked = {source: send(engines, source, call)}
        offer, _ = ask_each(engines, asked, timeout_s=BRING_SECONDS)[source]
        left_out = (f"{o.name} ({o.type}) is not brought along: {o.why}" for o in offer.left_out)
        return (*offer.changes, *left_out)
    finally:
        with contextlib.suppress(GoneError):
            engines.send(source, LetGo(token=token))


def bring(
    before: EngineGroup, now: EngineGroup, living: Sequence[int], lost: Collection[str]
) -> Consequences:
    """Give all new processes the names of one of the earlier ones, and their parts of all arrays.

    Args:
      before: The earlier processes.
      now: The new processes, joined; none has any names yet.
      living: The processes that `sources` returns.
      lost: Arrays that have no values any more.

    Raises:
      NbdistError: A process has ended in the meantime, did not answer, or could not make the values that came.
    """
    generation = 1
    if before.proves:
        states = ask_all(before, AskSent(), within_s=ANSWER_SECONDS, of=living)
        generation += max(state.sent.generation for state in states.values())
    found = _brought(before, now, living, generation)
    missing = lost_in_part(found)
    ended = before.facts.workers - set(living)
    returned = roll_back(before, {*lost, *types_by_path(missing)}, gone=ended)
    if returned.paths:
        # Every part of the rolled-back arrays exists somewhere, so all is brought again.
        found = _brought(before, now, living, generation)
        missing = lost_in_part(found)
    still = set(lost) - returned.paths
    in_part = forgotten_in_part(now, missing, known=still)
    gone = sorted({*still, *in_part})
    again = {name for one in found.values() for name in one.set_again}
    # Names in doubt stay in doubt on the processes that get them.
    doubted = {name: why for name, why in before.facts.unsure.items() if name not in again}
    doubted |= doubts(found)
    means = Consequences(
        lost=gone,
        in_part=in_part,
        ended={p: before.facts.lost.get(p, "") for p in ended},
        returned=returned,
        brought=found,
        doubted=doubted,
    )
    now.lost_texts, now.made_in = dict(before.lost_texts), before.made_in
    name_lost(now, means)
    return means


def _brought(
    before: EngineGroup, now: EngineGroup, living: Sequence[int], generation: int
) -> dict[int, Brought]:
    """Bring each new process its names and arrays, from the start in every call; return what each got."""
    both = Both(before, now)
    things = ask_things(both, living, key=str(now.next_number()))
    return {
        p: Bringing(
            processes=both,
            newcomer=NEW + p,
            sources=living,
            things=things,
            token=str(now.next_number()),
            generation=generation,
            timeout_s=BRING_SECONDS,
            alone=len(before.plan.workers) == 1,
            resized_to=len(now.plan.workers),
        ).run()
        for p in sorted(now.facts.workers)
    }


class Both:
    """Two groups of processes as one: the earlier ones by their ids, the new ones by their ids plus `NEW`."""

    def __init__(self, before: EngineGroup, now: EngineGroup) -> None:
        self._before, self._now = before, now

    def send(self, process_id: int, call: Call[A], *buffers: Any) -> Pending[A]:
        """Send a request; do not wait."""
        group, number = self._of(process_id)
        return group.send(number, call, *buffers)

    def where(self, process_id: int) -> str:
        """Return `process 1 (host h1)`; for a new one `new process 1`."""
        group, number = self._of(process_id)
        return f"{'new ' if group is self._now else ''}{group.where(number)}"

    def gone(self, process_id: int) -> str | None:
        """Return how a process has ended; None while it lives."""
        group, number = self._of(process_id)
        end = group.cluster.exits.get(number)
        return None if end is None else str(end)

    def _of(self, process_id: int) -> tuple[EngineGroup, int]:
        return (self._now, process_id - NEW) if process_id >= NEW else (self._before, process_id)
