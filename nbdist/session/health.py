"""The state of a session's processes: where they are in their life, and facts beyond their reports."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from enum import Enum
from functools import partial
from types import MappingProxyType

from nbdist.contract.cells import Doubt
from nbdist.errors import SessionError
from nbdist.launch.model.framework import can_leave_out_hosts, framework_named
from nbdist.launch.model.happenings import ProcessExit
from nbdist.launch.model.plan import Plan
from nbdist.monitor import Known
from nbdist.monitor.monitor import Monitor
from nbdist.monitor.states import has_left
from nbdist.session.cells.facts import ELSEWHERE, RECOVER, ProcessFacts
from nbdist.session.cells.outcome import Outcome, ProcessOutcome
from nbdist.spelling import door, through


class EngineState(Enum):
    """The states in the life of a session's processes; `to` says which may follow which."""

    STARTING = "starting"
    """The processes are being connected, or joined; cells cannot be sent yet."""

    RUNNING = "running"
    """Cells can be sent."""

    REPAIRING = "repairing"
    """The processes are being brought in step again."""

    ENDED = "ended"
    """The processes were stopped, or this kernel has left them."""

    def to(self, other: EngineState) -> EngineState:
        """Return the other state, if it may follow this one or is the same.

        Raises:
          SessionError: It may not.
        """
        if other is not self and other not in _WAYS[self]:
            raise SessionError(f"The session is {self.value}, and cannot be {other.value} now.")
        return other


_WAYS = {
    EngineState.STARTING: {EngineState.RUNNING, EngineState.ENDED},
    EngineState.RUNNING: {EngineState.REPAIRING, EngineState.ENDED},
    EngineState.REPAIRING: {EngineState.RUNNING, EngineState.ENDED},
    EngineState.ENDED: set(),
}
"""The states that may follow each state."""


LEFT: tuple[Outcome, ...] = ("finished", "raised", "interrupted")
"""Outcomes of a process that has replied."""


