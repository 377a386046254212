"""One cell from its first line of output to its end: the object that `Session.run` returns."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from IPython import get_ipython
from msgspec import structs

from nbdist.contract.cells import CellLabel, OpenCell
from nbdist.errors import NbdistError, Notice, ProcessError
from nbdist.interrupts import put_off
from nbdist.notation import processes_text
from nbdist.session.cells.doubt import computes
from nbdist.session.cells.execution import Cell, Execution
from nbdist.session.cells.facts import ProcessFacts
from nbdist.session.cells.failure import failure, outcome_text, repaired_notice, timeout_error
from nbdist.session.cells.late import LateOutput, late_name
from nbdist.session.cells.leaving import Terms
from nbdist.session.cells.outcome import ProcessOutcome
from nbdist.session.cells.prompts import Prompts
from nbdist.session.cells.submission import Message
from nbdist.session.cells.supervisor import CellContext, CellSupervisor, EndOfCell
from nbdist.spelling import door_sent
from nbdist.view.output import (
    Block,
    CellOutput,
    Renderer,
    in_notebook,
    renderer_for,
    show_details,
    show_end,
)


class CellHandle:
    """A cell that runs or has run. `wait` shows its output and raises the cell's error."""

    def __init__(self, run: CellRun) -> None:
        self._run = run

    @property
    def number(self) -> int:
        """The number of the cell."""
        return self._run.cell.number

    @property
    def done(self) -> bool:
        """Whether every process has left the cell."""
        with put_off():
            return self._run.done

    @property
    def outcomes(self) -> Mapping[int, ProcessOutcome]:
        """The state of each process in the cell, or its final outcome, by process id."""
        with put_off():
            return self._run.execution.outcomes()

    def blocks(self) -> tuple[Block, ...]:
        """Return the output; parts that are equal on several processes appear once."""
        return self._run.output.blocks()

    def wait(self, timeout_s: float | None = None) -> CellHandle:
        """Show the output until the cell ends, and raise if it failed.

        Raises:
          ProcessError: The cell failed on some process; only the first `wait` raises it.
          CellTimeout: The cell's own `timeout_s` is over.
          TimeoutError: The cell still runs after `timeout_s`; it is not interrupted.
        """
        self._run.wait(timeout_s)
        return self

    def __repr__(self) -> str:
        number, outcomes = self._run.cell.number, self._run.execution.outcomes()
        running = [p for p, s in outcomes.items() if s.outcome == "running"]
        if running:
            # The text stays in the notebook after the cell has ended, so it says when it was true.
            at = time.strftime("%H:%M:%S")
            return f"<cell {number}: {processes_text(running)} running at {at}; .wait() waits for its end>"
        return f"<cell {number}: {outcome_text(outcomes)}; .wait() shows its output>"


