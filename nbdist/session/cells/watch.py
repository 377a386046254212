"""When processes are asked to leave a cell, and what is shown meanwhile: two tables of states and events.

`RULES` is about the cell: at each look, the first rule that holds decides. `LEAVING` in
`nbdist.session.cells.leaving` is about a process that was asked to leave: it is interrupted, its collectives are
cut, it is given up.

The functions are pure: `look` returns what to remember (`Watched`) and what to do (`Order`), and `answered` takes
the answer to a question. `nbdist.session.cells.supervisor` calls `look` repeatedly, and carries out the orders.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from nbdist.contract.iopub import Prompt
from nbdist.notation import processes_text, seconds_text
from nbdist.session.cells.leaving import (
    Act,
    AskedToLeave,
    Order,
    Terms,
    ask_to_leave,
    leaving_orders,
)
from nbdist.session.cells.outcome import (
    ProcessOutcome,
    all_waiting,
    divergence,
    failure_lines,
    first_cause,
    places_text,
    running,
    silence,
)
from nbdist.session.cells.prompts import prompts_text
from nbdist.spelling import option

SAY_SECONDS = 1.0
"""Seconds after a failure until processes still in the cell are shown; if all fail in that time, none is shown."""

DEATH_GRACE_SECONDS = 1.5
"""The grace period after the end of a process: to wait for that process is in vain."""

ASK_SECONDS = 1.0
"""How often to ask waiting processes what they have sent."""

PROOF_SECONDS = 5.0
"""Seconds a proof may take if another process did not finish the cell."""


@dataclass(frozen=True, slots=True)
class InVain:
    """A sentence about what processes wait for in vain. If it is not `certain`, the person decides."""

    text: str
    certain: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """The memory of a cell from one look to the next; times are those of the monotonic clock.

    Attributes:
      started: When the watch began, plus the time that processes spent at prompts.
      failed: When a process was first seen to have failed, plus the time at prompts since then.
      ends_at: When the processes still in the cell will be interrupted because of that; None: not known.
      paused: Since when a process is at a prompt; None: none is.
      resumed: When the last process left its prompt.
      prompted: The groups of processes that were shown to be at prompts together.
      joined: When the other processes were asked to take part in the proof.
      questioned: When processes were last asked what they wait for.
      waiting: What all processes wait for, while they do.
      asked: The processes that were asked to leave; empty while the cell goes on.
      stopping: Whether anyone has ended the cell.
      timed_out: Whether `timeout_s` ended the cell.
      in_vain: What the cell waited for, if it was ended because of that.
      seen: Lines that say why the processes were asked to leave, and where they were.
    """

    started: float
    failed: float | None = None
    ends_at: float | None = None
    paused: float | None = None
    resumed: float = -math.inf
    prompted: frozenset[frozenset[int]] = frozenset()
    joined: float | None = None
    questioned: float = -math.inf
    waiting: str | None = None
    asked: Mapping[int, AskedToLeave] = field(default_factory=dict)
    stopping: bool = False
    timed_out: bool = False
    in_vain: str | None = None
    seen: tuple[str, ...] = ()


class Moment(NamedTuple):
    """One look: what is remembered, the outcomes so far, the present time, and the cell's terms.

    `same_place` says whether all processes that have ended the cell's code report equally many sent programs.
    """

    watch: Watched
    outcomes: Mapping[int, ProcessOutcome]
    now: float
    terms: Terms
    same_place: bool = True

    @property
    def still(self) -> list[ProcessOutcome]:
        """The processes that are still in the cell."""
        return running(self.outcomes.values())

    @property
    def waiting(self) -> list[int]:
        """The processes in the cell's code, if all of them have waited for longer than the grace period."""
        in_code = {s.process_id: s for s in self.still if not s.proving}
        return all_waiting(in_code, longer_than_s=self.terms.grace_s)


class Decision(NamedTuple):
    """The result of a look: what to remember, and what to do, in this order."""

    watch: Watched
    orders: tuple[Order, ...] = ()


