"""Facts about the processes beyond their reports, as one immutable value.

`ProcessFacts` is kept from cell to cell. Its methods are pure: each takes an event, or a finding, and returns new
facts. `Health` holds the newest for all threads, and passes each change on to the monitor.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from types import MappingProxyType
from typing import Concatenate, ParamSpec

from nbdist.contract.cells import Doubt
from nbdist.errors import Notice, SessionError
from nbdist.launch.model.framework import can_leave_out_hosts, framework_named
from nbdist.launch.model.happenings import ProcessExit
from nbdist.launch.model.plan import Plan
from nbdist.monitor.monitor import Monitor
from nbdist.monitor.states import Failure, Known, has_left
from nbdist.session.cells.outcome import Outcome, ProcessOutcome, first_line
from nbdist.spelling import door, sentence, through

RECOVER = (
    "{recover} brings the processes in step, {pull} brings values here, {restart} starts afresh."
)

ELSEWHERE = (
    "These processes can be brought in step, or started afresh, only where they were started; {pull} brings "
    "values here."
)
"""The advice for processes started by another kernel or somebody else: this kernel cannot reach their agents."""

WITHOUT_REPAIR = (
    "It cannot be started again from here: {pull} brings values here, {restart} starts afresh."
)
"""The advice for a process that is gone with its host, or with the agent that started it."""


WITHOUT_HOST = (
    "{recover} goes on when that host is back, {without} goes on without it, {pull} brings values here, "
    "{restart} starts afresh."
)
"""The advice for such a process if all processes can be started anew, even on fewer hosts."""


WITHOUT_CONTROLLER = (
    "Nothing can be asked of the processes any more. Those that live save their arrays on their hosts, in the "
    "folder for temporary files: process N to nbdist-rescued-PID-*/process-N.npz, which numpy.load reads. "
    "{restart} starts afresh."
)
"""The advice after the end of ipyparallel's controller, through which every request to the processes goes."""

WITHOUT_ANYTHING = "Nothing can be asked of the processes any more. {restart} starts afresh."
"""The advice after the end of the controller if processes save nothing."""


WITHOUT_PROCESSES = (
    "No process is left that has variables: {restart} starts afresh; {restore} brings back a save."
)
"""The advice after the end of all processes: none is left to take names and values from."""


class LifeState(Enum):
    """The states in the life of a session's processes; `to` says which may follow which."""

    STARTING = "starting"
    """The processes are being connected and joined; cells cannot be sent yet."""

    RUNNING = "running"
    """Cells can be sent."""

    REPAIRING = "repairing"
    """The processes are being brought in step again."""

    ENDED = "ended"
    """The processes were stopped, or this kernel has left them."""

    def to(self, other: LifeState) -> LifeState:
        """Return the other state, if it may follow this one or is the same.

        Raises:
          SessionError: It may not.
        """
        if other is not self and other not in _WAYS[self]:
            raise SessionError(f"The session is {self.value}, and cannot be {other.value} now.")
        return other


_WAYS = {
    LifeState.STARTING: {LifeState.RUNNING, LifeState.ENDED},
    LifeState.RUNNING: {LifeState.REPAIRING, LifeState.ENDED},
    LifeState.REPAIRING: {LifeState.RUNNING, LifeState.ENDED},
    LifeState.ENDED: set(),
}
"""The states that may follow each state."""

NO_DOUBT: Mapping[str, Doubt] = MappingProxyType({})

