"""Supervision of a running cell: its output is shown as it arrives, and it cannot hang.

`nbdist.session.cells.watch` decides what to do in which state of the cell; `CellSupervisor` observes and acts.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import wait
from dataclasses import dataclass, field, replace

from nbdist.errors import CellTimeout
from nbdist.interrupts import put_off, raise_put_off
from nbdist.notation import processes_text, seconds_text
from nbdist.session.cells.context import Remedies
from nbdist.session.cells.execution import Execution
from nbdist.session.cells.facts import ProcessFacts
from nbdist.session.cells.leaving import Act, Order, Terms
from nbdist.session.cells.outcome import ProcessOutcome, running
from nbdist.session.cells.watch import Decision, InVain, Moment, Watched, answered, look, stop
from nbdist.spelling import option

TICK_SECONDS = 0.05
SETTLE_SECONDS = 0.01


@dataclass
class CellSupervisor:
    """Follows one execution to its end.

    Args:
      execution: The execution of the cell, which has been sent.
      interrupt: Sends the framework's interrupt to processes.
      refresh: Draws the output; called often.
      terms: The cell's times; `proves`, `counts` and `frees` are set from `remedies`.
      progress: Called when outcomes have changed, for the live view.
      remedies: The means for processes that do not leave the cell.
      answer: Called often; asks the person who waits for the cell, if any, for the line that a process wants.
      leaves: Called on an interrupt; returns whether this kernel ends and the cell goes on without it.
      left: Whether this kernel has left the cell because it ends.
      watch: What is remembered of the cell from one look to the next; replaced under a lock.
    """

    execution: Execution
    interrupt: Callable[[Sequence[int]], None]
    refresh: Callable[[], None]
    terms: Terms
    progress: Callable[[dict[int, ProcessOutcome]], object] = lambda outcomes: None
    remedies: Remedies = field(default_factory=Remedies)
    answer: Callable[[], None] = lambda: None
    leaves: Callable[[], bool] = lambda: False
    left: bool = False
    watch: Watched = field(init=False)
    _ended: frozenset[int] = frozenset()
    # Only one thread steps; any thread may interrupt.
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.watch = Watched(started=time.monotonic())
        self.terms = replace(
            self.terms,
            proves=self.remedies.join is not None,
            counts=self.remedies.in_vain is not None,
            frees=self.remedies.free is not None,
        )

    def until_end(self) -> dict[int, ProcessOutcome]:
        """Return the final outcomes, once every process has left the cell or is stuck.

        Raises:
          KeyboardInterrupt: The user's; the processes have been interrupted too, unless the cell was `left`.
        """
        with put_off():
            try:
                while (outcomes := self._step()) is None:
                    raise_put_off()
                return outcomes
            except KeyboardInterrupt:
                self.left = self.leaves()
                if not self.left:
                    self._interrupted_by_user()
                raise

    def step_until(self, deadline: float) -> dict[int, ProcessOutcome] | None:
        """Act as `until_end`, but return None at `deadline` (monotonic clock)."""
        while time.monotonic() < deadline:
            if (outcomes := self._step()) is not None:
                return outcomes
        return None

    def interrupt_all(self) -> None:
        """Interrupt all processes still in the cell; the thread that steps does the rest."""
        with put_off(), self._lock:
            if not self.watch.stopping:
                self._do(stop(self._look(self.execution.outcomes())))

    def _step(self) -> dict[int, ProcessOutcome] | None:
        pending = self.execution.pending()
        if pending:
            wait(pending, timeout=TICK_SECONDS)
        else:
            # All replies are in, one perhaps because its process has died: its end is reported in a moment.
            time.sleep(SETTLE_SECONDS)
        outcomes = self.execution.outcomes()
        ended = frozenset(p for p, s in outcomes.items() if s.outcome != "running")
        if ended != self._ended:
            self._ended = ended
            self.progress(outcomes)
        if len(ended) == len(outcomes):
            return outcomes
        with self._lock:
            asked = self._do(look(self._look(outcomes)))
        if asked is not None:
            answer = self._answer_to(asked)
            with self._lock:
                self._do(answered(self._look(outcomes), asked, answer))
        self.refresh()
        if not self.watch.stopping:
            self.answer()
        return None

    def _look(self, outcomes: dict[int, ProcessOutcome]) -> Moment:
        places = {step.sent.place for step in self.execution.steps.values()}
        return Moment(self.watch, outcomes, time.monotonic(), self.terms, len(places) < 2)

    def _do(self, done: Decision) -> Order | None:
        """Remember and carry out a decision; return a question that is to be asked outside the lock."""
        if done.watch.stopping and not self.watch.stopping:
            self.execution.mark(done.watch.asked, "interrupted")
        self.watch = done.watch
        for order in done.orders:
            if order.act in (Act.JOIN, Act.ASK):
                return order
            self._carry_out(order.act, list(order.ids), order.text)
        return None

    def _carry_out(self, act: Act, ids: list[int], text: str | None) -> None:
        match act:
            case Act.TAKE_BACK:
                asked = self.execution.withdraw(ids)
                if left := [p for p in ids if p not in asked]:
                    self.interrupt(left)
            case Act.ABANDON:
                self.remedies.abandon(ids)
            case Act.INTERRUPT:
                self.interrupt(ids)
            case Act.FREE if self.remedies.free is not None:
                self.execution.mark_cut(ids)
                self.remedies.free(ids)
            case Act.RESCUE:
                self.remedies.rescue(ids)
            case Act.GIVE_UP:
                self.execution.mark(ids, "stuck")
            case Act.NOTE if text is not None:
                self.execution.output.note(text)
            case Act.SHOW:
                self.execution.output.meanwhile(text)

    def _answer_to(self, asked: Order) -> bool | InVain | None:
        """Ask the question `asked`; this takes a while, in which the cell may be interrupted."""
        if asked.act is Act.JOIN:
            return self.remedies.join is not None and self.remedies.join(self.execution)
        in_vain = self.remedies.in_vain
        return None if in_vain is None else in_vain(self.execution, asked.ids)

    def _interrupted_by_user(self) -> None:
        self.interrupt_all()
        try:
            while self._step() is None:
                raise_put_off()
        except KeyboardInterrupt:
            # A second interrupt: the person will not wait for `give_up_s`.
            self.execution.mark(
                [s.process_id for s in running(self.execution.outcomes().values())], "stuck"
            )


def timeout_error(
    outcomes: dict[int, ProcessOutcome], timeout_s: float, facts: ProcessFacts
) -> CellTimeout:
    """Return the error of a cell that reached its `timeout_s`; a repair after it is reported separately."""
    # A process may have finished, or failed, while it was being interrupted.
    late = [p for p, s in outcomes.items() if s.outcome in ("interrupted", "stuck")] or [*outcomes]
    return CellTimeout(
        f"{processes_text(late)} did not finish the cell within {seconds_text(timeout_s)} "
        f"({option('timeout_s')}) and {'was' if len(late) == 1 else 'were'} interrupted{_kept(facts)}"
    )


def _kept(facts: ProcessFacts) -> str:
    if facts.out_of_step:
        return f"; the session is out of step. {facts.remedy}"
    return "." if facts.repaired is not None else "; variables are kept."