class CellRun:
    """The execution, output and supervisor of one cell.

    Attributes:
      AWAITED: Whether no other cell is sent until this one has ended and what it sent has been compared.

    Args:
      cell: What to run.
      targets: The processes to run it on.
      context: The session in which it runs.
      timeout_s: The time limit of the cell in seconds, or None.
      remarks: Lines to show before any output.
      renderer: Draws the output; None: the one that fits this shell.
    """

    AWAITED = True

    def __init__(
        self,
        cell: Cell,
        *,
        targets: Sequence[int],
        context: CellContext,
        timeout_s: float | None = None,
        remarks: Sequence[str] = (),
        renderer: Renderer | None = None,
    ) -> None:
        self.cell = cell
        self.context = context
        self._renderer = renderer or renderer_for(get_ipython())
        # A renderer without widgets shows them as text, and their captured output in place.
        widgets = context.widgets if in_notebook(self._renderer) else None
        folder = context.folder
        self.output = CellOutput(
            processes=targets, folder=folder / f"cell-{cell.number}", widgets=widgets
        )
        self.execution = Execution(
            cell,
            targets=targets,
            cluster=context.cluster,
            hosts=context.hosts,
            output=self.output,
            reports=context.reports,
            widgets=widgets,
        )
        self._timeout_s = timeout_s
        self._late = LateOutput(
            cell.number,
            output=self.output,
            folder=folder / f"cell-{cell.number}-later",
            renderer=self._renderer,
            late_renderer=renderer_for(get_ipython(), name=late_name(cell.number)),
            widgets=widgets,
            earlier=context.earlier,
        )
        self.execution.late = self._late
        self._remarks = remarks
        self._said: list[str] = []
        self._notice: Notice | None = None
        self._final: dict[int, ProcessOutcome] | None = None
        self._supervisor = CellSupervisor(
            execution=self.execution,
            interrupt=context.interrupt,
            refresh=self._refresh,
            terms=Terms(
                grace_s=context.grace_s,
                give_up_s=context.give_up_s,
                timeout_s=timeout_s,
                out_of_step=context.facts.out_of_step
                and not context.facts.workers.isdisjoint(targets),
                attended=self.AWAITED,
            ),
            progress=context.progress,
            remedies=context.remedies,
            answer=self._answer_awaited,
            leaves=context.leaves,
        )
        self._reply = context.remedies.reply
        self._prompts = self._prompts_at(self._renderer)

    @property
    def done(self) -> bool:
        """Whether every process has left the cell."""
        outcomes = self.execution.outcomes()
        return all(process.outcome != "running" for process in outcomes.values())

    def begin(self) -> CellHandle:
        """Send the cell, and return its handle."""
        for remark in self._remarks:
            self.output.note(remark)
        self._started = time.time()
        run = self.execution.number = self.context.next_number()
        cell, targets = self.cell, self.execution.targets
        sent = OpenCell(
            kernel=os.getpid(),
            run=run,
            number=cell.number,
            code=cell.code,
            offset=cell.offset,
            started=self._started,
        )
        self.context.began(run, targets)
        self.execution.send(
            CellLabel(
                cell=cell.number,
                offset=cell.offset,
                run=run,
                targets=targets,
                computes=computes(cell.code),
                in_step=self.context.in_step,
                compared=self.AWAITED,
                widgets=in_notebook(self._renderer),
                door=door_sent(),
            ).text(),
            requested=lambda requests: self.context.requested(
                structs.replace(sent, requests=requests)
            ),
        )
        # ipyparallel may forget a failed request before all its output has arrived.
        self._listen(self.execution.receive)
        return CellHandle(self)

    def wait(self, timeout_s: float | None) -> None:
        """Show the output until the cell ends, and raise the cell's error."""
        if self._final is not None:
            return
        try:
            if timeout_s is None:
                final = self._supervisor.until_end()
            else:
                deadline = time.monotonic() + timeout_s
                stepped = self._supervisor.step_until(deadline)
                if stepped is None:
                    raise TimeoutError(f"cell {self.cell.number} still runs after {timeout_s:g} s.")
                final = stepped
        except KeyboardInterrupt as interrupt:
            if self._supervisor.left:
                _show_alone(interrupt, f"the kernel ends; cell {self.cell.number} goes on")
                raise
            error = self._finish(self.execution.outcomes())
            self._show_details(after_error=True)
            shown = error.shown if isinstance(error, ProcessError) else str(error or "")
            _show_alone(interrupt, shown.replace("ProcessError:", "KeyboardInterrupt:"))
            raise
        error = self._finish(final)
        self._show_details(after_error=error is not None)
        if error is not None:
            show_end(self._renderer, self.output, error_text(error), raised=True)
            raise error

    def interrupt(self) -> None:
        """Interrupt the cell on all processes that are still in it; from any thread."""
        self._supervisor.interrupt_all()

    def _finish(self, outcomes: dict[int, ProcessOutcome]) -> NbdistError | None:
        self._final = outcomes
        # Ended processes may be replaced in a moment, after which their ends are unknown.
        ends = dict(self.context.cluster.exits)
        facts = self.context.ended(
            EndOfCell(
                cell=self.cell,
                outcomes=outcomes,
                started=self._started,
                number=self.execution.number,
                clean=self.execution.clean,
                steps=dict(self.execution.steps),
                began_out_of_step=self._supervisor.terms.out_of_step,
                say=self._say,
                note=self._note,
            )
        )
        self._note_end(outcomes)
        if facts.mixed and not self.output.blocks():
            facts = replace(facts, mixed=False)  # no number was printed
        self._said[:0] = self._supervisor.watch.seen
        error: NbdistError | None = self._failure(outcomes, ends, facts)
        if self._supervisor.watch.timed_out and self._timeout_s is not None:
            error = timeout_error(outcomes, self._timeout_s, facts, self._said)
        notice = error.notice if error is not None else repaired_notice(facts, self._said)
        if notice is not None:
            self.context.noticed(notice)
            if error is None:
                self.output.note(str(notice))
        self.output.close()
        self._draw()
        self._late.open()
        self._listen(self._late.take)
        self._notice = notice
        return error

    def _show_details(self, *, after_error: bool) -> None:
        """Show the details of the cell's notice below it, in a notebook."""
        if self._notice is not None and in_notebook(self._renderer):
            show_details(self._notice, get_ipython(), after_error=after_error)

    def _listen(self, take: Callable[[int, Message], None]) -> None:
        for process_id, request in self.execution.requests.items():
            self.context.cluster.client.listen(request, functools.partial(take, process_id))

    def _failure(
        self, outcomes: dict[int, ProcessOutcome], ends: Mapping[int, Any], facts: ProcessFacts
    ) -> ProcessError | None:
        return failure(
            outcomes,
            self.execution.tracebacks,
            {p: end.last_lines for p, end in ends.items()},
            facts=facts,
            done=facts.notice,
            said=self._said,
            in_vain=self._supervisor.watch.in_vain,
            waiting=self._supervisor.watch.waiting,
        )

    def _prompts_at(self, renderer: Renderer) -> Prompts:
        """Return the prompts of the processes, for a person who sees what `renderer` shows."""
        return Prompts(
            self.execution,
            reply=self._reply,
            show=lambda: renderer.refresh(self.output, final=True),
            repeat=self._repeat if in_notebook(renderer) else lambda process_id, text: None,
        )

    def _repeat(self, process_id: int, text: str) -> None:
        self.output.stream(process_id, "stdout", text)

    def _answer_awaited(self) -> None:
        """Ask the person for the line that a process waits for, if this thread waits for the cell."""
        self._prompts.answer()

    def _note_end(self, outcomes: dict[int, ProcessOutcome]) -> None:
        """Say how the cell ended, since nobody may be looking."""

    def _draw(self) -> None:
        """Draw all output one last time."""
        self._renderer.refresh(self.output, final=True)

    def _say(self, text: str) -> None:
        self._said += text.splitlines()
        self.output.meanwhile(text)
        self._refresh()

    def _note(self, text: str) -> None:
        self.output.note(text)
        self._refresh()

    def _refresh(self) -> None:
        self._renderer.refresh(self.output)


def error_text(error: Exception) -> str:
    """Return an error as IPython would show it."""
    if isinstance(error, ProcessError):
        return "\n".join(error._render_traceback_())
    return f"{type(error).__name__}: {error}"


def _show_alone(interrupt: KeyboardInterrupt, shown: str) -> None:
    """Make IPython show where each process was, in place of nbdist's own frames, which explain nothing."""
    lines = shown.splitlines() or ["KeyboardInterrupt"]
    interrupt._render_traceback_ = lambda: lines  # type: ignore[attr-defined]
