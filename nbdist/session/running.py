"""The cells of a session: how they are sent, waited for, followed, interrupted, and how their ends are handled."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from msgspec import structs

from nbdist.contract.calls.engine import AskLastFailure, Complete
from nbdist.contract.calls.namespace import AskUsed
from nbdist.contract.cells import Doubt, OpenCell, PastCell
from nbdist.errors import NbdistError, SessionError
from nbdist.interrupts import put_off
from nbdist.launch.model.start_options import Rules
from nbdist.monitor.disagreements import apart
from nbdist.notation import names_text, processes_text
from nbdist.session.asking import AskedAlone
from nbdist.session.cells.attached_cell import RegainedRun
from nbdist.session.cells.cellrun import CellHandle, CellRun
from nbdist.session.cells.check import refuse_disagreement
from nbdist.session.cells.doubt import (
    UnsureError,
    assigned,
    computes,
    refuse_computing,
    refuse_unsure,
    root_name,
    unsure_text,
)
from nbdist.session.cells.execution import Cell, without_leading_blank_lines
from nbdist.session.cells.facts import ProcessFacts
from nbdist.session.cells.failure import refuse_in_cell, refuse_without_failure
from nbdist.session.cells.followed import Background, FollowedRun, queued_text, stopping_text
from nbdist.session.cells.history import History, ListedCell, listed, made_in
from nbdist.session.cells.outcome import outcome_of_cell
from nbdist.session.cells.supervisor import EndOfCell
from nbdist.session.cells.targets import Targets
from nbdist.session.engine_group import EngineGroup
from nbdist.session.recovery import (
    after_cell,
    cell_context,
    ensure_in_step,
    restore_controller,
)
from nbdist.session.recovery.compared import common_program, have_sent_the_same
from nbdist.session.recovery.replacing import copies_are_due, copy_arrays, replaceable
from nbdist.session.recovery.waiting import not_back
from nbdist.session.values.copies import Copies

USED_SECONDS = 5.0
"""Seconds an idle process may take to say which names a cell would use."""

FAILURE_SECONDS = 30.0
"""Seconds an idle process may take to say what its last failed cell raised."""

IDLE_LOOK_SECONDS = 0.05
"""How often to look whether awaited processes have finished."""

REPORT_SECONDS = 1.0
"""Seconds processes may take to report their names after a failed cell."""

SETTLE_SECONDS = 0.005
"""How often to look whether the end of a cell on a thread has been handled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CellOptions:
    """How a cell is to run: the options of `nbdist.session.session.Session.run`."""

    on: Targets = None
    timeout_s: float | None = None
    grace_s: float | None = None
    wait: bool = True
    live: bool = False
    check: bool | None = None
    cell: int | None = None
    offset: int = 0
    renderer: Any = None