def look(at: Moment) -> Decision:
    """Return the decision of the first rule that holds."""
    watch = at.watch
    if watch.paused is not None and (watch.stopping or not _prompts(at)):
        at = at._replace(watch=_resumed(watch, at.now))
    return next(rule.then(at) for rule in RULES if rule.when(at))


def stop(at: Moment, why: str | None = None) -> Decision:
    """Ask all processes still in the cell to leave; `LEAVE` says how each is asked.

    Args:
      at: The look.
      why: Why the cell is ended, as the end of a line that begins with the processes.
    """
    still, watch = at.still, at.watch
    lines = [] if why is None else [f"{processes_text([s.process_id for s in still])}   {why}"]
    if watch.waiting is not None or why is not None:
        lines += places_text(at.outcomes.values())
    asked, orders = ask_to_leave(still, at.now)
    stopping = replace(watch, asked=asked, stopping=True, seen=tuple(lines))
    return Decision(stopping, (Order(Act.SHOW), *orders))


def answered(at: Moment, order: Order, answer: bool | InVain | None) -> Decision:
    """Take the answer to a question that an order asked; ignore it if the cell was ended in the meantime."""
    if at.watch.stopping:
        return Decision(at.watch)
    if order.act is Act.JOIN:
        return Decision(at.watch) if answer else stop(at)
    if not isinstance(answer, InVain):
        return _say(at)
    if answer.certain:
        return stop(at._replace(watch=replace(at.watch, in_vain=answer.text)))
    return _say(at._replace(watch=replace(at.watch, waiting=answer.text)))


def _is_stopping(at: Moment) -> bool:
    return at.watch.stopping


def _one_is_at_a_prompt(at: Moment) -> bool:
    return bool(_prompts(at))


def _all_wait_for_a_proof(at: Moment) -> bool:
    return at.terms.proves and all(process.proving for process in at.still)


def _time_is_over(at: Moment) -> bool:
    return at.terms.timeout_s is not None and at.now - at.watch.started >= at.terms.timeout_s


def _one_has_failed(at: Moment) -> bool:
    return first_cause(at.outcomes.values()) is not None


def _a_prompt_was_left(at: Moment) -> bool:
    return at.now - at.watch.resumed < at.terms.grace_s


def _is_out_of_step(at: Moment) -> bool:
    return at.terms.out_of_step


def _all_wait(at: Moment) -> bool:
    return at.terms.counts and bool(at.waiting)


def _always(at: Moment) -> bool:
    return True


def _pause_for_prompts(at: Moment) -> Decision:
    """Show once which processes are at prompts; time at prompts does not count."""
    prompts = _prompts(at)
    paused = at.now if at.watch.paused is None else at.watch.paused
    watch = replace(at.watch, paused=paused, ends_at=None)
    if frozenset(prompts) in watch.prompted:
        return Decision(watch)
    said = prompts_text(prompts, others=len(at.still) > len(prompts), attended=at.terms.attended)
    orders = () if said is None else (Order(Act.NOTE, text=said),)
    return Decision(replace(watch, prompted=watch.prompted | {frozenset(prompts)}), orders)


def _prove(at: Moment) -> Decision:
    """Have the others take part in the proof; stop if that takes long and a process has not finished the cell."""
    joined = at.watch.joined
    if joined is None:
        return Decision(replace(at.watch, joined=at.now), (Order(Act.JOIN),))
    # If all have ended the code with equally many programs, these are still being computed.
    finished = all(s.proving or s.outcome == "finished" for s in at.outcomes.values())
    if at.now - joined >= PROOF_SECONDS and not (finished and at.same_place):
        return stop(at)
    return Decision(at.watch, (Order(Act.SHOW, text=silence(at.outcomes)),))


