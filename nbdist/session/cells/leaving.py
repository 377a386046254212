"""Processes that were asked to leave a cell: how they are asked, and what is done until they have left."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple

from nbdist.notation import processes_text, seconds_text
from nbdist.session.cells.outcome import ProcessOutcome, places_text
from nbdist.spelling import option

CUT_SECONDS = 0.4
"""Seconds after an interrupt in which a process may come back by itself: an interrupt that works takes at most
0.3 s (measured)."""

FAILED_CUT_SECONDS = 0.1
"""The same if another process has failed: what still waits after the grace period waits for that process. If none
has failed, a training step may end in the meantime, which leaves all processes in step."""

CUT_AGAIN_SECONDS = 1.0
"""How often to ask a process to cut its collectives: one that computes, sleeps or is leaving ignores the
request."""

BACK_SECONDS = 3.0
"""Seconds a process may take to come back after its collectives were cut: it takes 0.05 to 0.23 s (measured), on a
busy machine more than 1.4 s. A process that takes longer is computing, not waiting."""


class Act(Enum):
    """The acts of a supervisor: on processes, in the order in which they are done; then questions, and texts."""

    TAKE_BACK = "take the cell back before it begins; interrupt where that cannot be asked"
    ABANDON = "end the wait for a proof, without a signal: the code of the cell has ended"
    INTERRUPT = "send the framework's interrupt"
    FREE = "cut the collectives in which processes wait, which no signal reaches"
    RESCUE = "have processes save what they hold"
    GIVE_UP = "end the cell without them"
    JOIN = "have all others take part in the proof; `answered` gets whether it can pass"
    ASK = "ask what processes wait for in vain; `answered` gets the answer"
    NOTE = "add a line below the output, for good"
    SHOW = "show how things stand, until something else is shown or the cell has ended"


@dataclass(frozen=True, slots=True)
class Order:
    """One act, with the processes it is done to, or its text."""

    act: Act
    ids: tuple[int, ...] = ()
    text: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The terms of one cell: its times in seconds, and the means that exist.

    Attributes:
      grace_s: How long others may stay in the cell after one has failed.
      give_up_s: How long after its interrupt a process is given up if it does not come back.
      timeout_s: After this the cell is interrupted; None: never.
      out_of_step: Whether the session was out of step when the cell began.
      attended: Whether somebody waits for the cell.
      proves: Whether processes that have finished the cell wait for a proof that all are in step.
      counts: Whether sent programs are counted, which shows what processes wait for in vain.
      frees: Whether collectives can be cut.
    """

    grace_s: float
    give_up_s: float
    timeout_s: float | None = None
    out_of_step: bool = False
    attended: bool = True
    proves: bool = False
    counts: bool = False
    frees: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedToLeave:
    """A process that was asked to leave.

    `at` is when it was asked, and `queued` whether it had not begun the cell then. `prompts` are the prompts at
    which it was interrupted, `freed` is when its collectives were last cut, `said` whether it was reported as
    late. All times are those of the monotonic clock.
    """

    at: float
    queued: bool = False
    prompts: frozenset[int] = frozenset()
    freed: float | None = None
    said: bool = False


class Phase(Enum):
    """The phase of a process in a cell that it has not left."""

    QUEUED = "it still runs an earlier cell"
    RUNNING = "it is in the cell's code: runs, compiles, waits, or is at a prompt"
    PROVING = "its code has ended; it waits for the proof that all are in step"


def phase(process: ProcessOutcome) -> Phase:
    """Return the phase of a process that is still in the cell."""
    if process.proving:
        return Phase.PROVING
    return Phase.RUNNING if process.begun else Phase.QUEUED


LEAVE = {
    Phase.QUEUED: Act.TAKE_BACK,  # a signal would interrupt the earlier cell
    Phase.RUNNING: Act.INTERRUPT,
    Phase.PROVING: Act.ABANDON,  # a signal might reach what comes after the cell
}
"""The act by which a process is asked to leave, by its phase."""


class Leaver(NamedTuple):
    """A process that was asked to leave and is still in the cell; `failed` says whether another one has failed."""

    process: ProcessOutcome
    asked: AskedToLeave
    now: float
    terms: Terms
    failed: bool

    @property
    def since(self) -> float:
        """Seconds since it was asked."""
        return self.now - self.asked.at

    @property
    def prompts(self) -> frozenset[int]:
        """The prompts at which it was interrupted, or is now."""
        return self.asked.prompts | _numbers(self.process)


def _begins(one: Leaver) -> bool:
    """Return whether it had not begun when it was asked, and has now: a signal sent then was not kept for it."""
    return one.asked.queued and phase(one.process) is Phase.RUNNING