class Cells:
    """The cells of a session since one start, or attachment, of its processes.

    Args:
      engines: The processes.
      alone: The questions to single processes, which may have computed.
      rules: The session's rules.
      history: The record of cells, to which these cells are added.
      number: The highest cell number so far; a cell without a number from the notebook gets the next one.
    """

    def __init__(
        self,
        engines: EngineGroup,
        alone: AskedAlone,
        *,
        rules: Rules,
        history: History,
        number: int = 0,
    ) -> None:
        self._engines = engines
        self._alone = alone
        self._rules = rules
        self._numbers = itertools.count(number + 1)
        self.history = history
        engines.health.on_doubt = history.doubted
        engines.made_in = lambda paths: made_in([*history.cells, *self._ending], paths)
        self.background = Background()
        engines.copies = Copies(rules.copies_s)
        # The cell that this kernel waits for, read from any thread.
        self._awaited: CellRun | None = None
        self._queued: list[ListedCell] = []
        self._ending: tuple[PastCell, ...] = ()

    @property
    def regained(self) -> tuple[RegainedRun, ...]:
        """The cells of an earlier kernel that still run."""
        return tuple(run for run in self.background.runs if isinstance(run, RegainedRun))

    def listed(self) -> tuple[ListedCell, ...]:
        """Return the cells in the background and the last ended ones, in order of sending; then queued cells."""
        now = time.time()
        behind = f"queued behind {self._engines.turn.ahead() or 'another thread'}"
        queued = [
            replace(one, seconds=now - one.started, state=behind) for one in tuple(self._queued)
        ]
        return (*listed(self.background, self.history.cells, now=now), *queued)

    def run(self, code: str, options: CellOptions) -> CellHandle:
        """Send a cell; see `nbdist.session.session.Session.run`."""
        number = options.cell if options.cell is not None else next(self._numbers)
        before = self._engines.facts.unsure
        with self._in_turn(number, code, options.timeout_s) as taken_over:
            engines = self._engines
            brought = self.bring_in_step(code)
            done = "\n".join(filter(None, (taken_over, brought)))
            chosen = engines.choice.targets(options.on)
            unsure = self.refuse_unsure(code, done, before=before)
            if self._rules.check if options.check is None else options.check:
                self._compare(chosen, code)
            # IPython removes leading blank lines before it counts lines.
            code, blank = without_leading_blank_lines(code)
            grace_s = self._rules.grace_s if options.grace_s is None else options.grace_s
            context = cell_context(
                engines,
                chosen,
                rules=replace(self._rules, grace_s=grace_s),
                began=self._begun,
                requested=self._requested,
                ended=self.ended,
            )
            # A thread follows a cell that nobody waits for to its end, since the next cell must find all in step.
            run = (CellRun if options.wait else FollowedRun)(
                Cell(number=number, code=code, offset=options.offset + blank),
                targets=chosen,
                context=context,
                timeout_s=options.timeout_s,
                remarks=[
                    *self._remarks(options, chosen, number),
                    *(text for text in (done, unsure) if text),
                ],
                renderer=options.renderer,
            )
            # No interrupt may come between sending a cell and following it.
            with put_off():
                handle = run.begin()
                if isinstance(run, FollowedRun):
                    self.background.add(run)
                    run.when_over = engines.turn.kept(number)
                    return run.follow(shown=options.live)
                self._awaited = run
                try:
                    return handle.wait()
                finally:
                    self._awaited = None

    @contextlib.contextmanager
    def _in_turn(self, number: int, code: str, timeout_s: float | None) -> Iterator[str | None]:
        """Take the turn as `Turn.taken` does, and list the cell as queued until then."""
        queued = ListedCell(
            number=number, code=code, processes=(), started=time.time(), seconds=0.0, state="queued"
        )
        with contextlib.ExitStack() as turn:
            self._queued.append(queued)
            try:
                taken_over = turn.enter_context(
                    self._engines.turn.taken(cell=number, timeout_s=timeout_s)
                )
            finally:
                self._queued.remove(queued)
            yield taken_over

    def bring_in_step(self, code: str) -> str | None:
        """Act as `wait_for_ends`; if this code computes, also wait for processes that went on compiling.

        Raises:
          ProcessError: A cell in the background has failed, and nobody has seen its error.
          SessionError: The processes are not in step, and the code could compute.
          KeyboardInterrupt: A person no longer waits.
        """
        engines = self._engines
        done = self.wait_for_ends()
        self.background.refuse_unseen()
        if engines.facts.stuck and computes(code) and self._came_back():
            done = ensure_in_step(engines, automatic=True)
        if engines.proves and engines.facts.out_of_step:
            refuse_computing(code, engines.facts)
        return done

    def _came_back(self, until: float | None = None) -> bool:
        """Return whether all stuck processes are back; wait for those that compile."""
        engines = self._engines
        stuck = self._rules.recover and engines.proves and engines.facts.stuck
        return bool(stuck) and not not_back(engines, say=print, until=until)

    def refuse_unsure(
        self, code: str, done: str = "", *, before: Mapping[str, Doubt] | None = None
    ) -> str | None:
        """Refuse code that computes with names in doubt; let it through the second time.

        Args:
          code: A cell, or code that stands for an expression.
          done: What was done before the code, which begins the text of a refusal.
          before: The names in doubt before that was done; `done` explains the doubts that are new since then.

        Returns:
          A line about names in doubt that the code only looks at; None if there are none.

        Raises:
          SessionError: The code may use such names.
        """
        health = self._engines.health
        if not health.facts.unsure:
            return None
        used, facts = self._used(code), health.facts
        said = (
            set()
            if before is None
            else {
                name
                for name, why in facts.unsure.items()
                if why.kind not in ("older", "newer") and before.get(name) != why
            }
        )
        try:
            health.sure_of(refuse_unsure(code, facts, used, said=said))
        except UnsureError as error:
            # Only these names were reported: a cell that uses others in doubt is refused once as well.
            health.sure_of(error.names)
            repaired = (line for line in done.splitlines() if line not in error.notice.do)
            why = " ".join(filter(None, (*repaired, error.notice.text)))
            raise SessionError(replace(error.notice, text=why)) from None
        return unsure_text(code, facts, used, said=said)

    def _used(self, code: str) -> tuple[str, ...] | None:
        """Return the names a cell would use, as a process says, which knows earlier cells; None: none answers."""
        engines = self._engines
        able = [p for p in engines.choice.able() if p in engines.facts.workers]
        try:
            request = engines.send(able[0], AskUsed(code=without_leading_blank_lines(code)[0]))
            return request.get(USED_SECONDS)[0].names
        except (IndexError, NbdistError, TimeoutError):
            return None

    def _remarks(self, options: CellOptions, chosen: Sequence[int], number: int) -> list[str]:
        """Return lines to show above a cell's output."""
        busy = self.background.busy()
        queued = queued_text({p: busy[p] for p in chosen if p in busy})
        remarks = [*self._engines.choice.remarks(options.on, chosen), *([queued] if queued else [])]
        if options.wait:
            return remarks
        since = time.strftime("%H:%M:%S")
        return [
            f"cell {number} in the background on {processes_text(chosen)}, since {since}",
            *remarks,
        ]

    def _compare(self, targets: Iterable[int], code: str) -> None:
        engines = self._engines
        refuse_disagreement(
            engines.send,
            [p for p in targets if p in engines.facts.workers],  # evaluators do not compute in step
            without_leading_blank_lines(code)[0],
            hosts=engines.plan.hosts,
            activity=engines.monitor.activity,
            digests=engines.asides.digests,
        )

    def debug(self, on: Targets, *, cell: int | None) -> None:
        """Open the prompt of a debugger on processes; see `nbdist.session.session.Session.debug`."""
        engines = self._engines
        chosen = engines.choice.targets(on)
        waiting = self.background.at_prompt(chosen)
        if waiting is not None:
            waiting.watch()
            return
        with engines.turn.taken():
            self.wait_for_ends()
            refuse_in_cell([p for p in chosen if engines.reports.in_cell(p)])
            refuse_without_failure(_failures(engines, chosen))
            self.run("%debug", CellOptions(on=chosen, check=False, cell=cell))

    def interrupt(self, cell: int | None) -> str:
        """Interrupt one cell or everything that runs; see `nbdist.session.session.Session.interrupt`."""
        if cell is not None:
            run = self.background.find(cell)
            inside = run.execution.still_in()
            if not inside:
                return f"cell {cell} has ended"
            run.interrupt()
            return f"interrupted: cell {cell} ({processes_text(inside)})"
        engines, awaited = self._engines, self._awaited
        stopped = self.background.interrupt()
        # Processes of that cell may not have reported yet that they are in it.
        inside = () if awaited is None else awaited.execution.still_in()
        if awaited is not None and inside:
            awaited.interrupt()
            stopped[awaited.cell.number] = inside
        others = [
            p for p in sorted(engines.plan.hosts) if not any(p in s for s in stopped.values())
        ]
        # Idle processes get no signal: between two cells, it might end the next one.
        busy = [p for p in others if engines.reports.in_cell(p) or p in engines.facts.stuck]
        if busy:
            engines.interrupt(busy)
        what = [f"cell {number} ({processes_text(ids)})" for number, ids in stopped.items()]
        what += [f"what runs on {processes_text(busy)}"] if busy else []
        return f"interrupted: {', '.join(what)}" if what else "no cell is running"

    def stop_at_step(self) -> str:
        """End cells in the background before a common step; see `nbdist.session.session.Session.stop_at_step`."""
        runs = self.background.inside()
        if not runs:
            raise SessionError("No cell runs in the background that could be stopped.")
        lines = []
        for run, inside in runs.items():
            with run.execution.stopping() as stop:
                steps = self._engines.asides.stop_at_step(inside, run.execution.number)
                stop.update(p for p, count in steps.items() if count is not None)
            lines.append(stopping_text(run.cell.number, inside, steps))
        return "\n".join(lines)

    def sync(self, *, timeout_s: float | None) -> None:
        """Wait until every process has finished what it was given.

        Raises:
          ProcessError: A cell that was waited for has failed, except by an interrupt.
          TimeoutError: Some are still busy after `timeout_s` seconds.
        """
        until = None if timeout_s is None else time.monotonic() + timeout_s
        for run in self.regained:
            run.wait(timeout_s, show=False)
        engines, followed = self._engines.living(), self.background.runs
        _wait_until_idle(engines, timeout_s=timeout_s)
        # The last output of a cell may arrive after its processes have answered.
        while any(not run.done for run in followed):
            if until is not None and time.monotonic() > until:
                cells = names_text(str(run.cell.number) for run in followed if not run.done)
                raise TimeoutError(f"cell {cells} still runs after {timeout_s:g} s.")
            time.sleep(SETTLE_SECONDS)
        left_s = None if until is None else max(0.0, until - time.monotonic())
        with engines.turn.taken(timeout_s=left_s):
            self.wait_for_ends()
            if self._came_back(until):
                ensure_in_step(engines, automatic=True)
        for ended in (*self.background.unseen(), *followed):
            # Whoever interrupted a cell knows that it failed; failures from just before this wait count as well.
            if ended.done and not ended.stopped and (error := ended.take_error()) is not None:
                raise error

    def wait_for_ends(self) -> str | None:
        """Wait until the ends of followed cells are handled: all processes are in step, or known not to be.

        If a process has ended since, or has computed alone, that is handled now.

        Returns:
          What was done, or why they are not in step; None if nothing had to be done.
        """
        for run in self.background.runs:
            while (run.has_left or run.ending) and not run.done:
                time.sleep(SETTLE_SECONDS)
        engines = self._engines.living()
        with engines.settling:
            pass
        done = self._handle_ends()
        if done is None and engines.facts.out_of_step:
            # The end of a process may have been reported just after the first look.
            done = self._handle_ends()
        return done

    def print_ends(self) -> None:
        """Act as `wait_for_ends`, and print what was done."""
        done = self.wait_for_ends()
        if done is not None:
            print(done)

    def _handle_ends(self) -> str | None:
        engines = self._engines
        automatic = self._rules.recover
        ended = automatic and engines.lost_controller is not None
        if engines.proves and (
            self._alone.computed()
            or ended
            or (automatic and (engines.lost_service is not None or replaceable(engines)))
        ):
            return ensure_in_step(engines, automatic=automatic)
        return restore_controller(engines) if ended else None

    def _begun(self, run: int, targets: Sequence[int]) -> None:
        self._engines.living().monitor.sent(targets, run)

    def _requested(self, cell: OpenCell) -> None:
        self.history.begun(structs.replace(cell, in_step=self._engines.in_step_at))

    def ended(self, end: EndOfCell) -> ProcessFacts:
        """Record a cell that has ended, and bring the processes in step."""
        engines = self._engines.living()
        past = PastCell(
            number=end.cell.number,
            code=end.cell.code,
            targets=tuple(end.outcomes),
            started=end.started,
            seconds=time.time() - end.started,
            outcome=outcome_of_cell(end.outcomes.values()),
        )
        self._ending = (past,)
        ran = any(s.outcome != "not run" for s in end.outcomes.values())
        facts = (
            engines.health.learn(end.outcomes, end.cell.number, run=end.number)
            if ran
            else replace(engines.facts, notice=None)
        )
        if ran and engines.proves and not facts.workers.isdisjoint(end.outcomes):
            if end.clean and have_sent_the_same(end.steps, facts.workers):
                engines.in_step_at = common_program(end.steps) or engines.in_step_at
            else:
                facts = after_cell(engines, end, automatic=self._rules.recover)
                if not facts.out_of_step:
                    differ = engines.exclusive(lambda: self._apart(end, lost=facts.forgotten))
                    facts = replace(facts, apart=differ)
            self._copy(end)
        if lost := engines.lost_texts:
            again = assigned(end.cell.code) - set(map(root_name, facts.forgotten))
            engines.lost_texts = {p: text for p, text in lost.items() if root_name(p) not in again}
        self.history.ended(past, run=end.number, since=facts.since, stuck=facts.stuck)
        self._ending = ()
        return facts

    def _apart(self, end: EndOfCell, *, lost: Collection[str]) -> tuple[str, ...]:
        """Return the names, besides lost arrays, that a failed cell has made differ between the processes."""
        engines = self._engines
        workers = sorted(engines.facts.workers)
        engines.reports.renew(workers, within_s=REPORT_SECONDS)
        differ = apart({p: engines.monitor.samples(p) for p in workers}, end.number)
        return tuple(name for name in differ if name not in lost)

    def _copy(self, end: EndOfCell) -> None:
        """Copy arrays that only one process has to another process, if copies are due."""
        engines = self._engines
        if not copies_are_due(engines) or self.background.inside():
            return
        why_not = engines.exclusive(lambda: copy_arrays(engines, end.cell.number))
        if why_not is not None:
            end.note(why_not)


def _failures(engines: EngineGroup, process_ids: Sequence[int]) -> dict[int, str | None]:
    """Return the error of the last failed cell on each of these processes; None if none has failed."""
    asked = {p: engines.send(p, AskLastFailure()) for p in process_ids}
    return {p: request.get(FAILURE_SECONDS)[0].error for p, request in asked.items()}


def _wait_until_idle(engines: EngineGroup, *, timeout_s: float | None) -> None:
    """Wait until every process that can take a cell has finished what it was given.

    Raises:
      TimeoutError: Some are still busy after `timeout_s` seconds.
    """
    asked = {p: engines.send(p, Complete(code="", cursor=0)) for p in engines.choice.able()}
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    for request in asked.values():
        while not request.ready():
            request.wait(IDLE_LOOK_SECONDS)
            if deadline is not None and time.monotonic() > deadline:
                busy = [p for p, other in asked.items() if not other.ready()]
                raise TimeoutError(f"{processes_text(busy)} still busy after {timeout_s:g} s.")