def _stop_late(at: Moment) -> Decision:
    seconds = seconds_text(at.terms.timeout_s or 0.0)
    late = at._replace(watch=replace(at.watch, timed_out=True))
    return stop(late, f"not finished after {seconds} ({option('timeout_s')})")


def _wait_out_grace(at: Moment) -> Decision:
    """Show which process has failed and which are still in the cell; stop those after the grace period."""
    cause = first_cause(at.outcomes.values())
    assert cause is not None
    failed = at.now if at.watch.failed is None else at.watch.failed
    grace_s = at.terms.grace_s
    if cause.outcome == "gone":
        grace_s = min(grace_s, DEATH_GRACE_SECONDS)
    ends_at = failed + grace_s
    at = at._replace(watch=replace(at.watch, failed=failed, ends_at=ends_at))
    if at.now >= ends_at:
        return stop(at)
    if at.now - failed < SAY_SECONDS:
        return Decision(at.watch)
    ending = f" - will be interrupted in {math.ceil(ends_at - at.now)} s"
    lines = [*failure_lines(cause), *places_text(at.outcomes.values(), ending=ending)]
    return Decision(at.watch, (Order(Act.SHOW, text="\n".join(lines)),))


def _do_nothing(at: Moment) -> Decision:
    """Do nothing: the others have not moved while a process was at a prompt, which proves nothing."""
    return Decision(at.watch)


def _stop_if_all_wait(at: Moment) -> Decision:
    if all_waiting(at.outcomes, longer_than_s=at.terms.grace_s):
        return stop(at, "waiting for something that cannot arrive; the session is out of step")
    return Decision(at.watch)


def _ask(at: Moment) -> Decision:
    """Ask every `ASK_SECONDS` what the processes in the cell's code wait for."""
    if at.now - at.watch.questioned < ASK_SECONDS:
        return _say(at)
    watch = replace(at.watch, questioned=at.now, waiting=None)
    return Decision(watch, (Order(Act.ASK, tuple(at.waiting)),))


def _show_state(at: Moment) -> Decision:
    return _say(at._replace(watch=replace(at.watch, waiting=None)))


def _say(at: Moment) -> Decision:
    waiting = at.watch.waiting
    if waiting is not None:
        ends = "an interrupt of the cell ends the wait"
        waiting = "\n".join([waiting, *places_text(at.outcomes.values()), ends])
    text = waiting or silence(at.outcomes) or divergence(at.outcomes)
    return Decision(at.watch, (Order(Act.SHOW, text=text),))


def _wait_for_leaving(at: Moment) -> Decision:
    watch = at.watch
    failed = watch.failed is not None
    asked, orders = leaving_orders(watch.asked, at.still, at.now, at.terms, failed=failed)
    return Decision(replace(watch, asked=asked), tuple(orders))


class Rule(NamedTuple):
    """A rule of the cell: its condition, and the decision that follows."""

    when: Callable[[Moment], bool]
    then: Callable[[Moment], Decision]


RULES = (
    Rule(_is_stopping, _wait_for_leaving),
    Rule(_one_is_at_a_prompt, _pause_for_prompts),
    Rule(_all_wait_for_a_proof, _prove),
    Rule(_time_is_over, _stop_late),
    Rule(_one_has_failed, _wait_out_grace),
    Rule(_a_prompt_was_left, _do_nothing),
    Rule(_is_out_of_step, _stop_if_all_wait),
    Rule(_all_wait, _ask),
    Rule(_always, _show_state),
)
"""The rules of a cell: the first that holds decides."""


def _resumed(watch: Watched, now: float) -> Watched:
    """Return a watch without the time since a process came to a prompt."""
    paused_s = now - (now if watch.paused is None else watch.paused)
    return replace(
        watch,
        started=watch.started + paused_s,
        failed=None if watch.failed is None else watch.failed + paused_s,
        paused=None,
        resumed=now,
    )


def _prompts(at: Moment) -> dict[int, Prompt]:
    return {s.process_id: s.prompt for s in at.still if s.prompt is not None}