REPLIED: tuple[Outcome, ...] = ("finished", "raised", "interrupted")
"""Outcomes of a process that has replied to a cell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessFacts:
    """Facts about the processes, kept between cells and replaced as a whole.

    Attributes:
      state: The state in the life of the processes.
      workers: The processes that compute in step; a single one is always in step.
      advice: How to go on when they are out of step: a sentence with commands in braces, see `remedy`.
      lost: How processes ended, by process id.
      unreachable: The processes in `lost` whose agents are gone, so that nothing can replace them.
      stuck: The processes that did not come back from an interrupt.
      silent: The hosts that do not answer, each with the Unix time since which it is silent.
      since: The cell after which the session was out of step; None while it is in step.
      why: How it is known that the session is out of step.
      proves: Whether the processes can prove that they are in step; then an interrupt alone does not count as out
        of step.
      notice: The last failure or repair, until another cell has ended.
      diverged: How the cell that has just ended left the processes out of step, even if they were repaired since.
      differ: Whether that was because they had sent different programs.
      forgotten: The paths of the arrays that this cell lost.
      apart: The names that this cell has made differ between the processes.
      mixed: Whether numbers that this cell printed may be wrong.
      unsure: Names in doubt, each with the reason: variables of processes that replaced ended ones, and arrays
        that were rolled back to their copies, of which no person knows yet.
      leaves_out: Whether the session can go on without one of its hosts.
      cut_off: Whether the processes cannot be asked for anything any more.
      last_cell: The number of the last cell that has ended.
      left: For each process, the number of the last sending that it has replied to.
      stuck_in: For each stuck process, the number of the sending that it did not come back from.
      running: The outcomes so far of the processes in a running cell.
      ends_at: When those still in it will be interrupted because another has failed (Unix seconds), if known.
      resizing: What is replacing the processes, such as `3 processes in place of 4`.
    """

    workers: frozenset[int]
    advice: str
    state: LifeState = LifeState.STARTING
    lost: Mapping[int, str] = field(default_factory=dict)
    unreachable: frozenset[int] = frozenset()
    stuck: frozenset[int] = frozenset()
    silent: Mapping[str, float] = field(default_factory=dict)
    since: int | None = None
    why: str | None = None
    proves: bool = False
    notice: Notice | None = None
    diverged: str | None = None
    differ: bool = False
    forgotten: tuple[str, ...] = ()
    apart: tuple[str, ...] = ()
    mixed: bool = False
    unsure: Mapping[str, Doubt] = field(default_factory=dict)
    leaves_out: bool = False
    cut_off: bool = False
    last_cell: int = 0
    left: Mapping[int, int] = field(default_factory=dict)
    stuck_in: Mapping[int, int] = field(default_factory=dict)
    running: Mapping[int, ProcessOutcome] = field(default_factory=dict)
    ends_at: float | None = None
    resizing: str | None = None

    @property
    def out_of_step(self) -> bool:
        """Whether collectives of different processes may no longer match."""
        return self.since is not None

    @property
    def remedy(self) -> str:
        """The sentence that says how to go on now; it offers no repair if nothing can replace a process."""
        if self.cut_off:
            return sentence(WITHOUT_CONTROLLER if self.proves else WITHOUT_ANYTHING)
        if not self.proves or self.advice == ELSEWHERE:
            return sentence(self.advice)
        if not self.workers.isdisjoint(self.unreachable):
            return sentence(WITHOUT_HOST if self.leaves_out else WITHOUT_REPAIR)
        return sentence(WITHOUT_PROCESSES if self.workers <= self.lost.keys() else self.advice)

    @property
    def why_and_advice(self) -> str:
        """The end of a sentence that says the session is out of step."""
        return f"{f': {self.why}' if self.why else ''}. {self.remedy}"

    def has_left(self, process_id: int, run: int | None) -> bool:
        """Return whether a process has replied to the cell of this sending, or to a later one."""
        return run is not None and run <= self.left.get(process_id, -1)

    def to(self, state: LifeState) -> ProcessFacts:
        """Return these facts in another state; an ended session stays ended, as a stop may have come in between.

        Raises:
          SessionError: That state may not follow the present one.
        """
        ended = self.state is LifeState.ENDED
        return self if ended else replace(self, state=self.state.to(state))

    def regained(
        self, *, since: int | None, stuck: frozenset[int], unsure: Mapping[str, Doubt]
    ) -> ProcessFacts:
        """Return these facts with what another kernel has recorded."""
        return replace(self, since=since, stuck=stuck, unsure=unsure)

    def able_to_prove(self, ready: Iterable[bool]) -> ProcessFacts:
        """Return these facts with whether the processes can prove that they are in step.

        Args:
          ready: For each process, whether it can take part in a proof.
        """
        proves = len(self.workers) > 1 and all(ready)
        advice = RECOVER if proves and self.advice != ELSEWHERE else self.advice
        return replace(self, proves=proves, advice=advice)

    def in_cell(
        self, running: Mapping[int, ProcessOutcome], ends_at: float | None = None
    ) -> ProcessFacts:
        """Return these facts while a cell runs; arguments as the attributes of these names."""
        return replace(self, running=running, ends_at=ends_at)

    def after(
        self, outcomes: Mapping[int, ProcessOutcome], cell: int, *, run: int | None = None
    ) -> ProcessFacts:
        """Return these facts after a cell, or after something happened to processes between cells.

        Args:
          outcomes: The outcome of each of its processes.
          cell: The number of the cell; between cells, of the last one.
          run: The number of the cell's sending; None between cells.
        """
        ends = {p: s.outcome for p, s in outcomes.items()}
        broken = ("stuck", "gone") if self.proves else ("interrupted", "stuck", "gone")
        harmed = any(end in broken for p, end in ends.items() if p in self.workers)
        found = {} if run is None else dict.fromkeys(ends, run)
        return replace(
            self,
            lost={**self.lost, **{p: outcomes[p].error or "gone" for p in _with(ends, "gone")}},
            stuck=(self.stuck | _with(ends, "stuck")) - _with(ends, "finished", "raised"),
            notice=None,
            since=cell if harmed and len(self.workers) > 1 and self.since is None else self.since,
            last_cell=cell,
            left={**self.left, **{p: n for p, n in found.items() if ends[p] in REPLIED}},
            stuck_in={**self.stuck_in, **{p: n for p, n in found.items() if ends[p] == "stuck"}},
            running=self.running if run is None else {},
            ends_at=self.ends_at if run is None else None,
        )

    def resized(self, what: str | None) -> ProcessFacts:
        """Return these facts with the text of a resize that is going on; None: none is."""
        return replace(self, resizing=what)

    def found_out_of_step(self, cell: int, why: str) -> ProcessFacts:
        """Return these facts with processes that were found out of step and could not be repaired."""
        return replace(self, since=cell if self.since is None else self.since, why=why)

    def silent_since(self, silent: Mapping[str, float]) -> ProcessFacts:
        """Return these facts with the silent hosts, each with the Unix time of its last message."""
        return replace(self, silent=silent)

    def ended(self, exits: Mapping[int, ProcessExit]) -> ProcessFacts:
        """Return these facts with ends of processes; a known end replaces `out of reach`."""
        new = {
            p: end
            for p, end in exits.items()
            if p not in self.lost or (end.because_of is None and self.lost[p] != str(end))
        }
        gone = {p: _outcome(p, "gone", str(end)) for p, end in new.items()}
        facts = self.after(gone, self.last_cell) if gone else self
        beyond = {
            p
            for p, end in exits.items()
            if end.because_of is not None and not end.of_the_controller
        }
        return replace(facts, unreachable=self.unreachable | beyond)

    def reachable(self, exits: Mapping[int, ProcessExit]) -> ProcessFacts:
        """Return these facts with all processes in reach again, except the ended ones in `exits`."""
        return replace(self, lost={p: end for p, end in self.lost.items() if p in exits})

    def given_up(self, process_ids: Collection[int]) -> ProcessFacts:
        """Return these facts with processes that did not come back from an interrupt between cells."""
        stuck = {p: _outcome(p, "stuck", "did not come back") for p in process_ids}
        return self.after(stuck, self.last_cell)

    def back(self, process_ids: Collection[int]) -> ProcessFacts:
        """Return these facts without these stuck processes, which have left their cell by now."""
        return replace(self, stuck=self.stuck - set(process_ids))

    def without_controller(self) -> ProcessFacts:
        """Return these facts with processes that no kernel can ask for anything any more."""
        return replace(self, cut_off=True)

    def recovered(
        self, done: Notice | None = None, *, unsure: Mapping[str, Doubt] = NO_DOUBT
    ) -> ProcessFacts:
        """Return these facts with all processes back and in step.

        Args:
          done: What was done for that, if anything.
          unsure: The names in doubt, each with the reason.
        """
        return replace(
            self,
            lost={},
            unreachable=frozenset(),
            stuck=frozenset(),
            since=None,
            why=None,
            notice=done,
            unsure={**self.unsure, **unsure},
        )

    def told(self, notice: Notice) -> ProcessFacts:
        """Return these facts with what a person was told of a failure or repair."""
        return replace(self, notice=notice)

    def sure_of(self, names: Collection[str]) -> ProcessFacts:
        """Return these facts without doubts about `names`, which were set again or are to be used as they are."""
        left = {name: why for name, why in self.unsure.items() if name not in names}
        return replace(self, unsure=left)

    def known(self) -> Known:
        """Return the facts for the live view."""
        if self.state is LifeState.ENDED:
            return Known(stopped=True)
        still = any(s.outcome == "running" for s in self.running.values())
        failed = {
            p: Failure(error=first_line(s.error or ""), line=s.line, source=s.source)
            for p, s in self.running.items()
            if still and s.outcome == "raised"
        }
        gone = {p: s.error or "gone" for p, s in self.running.items() if s.outcome == "gone"}
        return Known(
            failed=failed,
            stuck=self.stuck,
            stuck_in={p: run for p, run in self.stuck_in.items() if p in self.stuck},
            lost={**self.lost, **gone},
            silent=self.silent,
            out_of_step=self.out_of_step,
            why=self.why,
            repairing=self.state is LifeState.REPAIRING,
            resizing=self.resizing,
            ends_at=self.ends_at,
            notice=self.notice,
            advice=self.remedy,
        )


def _outcome(process_id: int, outcome: Outcome, error: str) -> ProcessOutcome:
    return ProcessOutcome(process_id=process_id, host="", outcome=outcome, error=error)


def _with(ends: Mapping[int, Outcome], *outcomes: Outcome) -> frozenset[int]:
    return frozenset(p for p, end in ends.items() if end in outcomes)


P = ParamSpec("P")


class Health:
    """The newest facts about the processes; used from any thread.

    Attributes:
      facts: The facts now.
      on_doubt: Called with the names in doubt when a repair adds some, or a person is sure of some.

    Args:
      plan: The processes' plan.
      monitor: Shows what is known.
      within_reach: Whether this kernel reaches the agents of the processes.
    """

    def __init__(self, plan: Plan, monitor: Monitor, *, within_reach: bool = True) -> None:
        self.facts = ProcessFacts(
            workers=frozenset(worker.process_id for worker in plan.workers),
            advice=framework_named(plan.framework).after_failure if within_reach else ELSEWHERE,
            leaves_out=can_leave_out_hosts(plan),
        )
        self.on_doubt: Callable[[Mapping[str, Doubt]], None] = lambda unsure: None
        self._back: dict[int, Callable[[], bool]] = {}
        # Advice in the view uses the syntax of the interface that started the session, whichever thread makes it.
        self._door = door()
        self._monitor = monitor
        self._lock = threading.RLock()

    def note(
        self,
        event: Callable[Concatenate[ProcessFacts, P], ProcessFacts],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> ProcessFacts:
        """Apply an event, a method of `ProcessFacts` with its arguments; return the new facts."""
        with self._lock:
            self.facts = event(self.facts, *args, **kwargs)
            self._show()
            return self.facts

    @contextlib.contextmanager
    def repairing(self) -> Iterator[None]:
        """Show that the processes are being brought in step, while the block runs."""
        self.note(ProcessFacts.to, LifeState.REPAIRING)
        try:
            yield
        finally:
            self.note(ProcessFacts.to, LifeState.RUNNING)

    @contextlib.contextmanager
    def resizing(self, what: str) -> Iterator[None]:
        """Show what replaces the processes, such as `3 processes in place of 4`, while the block runs."""
        self.note(ProcessFacts.resized, what)
        try:
            yield
        finally:
            self.note(ProcessFacts.resized, None)

    def learn(self, outcomes: Mapping[int, ProcessOutcome], cell: int, *, run: int) -> ProcessFacts:
        """Update the facts after a cell has ended; arguments as for `ProcessFacts.after`."""
        with self._lock:
            for process_id in [p for p, s in outcomes.items() if s.outcome == "stuck"]:
                # The question was about the cell in which it was stuck before.
                self._back.pop(process_id, None)
            self._monitor.rest([p for p, s in outcomes.items() if s.outcome in REPLIED], cell)
            return self.note(ProcessFacts.after, outcomes, cell, run=run)

    def stuck(
        self, process_ids: Collection[int], *, back: Callable[[int], bool] | None = None
    ) -> None:
        """Note processes that did not come back from an interrupt.

        Args:
          process_ids: The processes.
          back: Returns whether a process has come back since; default: whether it reports that it has left its
            cell.
        """
        with self._lock:
            self._back |= {p: partial(back, p) for p in process_ids} if back is not None else {}
            self.note(ProcessFacts.given_up, process_ids)

    def notice_returned(self) -> None:
        """Drop the stuck processes that have left their cell by now."""
        back = {p for p in self.facts.stuck if self._is_back(p)}
        with self._lock:
            for process_id in back:
                self._back.pop(process_id, None)
            self.note(ProcessFacts.back, back)

    def _is_back(self, process_id: int) -> bool:
        if (asked := self._back.get(process_id)) is not None:
            return asked()
        activity = self._monitor.activity(process_id)
        if activity is None:
            return False
        run = self.facts.stuck_in.get(process_id)
        return activity.state == "idle" if run is None else has_left(activity, run)

    def recovered(
        self, done: Notice | None = None, *, unsure: Mapping[str, Doubt] = NO_DOUBT
    ) -> None:
        """Note that all processes are back and in step; arguments as for `ProcessFacts.recovered`."""
        facts = self.note(ProcessFacts.recovered, done, unsure=unsure)
        if unsure:
            self.on_doubt(facts.unsure)

    def sure_of(self, names: Collection[str]) -> None:
        """Drop doubts about these names, which were set again, or with which a person goes on as they are."""
        with self._lock:
            before = self.facts.unsure
            facts = self.note(ProcessFacts.sure_of, names)
        if facts.unsure != before:
            self.on_doubt(facts.unsure)

    def _show(self) -> None:
        with through(self._door):
            known = self.facts.known()
        # No report says that the processes asked through `_back` have come back.
        reporting = {p: run for p, run in known.stuck_in.items() if p not in self._back}
        self._monitor.know(replace(known, stuck_in=reporting))
