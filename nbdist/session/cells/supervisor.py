"""Seeing a cell through: its output shown as it comes, and no way to hang.

The rules, in the order they are looked at:

* a process waits at the prompt of a debugger: said; until it goes on nobody is late, and nobody is interrupted;
* one process has failed, others are still in the cell: said within `SAY_SECONDS`, the others are
  interrupted after the grace period;
* a process is not back `CUT_SECONDS` after its interrupt (`FAILED_CUT_SECONDS` where another has failed): where no
  signal reaches it, its collectives are cut;
* a process is not back `give_up_s` after its interrupt: reported, and the cell ends without it;
* all that are still in the cell have finished its code and wait for a proof that all are in step: the others are
  asked to take part, or the wait is ended where they have sent other programs;
* those that are still in the code of the cell wait for programs that the others, which have finished it or were
  never in it, have not sent: interrupted after the grace period;
* nobody has failed, but processes wait in one line while others are elsewhere, or all wait: said as long as it is
  so, nothing done;
* the session is out of step, and processes wait for what cannot come: interrupted after the grace period.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import wait
from dataclasses import dataclass, field

from nbdist.errors import CellTimeout
from nbdist.interrupts import put_off, raise_put_off
from nbdist.notation import processes_text, seconds_text
from nbdist.session.cells.context import Remedies
from nbdist.session.cells.execution import Execution
from nbdist.session.cells.facts import ProcessFacts
from nbdist.session.cells.outcome import (
    ProcessOutcome,
    divergence,
    first_cause,
    nobody_can_join,
    running,
    say_failure,
    say_where_all,
    silence,
)
from nbdist.session.cells.prompts import say_prompts
from nbdist.spelling import option

TICK_SECONDS = 0.05
SETTLE_SECONDS = 0.01
SAY_SECONDS = 1.0
"""How long after a failure the supervisor says that others are still in the cell; if all fail, it says nothing."""
DEATH_GRACE_SECONDS = 1.5
"""The grace period after a death: no process can successfully wait for that one."""

CUT_SECONDS = 0.4
"""How long after its interrupt a process may be back by itself: an interrupt that works arrives within 0.3 s
(measured)."""

FAILED_CUT_SECONDS = 0.1
"""The same where another process has failed: whoever still waits after the grace period waits for that one.
Where nobody has failed, a training step may end meanwhile, and then all are in step."""

CUT_AGAIN_SECONDS = 1.0
"""How often to ask a process to cut: it does not while it computes, sleeps or is on its way out."""

BACK_SECONDS = 3.0
"""How long a process may take to come back after its collectives were cut: it takes 0.05 to 0.23 s (measured),
on a busy machine more than 1.4 s. One that is not back by then computes by itself."""

ASK_SECONDS = 1.0
"""How often to ask waiting processes what they have sent."""

PROOF_SECONDS = 5.0
"""How long a proof may take when another process did not finish the cell."""


@dataclass
class CellSupervisor:
    """Follows one execution to its end.

    Args:
      execution: The cell, already sent.
      interrupt: Sends the framework's interrupt to processes.
      refresh: Draws the output; called often.
      grace_s: How long others may stay in the cell after one has failed.
      give_up_s: How long after its interrupt a process that does not come back is given up.
      timeout_s: After this the cell is interrupted and `CellTimeout` raised; None: never.
      out_of_step: Whether the session was out of step when the cell began.
      progress: Called when outcomes have changed, for the live view.
      remedies: For processes that do not leave the cell.
      answer: Called often; if somebody waits for the cell, asks the person for the line that a process waits for.
      attended: Whether somebody waits for the cell.
      leaves: Called on an interrupt; returns whether this kernel ends and the cell goes on without it.
      left: Whether this kernel left the cell in this way.
    """

    execution: Execution
    interrupt: Callable[[Sequence[int]], None]
    refresh: Callable[[], None]
    grace_s: float
    give_up_s: float
    timeout_s: float | None = None
    out_of_step: bool = False
    progress: Callable[[dict[int, ProcessOutcome]], None] = lambda outcomes: None
    remedies: Remedies = field(default_factory=Remedies)
    answer: Callable[[], None] = lambda: None
    attended: bool = True
    leaves: Callable[[], bool] = lambda: False
    left: bool = False
    interrupted_at: float | None = None
    timed_out: bool = False
    in_vain: str | None = None
    _failed_at: float | None = None
    _all_wait: str | None = None
    _left: frozenset[int] = frozenset()
    _freed_at: float | None = None
    _early: frozenset[int] = frozenset()
    _said_alone: bool = False
    _joined_at: float | None = None
    _asked_at: float = 0.0
    _started: float | None = None
    _paused_at: float | None = None
    _resumed_at: float | None = None
    _prompting: set[frozenset[int]] = field(default_factory=set)
    _stopped_prompts: set[int] = field(default_factory=set)

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
        """Do as `until_end`, but stop waiting at `deadline` (monotonic clock) and return None."""
        while time.monotonic() < deadline:
            if (outcomes := self._step()) is not None:
                return outcomes
        return None

    def interrupt_all(self) -> None:
        """Interrupt all processes still in the cell; the thread that steps handles what follows."""
        if self.interrupted_at is None:
            self._stop(self.execution.outcomes(), None)

    def _step(self) -> dict[int, ProcessOutcome] | None:
        if self._started is None:
            self._started = time.monotonic()
        pending = self.execution.pending()
        if pending:
            wait(pending, timeout=TICK_SECONDS)
        else:
            # A reply without an answer, as when a process has died: its end is reported in a moment.
            time.sleep(SETTLE_SECONDS)
        outcomes = self.execution.outcomes()
        still = running(outcomes.values())
        left = frozenset(p for p, s in outcomes.items() if s.outcome != "running")
        if left != self._left:
            self._left = left
            self.progress(outcomes)
        if not still:
            return outcomes
        now = time.monotonic()
        if not self._pauses(outcomes, now):
            self._watch(outcomes, now)
        self.refresh()
        if self.interrupted_at is None:
            self.answer()
        return None

    def _pauses(self, outcomes: dict[int, ProcessOutcome], now: float) -> bool:
        """Return whether a process is at a prompt; the time it spends there does not count."""
        still = running(outcomes.values())
        prompts = {s.process_id: s.prompt for s in still if s.prompt is not None}
        if prompts and self.interrupted_at is None:
            self._paused_at = self._paused_at or now
            if frozenset(prompts) not in self._prompting:
                self._prompting.add(frozenset(prompts))
                others = len(still) > len(prompts)
                said = say_prompts(prompts, others=others, attended=self.attended)
                if said is not None:
                    self.execution.output.note(said)
            return True
        if self._paused_at is not None:
            paused_s, self._paused_at, self._resumed_at = now - self._paused_at, None, now
            self._started = (self._started or now) + paused_s
            self._failed_at = None if self._failed_at is None else self._failed_at + paused_s
        return False

    def _watch(self, outcomes: dict[int, ProcessOutcome], now: float) -> None:
        if self.interrupted_at is not None:
            self._end_prompts(outcomes)
            self._interrupt_late(outcomes, now)
            if now - self.interrupted_at >= self._cut_seconds:
                self._free(outcomes, now)
            if now - self.interrupted_at >= max(self.give_up_s, CUT_SECONDS + BACK_SECONDS):
                self._give_up(outcomes, now - self.interrupted_at)
            else:
                self._say_alone(outcomes, now)
            return
        still = running(outcomes.values())
        if self.remedies.join is not None and all(process.proving for process in still):
            self._prove(outcomes, now)
            return
        if self.timeout_s is not None and now - (self._started or now) >= self.timeout_s:
            self.timed_out = True
            self._stop(
                outcomes,
                f"not finished after {seconds_text(self.timeout_s)} ({option('timeout_s')})",
            )
            return
        cause = first_cause(outcomes.values())
        if cause is not None:
            self._after_failure(cause, outcomes, now)
        elif self._resumed_at is not None and now - self._resumed_at < self.grace_s:
            pass  # the others have stood in their lines for as long as one was at a prompt
        elif self.out_of_step:
            self._out_of_step(outcomes)
        else:
            self._say_now(self._in_vain(outcomes, now) or silence(outcomes) or divergence(outcomes))

    def _end_prompts(self, outcomes: dict[int, ProcessOutcome]) -> None:
        """Interrupt processes that have come to a prompt since the cell was interrupted."""
        prompts = {s.process_id: s.prompt for s in outcomes.values() if s.prompt is not None}
        new = [p for p, prompt in prompts.items() if prompt.number not in self._stopped_prompts]
        self._stopped_prompts |= {prompt.number for prompt in prompts.values()}
        if new:
            self.interrupt(new)

    def _interrupt_late(self, outcomes: dict[int, ProcessOutcome], now: float) -> None:
        """Interrupt the processes that had not begun when the others were interrupted: no signal is kept."""
        begun = [p for p in sorted(self._early) if outcomes[p].begun]
        self._early -= set(begun)
        still = [p for p in begun if outcomes[p].outcome == "running" and not outcomes[p].proving]
        if still:
            self.interrupted_at, self._freed_at = now, None
            self.interrupt(still)

    @property
    def _cut_seconds(self) -> float:
        return CUT_SECONDS if self._failed_at is None else FAILED_CUT_SECONDS

    def _free(self, outcomes: dict[int, ProcessOutcome], now: float) -> None:
        due = self._freed_at is None or now - self._freed_at >= CUT_AGAIN_SECONDS
        if self.remedies.free is not None and due:
            self._freed_at = now
            ids = [process.process_id for process in running(outcomes.values())]
            self.execution.mark_cut(ids)
            self.remedies.free(ids)

    def _prove(self, outcomes: dict[int, ProcessOutcome], now: float) -> None:
        """Watch over the proof: all code has ended, and the processes that finished it wait for a proof."""
        assert self.remedies.join is not None
        if self._joined_at is None:
            self._joined_at = now
            if not self.remedies.join(self.execution):
                self._stop(outcomes, None)
        elif now - self._joined_at >= PROOF_SECONDS and not self._all_finished(outcomes):
            self._stop(outcomes, None)
        else:
            self._say_now(silence(outcomes))

    def _all_finished(self, outcomes: dict[int, ProcessOutcome]) -> bool:
        """Return whether all have finished the cell, or its code with equally many programs, which compute now."""
        finished = all(s.proving or s.outcome == "finished" for s in outcomes.values())
        return finished and len({step.sent.place for step in self.execution.steps.values()}) < 2

    def _after_failure(
        self, cause: ProcessOutcome, outcomes: dict[int, ProcessOutcome], now: float
    ) -> None:
        self._failed_at = self._failed_at or now
        since = now - self._failed_at
        died = cause.outcome == "gone"
        grace_s = min(self.grace_s, DEATH_GRACE_SECONDS) if died else self.grace_s
        if since >= min(SAY_SECONDS, grace_s):
            left = math.ceil(grace_s - since)
            ending = f" - will be interrupted in {left} s" if left > 0 else ""
            lines = [*say_failure(cause), *say_where_all(outcomes.values(), ending=ending)]
            self._say_now("\n".join(lines))
        if since >= grace_s:
            self._stop(outcomes, None)

    def _out_of_step(self, outcomes: dict[int, ProcessOutcome]) -> None:
        waiting = nobody_can_join(outcomes, longer_than_s=self.grace_s)
        if waiting:
            self._stop(
                outcomes, "waiting for something that cannot arrive; the session is out of step"
            )

    def _in_vain(self, outcomes: dict[int, ProcessOutcome], now: float) -> str | None:
        """Return a sentence if all processes in the cell's code have waited long for something that does not come.

        Where that is certain, the cell is stopped with this sentence as its error.
        """
        in_code = {p: s for p, s in outcomes.items() if s.outcome == "running" and not s.proving}
        waiting = nobody_can_join(in_code, longer_than_s=self.grace_s)
        if self.remedies.in_vain is None or not waiting:
            self._all_wait = None
        elif now - self._asked_at >= ASK_SECONDS:
            self._asked_at, self._all_wait = now, None
            found = self.remedies.in_vain(self.execution, waiting)
            if found is not None and found.certain:
                self.in_vain = found.text
                self._stop(outcomes, None)
            elif found is not None:
                self._all_wait = "\n".join([found.text, *say_where_all(outcomes.values())])
        return self._all_wait

    def _say_now(self, text: str | None) -> None:
        """Show how things stand, for as long as it is so; the line is gone when the cell has ended."""
        self.execution.output.meanwhile(text)

    def _stop(self, outcomes: dict[int, ProcessOutcome], why: str | None) -> None:
        """Interrupt all processes still in the cell, and say so."""
        self._say_now(None)
        still = running(outcomes.values())
        ids = [process.process_id for process in still]
        lines = [] if why is None else [f"{processes_text(ids)}   {why}"]
        if self._all_wait is not None:
            lines.append(self._all_wait)  # else nobody knows any more what they waited for
        elif why is not None:
            lines += say_where_all(still)
        if lines:
            self.execution.output.note("\n".join(lines))
        self.interrupted_at = time.monotonic()
        self.execution.mark(ids, "interrupted")
        self._stopped_prompts |= {s.prompt.number for s in still if s.prompt is not None}
        self._early = frozenset(process.process_id for process in still if not process.begun)
        # They are still running an earlier cell.
        waiting = self.execution.withdraw(sorted(self._early))
        # Their code has ended; a signal might reach what comes after the cell.
        proving = [process.process_id for process in still if process.proving]
        if proving:
            self.remedies.abandon(proving)
        inside = [p for p in ids if p not in proving and p not in waiting]
        if inside:
            self.interrupt(inside)

    def _say_alone(self, outcomes: dict[int, ProcessOutcome], now: float) -> None:
        """Say which processes run on although they were interrupted, and for how long they may."""
        assert self.interrupted_at is not None
        since = now - self.interrupted_at
        if since < CUT_SECONDS + BACK_SECONDS or self._said_alone:
            return
        self._said_alone = True
        self.remedies.rescue([process.process_id for process in running(outcomes.values())])
        lines = say_where_all(running(outcomes.values()))
        ids = [s.process_id for s in running(outcomes.values())]
        what = f"{processes_text(ids)}   not stopped by the interrupt yet; given up in"
        left = seconds_text(max(0.0, self.give_up_s - since))
        self.execution.output.note("\n".join([f"{what} {left} ({option('give_up_s')})", *lines]))

    def _give_up(self, outcomes: dict[int, ProcessOutcome], waited_s: float) -> None:
        """End the cell without the processes that did not come back."""
        still = running(outcomes.values())
        ids = [process.process_id for process in still]
        lines = [f"   {line}" for line in say_where_all(still)]
        text = f"{processes_text(ids)}   stuck: still running {seconds_text(waited_s)} after the interrupt"
        compiling = [s.process_id for s in still if s.compiling]
        if compiling:
            lines.append(
                f"   no interrupt reaches {processes_text(compiling)} before the compilation has ended"
            )
        self.execution.output.note("\n".join([text, *lines]))
        self.execution.mark(ids, "stuck")

    def _interrupted_by_user(self) -> None:
        outcomes = self.execution.outcomes()
        if self.interrupted_at is None:
            self._stop(outcomes, None)
        try:
            while self._step() is None:
                raise_put_off()
        except KeyboardInterrupt:
            # A second interrupt: the person will not wait for the ten seconds.
            self.execution.mark(
                [s.process_id for s in running(self.execution.outcomes().values())], "stuck"
            )


def timeout_error(
    outcomes: dict[int, ProcessOutcome], timeout_s: float, facts: ProcessFacts
) -> CellTimeout:
    """Return the error of a cell that its `timeout_s` cut off; what it took to go on is said before it."""
    # One may have finished, or failed, while it was being interrupted.
    late = [p for p, s in outcomes.items() if s.outcome in ("interrupted", "stuck")] or [*outcomes]
    return CellTimeout(
        f"{processes_text(late)} did not finish the cell within {seconds_text(timeout_s)} "
        f"({option('timeout_s')}) and {'was' if len(late) == 1 else 'were'} interrupted{_kept(facts)}"
    )


def _kept(facts: ProcessFacts) -> str:
    if facts.out_of_step:
        return f"; the session is out of step. {facts.remedy}"
    return "." if facts.repaired is not None else "; variables are kept."
