"""Evaluation of expressions on all processes that compute in step, each like a small cell.

Evaluated on one process alone, `w[:4]` would be a program that the others never send. A person's action on a
widget may compute as well, and is repeated on all in the same way. Only what needs no program, such as a plain
name, is asked of some processes alone.
"""

from __future__ import annotations

import base64
import math
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import TypeVar

from msgspec import structs

from nbdist.contract.asides import Abandon, Free
from nbdist.contract.calls import Call
from nbdist.contract.calls.engine import Evaluating
from nbdist.contract.calls.inspection import UseWidget
from nbdist.contract.calls.stepping import RefuseEarlier
from nbdist.errors import NbdistError, SessionError
from nbdist.launch.model.start_options import Rules
from nbdist.launch.start.pending import Pending
from nbdist.notation import processes_text, seconds_text
from nbdist.session.cells.leaving import CUT_AGAIN_SECONDS, CUT_SECONDS
from nbdist.session.engine_group import EngineGroup
from nbdist.session.recovery import ensure_in_step
from nbdist.session.values.flow import Answers
from nbdist.spelling import command, option
from nbdist.view.widgets import Event

POLL_SECONDS = 0.005
"""How often to look for answers and reports."""

REPORT_SECONDS = 2.0
"""Seconds the report of the end of a cell may take: a process reports once a second, on a busy machine less
often."""

A = TypeVar("A")


def is_name(expression: str) -> bool:
    """Return whether an expression is a plain name, whose value needs no program on any device."""
    return expression.strip().isidentifier()


def ask_some(
    engines: EngineGroup,
    call: Call[A],
    process_ids: Sequence[int],
    *,
    timeout_s: float,
) -> Answers[A]:
    """Ask some processes for what needs no program.

    Raises:
      SessionError: A process did not answer in time; the text says what it is doing.
      NbdistError: The error that a process raised.
    """
    asked = {p: engines.send(p, call) for p in process_ids}
    deadline = time.monotonic() + timeout_s
    answers: Answers[A] = {}
    for process_id, request in asked.items():
        request.wait(max(0.0, deadline - time.monotonic()))
        if not request.ready():
            raise SessionError(
                f"{engines.reports.doing(process_id)}, and did not answer within {seconds_text(timeout_s)}. Wait "
                f"for its end with {command('sync')}, interrupt it with {command('interrupt')}, or allow more "
                f"with {option('timeout_s')}."
            )
        answers[process_id] = request.get()
    return answers


def ask_all_workers(
    engines: EngineGroup,
    call: Evaluating[A],
    *,
    wanted: Sequence[int],
    timeout_s: float,
    rules: Rules,
) -> Answers[A]:
    """Make all workers evaluate an expression at the same time, and prove that they are in step.

    Args:
      engines: The processes, none of which is in a cell.
      call: The call to evaluate, the same on all.
      wanted: The processes whose answers are wanted.
      timeout_s: How many seconds the evaluation may take.
      rules: The session's rules.

    Raises:
      SessionError: A process is in a cell; or the evaluation took too long, and was ended everywhere.
      NbdistError: The error that a process raised.
    """
    refuse_busy(
        engines, engines.facts.workers, "An expression that is more than a name needs all processes"
    )
    call = structs.replace(call, number=engines.next_number())
    asked: dict[int, Pending[A]] = {}
    try:
        for p in sorted(engines.facts.workers):
            asked[p] = engines.send(p, call if p in wanted else call.unwanted())
        errors = _until_end(engines, asked, timeout_s=timeout_s, rules=rules)
    except KeyboardInterrupt:
        _free(engines, asked, rules.give_up_s)
        ensure_in_step(engines, automatic=rules.recover)
        raise
    if not errors:
        return {p: asked[p].get() for p in wanted}
    done = ensure_in_step(engines, automatic=rules.recover)
    error = errors[min(errors)]
    raise type(error)(f"{error}\n{done}" if done else str(error))


def refuse_busy(
    engines: EngineGroup, process_ids: Iterable[int], why: str, *, known: Iterable[int] = ()
) -> None:
    """Raise if one of these processes is in a cell.

    Args:
      engines: The processes.
      process_ids: The processes that must be idle.
      why: The reason, as the beginning of a sentence.
      known: Processes that are known to be in a cell. Any other may have left its cell and not reported that yet.

    Raises:
      SessionError: A process is in a cell; the text says where.
    """
    ids = sorted(process_ids)
    deadline = time.monotonic() + REPORT_SECONDS
    while busy := [p for p in ids if engines.reports.in_cell(p)] or sorted(set(ids) & set(known)):
        if time.monotonic() > deadline or set(busy) & set(known):
            raise SessionError(
                f"{engines.reports.doing(busy[0])}. {why}: wait for the end of the cell with "
                f"{command('sync')}, or interrupt it with {command('interrupt')}."
            )
        time.sleep(POLL_SECONDS)