def _is_at_a_new_prompt(one: Leaver) -> bool:
    return one.prompts != one.asked.prompts


def _needs_a_cut(one: Leaver) -> bool:
    """Return whether its collectives are to be cut, perhaps again."""
    since = one.since >= (FAILED_CUT_SECONDS if one.failed else CUT_SECONDS)
    again = one.asked.freed is None or one.now - one.asked.freed >= CUT_AGAIN_SECONDS
    return one.terms.frees and since and again


def _is_late(one: Leaver) -> bool:
    late = one.since >= CUT_SECONDS + BACK_SECONDS
    return late and not one.asked.said and not _is_given_up(one)


def _is_given_up(one: Leaver) -> bool:
    return one.since >= max(one.terms.give_up_s, CUT_SECONDS + BACK_SECONDS)


LEAVING: tuple[tuple[Callable[[Leaver], bool], Act, Callable[[Leaver], AskedToLeave]], ...] = (
    # the condition, the act, and what is remembered
    (_begins, Act.INTERRUPT, lambda one: AskedToLeave(at=one.now, prompts=one.prompts)),
    (_is_at_a_new_prompt, Act.INTERRUPT, lambda one: replace(one.asked, prompts=one.prompts)),
    (_needs_a_cut, Act.FREE, lambda one: replace(one.asked, freed=one.now)),
    (_is_late, Act.RESCUE, lambda one: replace(one.asked, said=True)),
    (_is_given_up, Act.GIVE_UP, lambda one: one.asked),
)
"""The acts on a process that was asked to leave and is still in the cell: each whose condition holds, in order."""


def ask_to_leave(
    still: Iterable[ProcessOutcome], now: float
) -> tuple[dict[int, AskedToLeave], list[Order]]:
    """Return what to remember of processes that are asked to leave, and the orders that ask them; see `LEAVE`."""
    asked, doing = {}, defaultdict[Act, list[int]](list)
    for process in still:
        asked[process.process_id] = AskedToLeave(
            at=now, queued=not process.begun, prompts=_numbers(process)
        )
        doing[LEAVE[phase(process)]].append(process.process_id)
    return asked, _in_order(doing)


def leaving_orders(
    asked: Mapping[int, AskedToLeave],
    still: Iterable[ProcessOutcome],
    now: float,
    terms: Terms,
    *,
    failed: bool,
) -> tuple[dict[int, AskedToLeave], list[Order]]:
    """Return what to remember of processes that were asked to leave, and the orders now due; see `LEAVING`."""
    asked, late = dict(asked), defaultdict[Act, list[Leaver]](list)
    for process in still:
        one = Leaver(process, asked[process.process_id], now, terms, failed)
        for due, act, remember in LEAVING:
            if due(one):
                late[act].append(one)
                one = one._replace(asked=remember(one))
        asked[process.process_id] = one.asked
    orders = _in_order({act: [one.process.process_id for one in late[act]] for act in late})
    for act, text in ((Act.RESCUE, _not_back), (Act.GIVE_UP, _given_up)):
        if act in late:
            orders.append(Order(Act.NOTE, text=text(late[act])))
    return asked, orders


def _in_order(doing: Mapping[Act, Sequence[int]]) -> list[Order]:
    return [Order(act, tuple(doing[act])) for act in Act if act in doing]


def _numbers(process: ProcessOutcome) -> frozenset[int]:
    return frozenset() if process.prompt is None else frozenset({process.prompt.number})


def _not_back(late: Sequence[Leaver]) -> str:
    """Return a text about processes that run on although they were interrupted, and when they are given up."""
    left = seconds_text(max(0.0, late[0].terms.give_up_s - max(one.since for one in late)))
    what = f"{_processes(late)}   not stopped by the interrupt yet; given up in {left}"
    places = places_text(one.process for one in late)
    return "\n".join([f"{what} ({option('give_up_s')})", *places])


def _given_up(late: Sequence[Leaver]) -> str:
    """Return a text about processes that the cell ends without."""
    since = seconds_text(max(one.since for one in late))
    lines = [f"   {line}" for line in places_text(one.process for one in late)]
    if compiling := [one for one in late if one.process.compiling]:
        lines.append(
            f"   {_processes(compiling)} cannot be interrupted before the compilation has ended"
        )
    text = f"{_processes(late)}   stuck: still running {since} after the interrupt"
    return "\n".join([text, *lines])


def _processes(late: Iterable[Leaver]) -> str:
    return processes_text([one.process.process_id for one in late])