class Health:
    """The facts about the processes, from one cell to the next; the monitor learns each change.

    Used from any thread.

    Attributes:
      state: Where the processes are in their life.
      facts: What is known of them.
      last_cell: The number of the last cell that has ended.
      on_doubt: Called with the names in doubt when they change.

    Args:
      plan: The processes' plan.
      monitor: Shows what is known.
      within_reach: Whether agents of the processes can be reached from here.
    """

    def __init__(self, plan: Plan, monitor: Monitor, *, within_reach: bool = True) -> None:
        self.state = EngineState.STARTING
        self.facts = ProcessFacts(
            workers=frozenset(worker.process_id for worker in plan.workers),
            advice=framework_named(plan.framework).after_failure if within_reach else ELSEWHERE,
            leaves_out=can_leave_out_hosts(plan),
        )
        self.last_cell = 0
        self.on_doubt: Callable[[Mapping[str, Doubt]], None] = lambda unsure: None
        self._recover = RECOVER if within_reach else ELSEWHERE
        self._left: dict[int, int] = {}
        self._stuck_in: dict[int, int] = {}
        self._back: dict[int, Callable[[], bool]] = {}
        self._resizing: str | None = None
        # The view addresses the person who started the session, whichever thread brings the news.
        self._door = door()
        self._hosts = plan.hosts
        self._monitor = monitor
        self._outcomes: Mapping[int, ProcessOutcome] = {}
        self._lock = threading.Lock()

    def regain(
        self, *, since: int | None, stuck: frozenset[int], unsure: Mapping[str, Doubt]
    ) -> None:
        """Take the notes of another kernel; arguments as in `ProcessFacts`."""
        with self._lock:
            self.facts = replace(self.facts, since=since, stuck=stuck, unsure=unsure)
            self._show()

    def can_prove(self, ready: Iterable[bool]) -> None:
        """Note whether the processes can prove that they are in step; an interrupt alone then says nothing.

        Args:
          ready: For each process, whether it can take part in a proof.
        """
        proves = len(self.facts.workers) > 1 and all(ready)
        with self._lock:
            advice = self._recover if proves else self.facts.advice
            self.facts = replace(self.facts, proves=proves, advice=advice)
            self._show()

    def running(self) -> None:
        """Note that cells can be sent."""
        self._to(EngineState.RUNNING)

    def ended(self) -> None:
        """Note that the processes were stopped, or left by this kernel; later facts are not shown."""
        self._to(EngineState.ENDED)

    @contextlib.contextmanager
    def repairing(self) -> Iterator[None]:
        """Show that the processes are being brought in step, while the block runs."""
        self._to(EngineState.REPAIRING)
        try:
            yield
        finally:
            self._to(EngineState.RUNNING)

    @contextlib.contextmanager
    def resizing(self, what: str) -> Iterator[None]:
        """Show what replaces the processes, such as `3 processes in place of 4`, while the block runs."""
        self._resizing = what
        self._show()
        try:
            yield
        finally:
            self._resizing = None
            self._show()

    def out_of_step(self, cell: int, why: str) -> None:
        """Note that the processes are not in step, and could not be brought in step."""
        with self._lock:
            since = cell if self.facts.since is None else self.facts.since
            self.facts = replace(self.facts, since=since, why=why)
            self._show()

    def stuck(
        self, process_ids: Collection[int], *, back: Callable[[int], bool] | None = None
    ) -> None:
        """Note processes that did not come back from an interrupt.

        Args:
          process_ids: The processes.
          back: Returns whether one has come back since; default: whether it reports that it has left its cell.
        """
        stuck = {p: self._process_outcome(p, "stuck", "did not come back") for p in process_ids}
        self._back.update({p: partial(back, p) for p in process_ids} if back is not None else {})
        self.learn(stuck, self.last_cell)

    def take_back(self) -> None:
        """Count stuck processes that have left their cell by now as normal again."""
        back = {p for p in self.facts.stuck if self._is_back(p)}
        for process_id in back:
            self._back.pop(process_id, None)
        with self._lock:
            self.facts = replace(self.facts, stuck=self.facts.stuck - back)
            self._show()

    def _is_back(self, process_id: int) -> bool:
        if process_id in self._back:
            return self._back[process_id]()
        activity = self._monitor.activity(process_id)
        if activity is None:
            return False
        run = self._stuck_in.get(process_id)
        return activity.state == "idle" if run is None else has_left(activity, run)

    def silent(self, since: Mapping[str, float]) -> None:
        """Note the hosts that do not answer, each with the Unix time since when."""
        with self._lock:
            self.facts = self.facts.silent_since(since)
            self._show()

    def lost(self, exits: Mapping[int, ProcessExit]) -> None:
        """Take the ends of processes; a known end replaces one that only says a process is out of reach."""
        known = self.facts.lost
        new = {
            p: end
            for p, end in exits.items()
            if p not in known or (end.because_of is None and known[p] != str(end))
        }
        if new:
            gone = {p: self._process_outcome(p, "gone", str(end)) for p, end in new.items()}
            self.learn(gone, self.last_cell)
        unreachable = {
            p
            for p, end in exits.items()
            if end.because_of is not None and not end.of_the_controller
        }
        with self._lock:
            self.facts = replace(self.facts, unreachable=self.facts.unreachable | unreachable)
            self._show()

    def found(self, exits: Mapping[int, ProcessExit]) -> None:
        """Count processes that were out of reach as reachable again, except `exits`, those that have ended."""
        with self._lock:
            lost = {p: end for p, end in self.facts.lost.items() if p in exits}
            self.facts = replace(self.facts, lost=lost)
            self._show()

    def cut_off(self) -> None:
        """Note that the processes cannot be asked for anything any more, from here or elsewhere."""
        with self._lock:
            self.facts = replace(self.facts, cut_off=True)
            self._show()

    def take_outcomes(self, outcomes: Mapping[int, ProcessOutcome]) -> None:
        """Show where the processes are in a running cell, until it ends."""
        with self._lock:
            self._outcomes = outcomes
            self._show()

    def learn(
        self, outcomes: Mapping[int, ProcessOutcome], cell: int, *, run: int | None = None
    ) -> ProcessFacts:
        """Learn from a cell that has ended, or from what happened to processes between cells; return the facts.

        Args:
          outcomes: How it went on each of its processes.
          cell: The number of the cell; between cells, of the last one.
          run: The number of the cell's sending; None between cells.
        """
        left = [p for p, s in outcomes.items() if s.outcome in LEFT]
        with self._lock:
            self.last_cell = cell
            if run is not None:
                self._left.update(dict.fromkeys(left, run))
                for process_id in [p for p, s in outcomes.items() if s.outcome == "stuck"]:
                    self._stuck_in[process_id] = run
                    self._back.pop(process_id, None)  # of what it was stuck in before
            self._outcomes = {}
            self.facts = self.facts.after(outcomes, cell)
            self._monitor.rest(left, cell)
            self._show()
            return self.facts

    def has_left(self, process_id: int, run: int | None) -> bool:
        """Return whether a process has replied to the cell of this sending, or to a later one."""
        return run is not None and run <= self._left.get(process_id, -1)

    def recovered(
        self, done: str | None = None, *, unsure: Mapping[str, Doubt] = MappingProxyType({})
    ) -> None:
        """Note that all processes are back and in step; `done` says what it took, if anything.

        `unsure` has the names that may not hold what ended processes had, each with the reason.
        """
        with self._lock:
            self.facts = self.facts.recovered(done, unsure=unsure)
            self._show()
        if unsure:
            self.on_doubt(self.facts.unsure)

    def sure_of(self, names: Collection[str]) -> None:
        """Drop doubts about these names: each was set again, or a person goes on with it as it is."""
        with self._lock:
            left = {name: why for name, why in self.facts.unsure.items() if name not in names}
            changed = left.keys() != self.facts.unsure.keys()
            self.facts = replace(self.facts, unsure=left)
            self._show()
        if changed:
            self.on_doubt(left)

    def _to(self, state: EngineState) -> None:
        with self._lock:
            if self.state is not EngineState.ENDED:  # a stop may have come in between
                self.state = self.state.to(state)
            self._show()

    def _show(self) -> None:
        if self.state is EngineState.ENDED:
            self._monitor.know(Known(stopped=True))
            return
        repairing = self.state is EngineState.REPAIRING
        with through(self._door):
            known = self.facts.known(self._outcomes, repairing=repairing, resizing=self._resizing)
        if known.stuck:
            # Of those in `_back` no report says that they are back.
            reporting = (known.stuck - self._back.keys()) & self._stuck_in.keys()
            known = replace(known, stuck_in={p: self._stuck_in[p] for p in reporting})
        self._monitor.know(known)

    def _process_outcome(self, process_id: int, outcome: Outcome, error: str) -> ProcessOutcome:
        return ProcessOutcome(
            process_id=process_id,
            host=self._hosts[process_id],
            one_host=len(set(self._hosts.values())) == 1,
            outcome=outcome,
            error=error,
        )
