"""Asking all processes that compute in step, at the same time."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

from nbdist.contract.calls.call import Call
from nbdist.errors import NbdistError, RecoveryError
from nbdist.quantities import processes_text, seconds_text, where_text
from nbdist.session.engine_group import EngineGroup

A = TypeVar("A")

LOOK_SECONDS = 0.05
"""How often is looked whether a process has ended; an answer that comes is taken at once."""

MEANWHILE_SECONDS = 1.0


def ask_all(
    engines: EngineGroup,
    call: Call[A] | Mapping[int, Call[A]],
    *,
    within_s: float,
    meanwhile: Callable[[list[int]], None] | None = None,
    of: Collection[int] | None = None,
) -> dict[int, A]:
    """Sends one call to each process, and waits for all answers.

    Also where one has failed: what comes next would find the others in the middle of it.

    Args:
      engines: Processes of which none is in a cell.
      call: The same for all, or by process id.
      within_s: How long all may take together.
      meanwhile: Called every second with the processes that have not answered yet.
      of: These processes; default: all workers.

    Raises:
      RecoveryError: One failed, ended, or did not answer in time; says which.
    """
    asking = sorted(engines.facts.workers if of is None else of)
    _refuse_gone(engines, asking)
    asked = {p: engines.send(p, call[p] if isinstance(call, Mapping) else call) for p in asking}
    deadline, called = time.monotonic() + within_s, time.monotonic()
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
        if missing and time.monotonic() > deadline:
            late = f"{processes_text(missing)} did not answer within {seconds_text(within_s)}"
            errors.append(RecoveryError(late))
            break
        if missing and meanwhile is not None and time.monotonic() - called > MEANWHILE_SECONDS:
            called = time.monotonic()
            meanwhile(sorted(missing))
        if missing:
            asked[min(missing)].wait(LOOK_SECONDS)
    if errors:
        raise errors[0]
    return answers


def _refuse_gone(engines: EngineGroup, process_ids: Collection[int]) -> None:
    """Raises `RecoveryError` when one of these has ended; one that has cannot be sent anything."""
    gone = engines.link.exits.keys() & process_ids
    if gone:
        raise RecoveryError(f"{processes_text(gone)} {engines.link.exits[min(gone)]} meanwhile")
