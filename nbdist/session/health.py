"""The newest facts about a session's processes, for all threads; each change goes to the monitor."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Concatenate, ParamSpec

from nbdist.contract.cells import Doubt
from nbdist.launch.model.framework import can_leave_out_hosts, framework_named
from nbdist.launch.model.plan import Plan
from nbdist.monitor.monitor import Monitor
from nbdist.monitor.states import has_left
from nbdist.notice import Notice
from nbdist.session.cells.facts import ELSEWHERE, NO_DOUBT, REPLIED, LifeState, ProcessFacts
from nbdist.session.cells.outcome import ProcessOutcome
from nbdist.spelling import door, through

P = ParamSpec("P")


class Health:
    """The holder of the facts about the processes; used from any thread.

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
