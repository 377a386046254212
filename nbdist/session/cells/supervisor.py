"""`CellSupervisor`: shows the output of a running cell as it arrives, and sees that the cell cannot hang.

`CellContext` is the part of a session that a cell needs, `EndOfCell` what the session gets back.
`nbdist.session.cells.watch` decides what to do in which state of the cell; the supervisor observes and acts.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import wait
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from nbdist.contract.asides import LineReply
from nbdist.contract.cells import OpenCell
from nbdist.contract.iopub import CellStep
from nbdist.errors import Notice
from nbdist.interrupts import put_off, raise_put_off
from nbdist.launch.start.cluster import Cluster
from nbdist.monitor.monitor import Monitor
from nbdist.session.cells.execution import Cell, Execution
from nbdist.session.cells.facts import ProcessFacts
from nbdist.session.cells.late import EarlierCells
from nbdist.session.cells.leaving import Act, Order, Terms
from nbdist.session.cells.outcome import ProcessOutcome, running
from nbdist.session.cells.watch import Decision, InVain, Moment, Watched, answered, look, stop
from nbdist.view.widgets import Widgets


@dataclass(frozen=True, slots=True)
class Remedies:
    """The means, besides an interrupt, that a supervisor may use on processes that do not leave a cell.

    Attributes:
      abandon: Ends the processes' wait for a proof.
      rescue: Makes processes that are about to be given up save what is in their memory.
      join: Makes the processes that have left the cell, or never were in it, take part in the proof in which the
        others wait; returns whether it can pass. None if the session proves nothing.
      in_vain: Returns what processes wait for in vain; None if it may still arrive. The attribute is None if sent
        programs are not counted.
      free: Ends the collectives of processes that no signal reaches. None if that is not possible.
      reply: Sends a process the reply to a question of its debugger, by number; returns whether it was taken.
    """

    abandon: Callable[[Sequence[int]], None] = lambda ids: None
    rescue: Callable[[Sequence[int]], None] = lambda ids: None
    join: Callable[[Execution], bool] | None = None
    in_vain: Callable[[Execution, Collection[int]], InVain | None] | None = None
    free: Callable[[Sequence[int]], None] | None = None
    reply: Callable[[int, int, LineReply], bool] = lambda process_id, number, reply: False


def nothing(*_: Any) -> None:
    """Do nothing: the default of callbacks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndOfCell:
    """The end of a cell.

    Attributes:
      outcomes: The final outcome of each process.
      started: When the cell was sent (Unix seconds).
      number: The number of this sending.
      clean: Whether all targets have finished the cell and found themselves in step.
      steps: For each process that sent programs, what it reports to have sent.
      began_out_of_step: Whether the processes were out of step when the cell began; it then computed nothing.
      say: Shows a line while something takes long; later it is a detail.
      note: Shows a line below the cell's output.
    """

    cell: Cell
    outcomes: dict[int, ProcessOutcome]
    started: float
    number: int
    clean: bool
    steps: Mapping[int, CellStep]
    began_out_of_step: bool
    say: Callable[[str], None]
    note: Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class CellContext:
    """The part of a session that one cell needs.

    Attributes:
      cluster: The connection to the processes.
      hosts: Host names by process id.
      reports: The processes' reports.
      facts: What is known of the processes now.
      interrupt: Sends the framework's interrupt to processes.
      remedies: The means for processes that do not leave the cell.
      folder: The folder for output that is too large to keep in memory.
      grace_s: How many seconds other processes may stay in the cell after one has failed.
      give_up_s: As in `Terms`.
      next_number: Returns a number for this sending.
      in_step: The last program after which all processes are known to be in step, as in a cell's label.
      widgets: The processes' widgets; None if they are shown as text.
      earlier: The cells that have ended before, whose displays this one may change.
      progress: Called while the cell runs with the outcome of each process so far, and with the Unix time at which
        those still in the cell will be interrupted because another has failed, if it is known.
      began: Called with the cell's run and its target processes, before it is sent.
      requested: Called with the cell and the numbers of its requests so far, before these are sent.
      ended: Takes the cell's end; returns what is known afterwards.
      noticed: Called with the notice of a failure or repair at the cell's end.
      leaves: Called on an interrupt; returns whether this kernel ends and the cell goes on without it.
    """

    cluster: Cluster
    hosts: Mapping[int, str]
    reports: Monitor
    facts: ProcessFacts
    interrupt: Callable[[Sequence[int]], None]
    remedies: Remedies
    folder: Path
    grace_s: float
    give_up_s: float
    ended: Callable[[EndOfCell], ProcessFacts]
    next_number: Callable[[], int] = time.time_ns
    in_step: tuple[int, int] | None = None
    widgets: Widgets | None = None
    earlier: EarlierCells = field(default_factory=EarlierCells)
    progress: Callable[[dict[int, ProcessOutcome], float | None], object] = field(default=nothing)
    began: Callable[[int, Sequence[int]], None] = field(default=nothing)
    requested: Callable[[OpenCell], None] = field(default=nothing)
    noticed: Callable[[Notice], object] = field(default=nothing)
    leaves: Callable[[], bool] = lambda: False


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
      progress: Called when its arguments have changed, as in `CellContext`.
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
    progress: Callable[[dict[int, ProcessOutcome], float | None], object] = nothing
    remedies: Remedies = field(default_factory=Remedies)
    answer: Callable[[], None] = lambda: None
    leaves: Callable[[], bool] = lambda: False
    left: bool = False
    watch: Watched = field(init=False)
    _told: tuple[frozenset[int], float | None] = (frozenset(), None)
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
        if not running(outcomes.values()):
            self._tell(outcomes)
            return outcomes
        with self._lock:
            asked = self._do(look(self._look(outcomes)))
        self._tell(outcomes)
        if asked is not None:
            answer = self._answer_to(asked)
            with self._lock:
                self._do(answered(self._look(outcomes), asked, answer))
        self.refresh()
        if not self.watch.stopping:
            self.answer()
        return None

    def _tell(self, outcomes: dict[int, ProcessOutcome]) -> None:
        ended = frozenset(p for p, s in outcomes.items() if s.outcome != "running")
        ends_at = self.watch.ends_at
        if (ended, ends_at) != self._told:
            self._told = ended, ends_at
            self.progress(
                outcomes, None if ends_at is None else time.time() + ends_at - time.monotonic()
            )

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
