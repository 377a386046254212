"""Questions to processes that are in no cell: to one alone, or to all that compute in step at the same time."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

from nbdist.contract.calls import Call
from nbdist.errors import GoneError, NbdistError, RecoveryError, TurnError
from nbdist.launch.start.pending import Pending
from nbdist.notation import processes_text, seconds_text, where_text
from nbdist.session.engine_group import EngineGroup

A = TypeVar("A")

ANSWER_SECONDS = 30.0
"""Seconds an idle process may take to answer; on a busy machine its main thread may have to wait as long."""

LOOK_SECONDS = 0.05
"""How often to look whether a process has ended; answers are taken as they arrive."""

MEANWHILE_SECONDS = 1.0
"""How often to say which processes have not answered yet."""


def ask_all(
    engines: EngineGroup,
    call: Call[A] | Mapping[int, Call[A]],
    *,
    within_s: float,
    meanwhile: Callable[[list[int]], None] | None = None,
    of: Collection[int] | None = None,
) -> dict[int, A]:
    """Send one call to each process, and wait for all answers, even after one process has failed.

    Otherwise the next request could reach processes in the middle of this call.

    Args:
      engines: Processes of which none is in a cell.
      call: One call for all, or a call for each, by process id.
      within_s: How many seconds all may take together, without those in which one of their hosts is silent: a
        silent host answers again, or is given up.
      meanwhile: Called every second with the processes that have not answered yet.
      of: The processes to ask; default: all workers.

    Raises:
      RecoveryError: A process failed, did not answer in time, or ended, which ends the wait at once; the text says
        which.
    """
    asking = sorted(engines.facts.workers if of is None else of)
    _refuse_gone(engines, asking)
    asked = {p: engines.send(p, call[p] if isinstance(call, Mapping) else call) for p in asking}
    called = looked = time.monotonic()
    waited_s = 0.0
    answers: dict[int, A] = {}
    errors: list[RecoveryError] = []
    missing = set(asked)
    while missing:
        for process_id in sorted(missing):
            if asked[process_id].ready():
                missing.discard(process_id)
                try:
                    answers[process_id] = asked[process_id].get()[0]
                except NbdistError as error:
                    errors.append(
                        RecoveryError(f"{where_text([process_id], engines.plan.hosts)}: {error}")
                    )
                    errors[-1].__cause__ = error
        _refuse_gone(engines, missing)
        now = time.monotonic()
        if awaited_hosts(engines).isdisjoint(engines.plan.hosts[p] for p in missing):
            waited_s += now - looked
        looked = now
        if missing and waited_s > within_s:
            late = f"{processes_text(missing)} did not answer within {seconds_text(within_s)}"
            errors.append(RecoveryError(late))
            break
        if missing and meanwhile is not None and now - called > MEANWHILE_SECONDS:
            meanwhile(sorted(missing))
            called = looked = time.monotonic()  # it may have waited for a silent host
        if missing:
            asked[min(missing)].wait(LOOK_SECONDS)
    if errors:
        raise errors[0]
    return answers


def awaited_hosts(engines: EngineGroup) -> frozenset[str]:
    """Return the silent hosts that are waited for; none once a person has interrupted the wait."""
    facts = engines.facts
    return frozenset(() if facts.cut_off or engines.hurry.is_set() else facts.silent)


def _refuse_gone(engines: EngineGroup, process_ids: Collection[int]) -> None:
    """Raise `RecoveryError` if one of these processes has ended, since nothing can be sent to it."""
    gone = engines.cluster.exits.keys() & process_ids
    if gone:
        raise RecoveryError(f"{processes_text(gone)} {engines.cluster.exits[min(gone)]} meanwhile")


class AskedAlone:
    """Small questions to one idle process alone, such as a completion.

    Answering may use devices of other processes; afterwards `computed` returns whether it has.
    """

    def __init__(self, engines: EngineGroup) -> None:
        self._engines = engines
        self._requests: list[Pending[Any]] = []

    def ask(self, call: Call[A], *, timeout_s: float) -> A | None:
        """Ask the lowest idle process; return None when none is idle or it does not answer in time.

        The answer may compute, so no process is asked while another kernel has its turn.
        """
        try:
            # `str` shows nothing, since no person waits.
            with self._engines.turn.taken(timeout_s=timeout_s, say=str):
                return self._ask(call, timeout_s=timeout_s)
        except TurnError:
            return None

    def _ask(self, call: Call[A], *, timeout_s: float) -> A | None:
        engines = self._engines
        for process_id in sorted(engines.plan.hosts):
            if process_id in engines.facts.lost or engines.reports.busy(process_id):
                continue
            request = engines.send(process_id, call)
            self._requests = [*self._requests, request]
            try:
                return request.get(timeout_s)[0]
            except (TimeoutError, GoneError):
                return None
        return None

    @property
    def unseen(self) -> bool:
        """Whether an asked process may have computed, and `computed` has not reported it yet."""
        return any(not r.ready() or r.computed for r in self._requests)

    def computed(self) -> bool:
        """Return whether an asked process used devices of others that took no part; report each case once."""
        answered = [request for request in self._requests if request.ready()]
        self._requests = [r for r in self._requests if r not in answered]
        for request in answered:
            with contextlib.suppress(NbdistError):  # its answer came after the timeout
                request.get()
        return any(request.computed for request in answered)