def fence(engines: EngineGroup, busy: Callable[[], Collection[int]], *, rules: Rules) -> None:
    """Wait until no process can begin anything that an ended kernel has sent.

    A process that takes longer than the grace period is interrupted: the cell it runs may be missing on other
    processes, and no kernel follows that cell.

    Args:
      engines: The processes.
      busy: Returns the processes in followed cells; after their cell, these run only what this kernel sends.
      rules: The session's rules.
    """
    call = RefuseEarlier(number=engines.next_number())
    asked = {p: engines.send(p, call) for p in engines.plan.hosts if p not in engines.cluster.exits}
    since = time.monotonic()
    while True:
        done = {*busy(), *engines.cluster.exits}
        waiting = {p: r for p, r in asked.items() if p not in done and not r.ready()}
        if not waiting:
            return
        if time.monotonic() - since > rules.grace_s:
            _free(engines, waiting, rules.give_up_s)
            return
        waiting[min(waiting)].wait(POLL_SECONDS)


def _until_end(
    engines: EngineGroup, asked: dict[int, Pending[A]], *, timeout_s: float, rules: Rules
) -> dict[int, NbdistError]:
    """Wait until all have answered; free processes that wait for a failed one, or take too long.

    Returns:
      The errors of the processes that failed, by process id.
    """
    started, failed_at = time.monotonic(), None
    errors: dict[int, NbdistError] = {}
    waiting = set(asked)
    while waiting:
        asked[min(waiting)].wait(POLL_SECONDS)
        for process_id in [p for p in waiting if asked[p].ready()]:
            waiting.discard(process_id)
            try:
                asked[process_id].get()
            except NbdistError as error:
                errors[process_id] = error
        now = time.monotonic()
        failed_at = failed_at or (now if errors else None)
        if failed_at is not None and now - failed_at > rules.grace_s:
            _free(engines, asked, rules.give_up_s)
            break
        if waiting and now - started > timeout_s:
            ids = sorted(waiting)
            _free(engines, asked, rules.give_up_s)
            errors[ids[0]] = SessionError(
                f"{processes_text(ids)} did not end within {seconds_text(timeout_s)}: interrupted."
            )
            break
    return errors


def _free(engines: EngineGroup, asked: Mapping[int, Pending[A]], give_up_s: float) -> None:
    """Bring back the processes that have not answered: interrupt them, then cut their collectives.

    Interrupts are repeated, since the first has no effect on a process that has not begun yet.
    """
    waiting = [p for p, request in asked.items() if not request.ready()]
    within_s = max(give_up_s, 1.0)
    aside = engines.cluster.agents.ask
    steps: list[tuple[float, Callable[[Sequence[int]], None]]] = [
        (0.0, partial(aside, Abandon())),
        (0.0, engines.interrupt),
        *((CUT_SECONDS + nth * CUT_AGAIN_SECONDS, partial(aside, Free())) for nth in range(3)),
        *(
            ((nth + 1) * CUT_AGAIN_SECONDS, engines.interrupt)
            for nth in range(int(within_s / CUT_AGAIN_SECONDS))
        ),
    ]
    steps.sort(key=itemgetter(0))
    started = time.monotonic()
    while waiting and time.monotonic() - started < within_s:
        while steps and time.monotonic() - started >= steps[0][0]:
            steps.pop(0)[1](waiting)
        asked[waiting[0]].wait(POLL_SECONDS)
        waiting = [p for p in waiting if not asked[p].ready()]
    if waiting:
        engines.health.stuck(waiting, back=lambda process_id: asked[process_id].ready())


def deliver(engines: EngineGroup, event: Event, *, busy: Mapping[int, int], rules: Rules) -> None:
    """Repeat a person's action on a widget on the processes' widgets; return when they have done it.

    The action may compute, so all workers take part at the same time, as in a cell, and in the proof after it.

    Args:
      engines: The processes.
      event: The action.
      busy: The number of the cell that each busy process runs.
      rules: The session's rules.

    Raises:
      SessionError: A process runs a cell, or they are not in step; nothing was done.
      NbdistError: The error that a process raised.
    """
    ids = sorted(event.models)
    inside = [p for p in sorted({*ids, *engines.facts.workers}) if p in busy]
    if inside:
        raise SessionError(
            f"{processes_text(inside)} cannot do what the widget asks: {engines.reports.doing(inside[0])}. Use "
            f"the widget again after the end of the cell; {command('sync')} waits for it, "
            f"{command('interrupt')} ends it."
        )
    call = UseWidget(
        models={str(p): model for p, model in event.models.items()},
        data=dict(event.data),
        binary=tuple(base64.b64encode(one).decode("ascii") for one in event.buffers),
    )
    if not engines.proves:
        ask_some(engines, call, ids, timeout_s=math.inf)
        return
    if engines.facts.out_of_step:
        raise SessionError(
            f"What the widget does may compute, and the processes are not in step{engines.facts.why_and_advice}"
        )
    ask_all_workers(engines, call, wanted=ids, timeout_s=math.inf, rules=rules)
