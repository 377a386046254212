"""One cell on its target processes: what was sent, what came back, who is still in it."""

from __future__ import annotations

import contextlib
import logging
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from ipyparallel.error import TaskAborted

from nbdist.contract.calls.stepping import Sent
from nbdist.contract.iopub import CellStep, Prompt, Prompting, Rescued, message_of
from nbdist.contract.snapshot import Activity
from nbdist.errors import NotRunError, WireError
from nbdist.launch.model.happenings import ProcessExit
from nbdist.launch.start.cluster import Cluster
from nbdist.message_guard import MessageGuard
from nbdist.monitor.monitor import Monitor, held_text
from nbdist.notation import bytes_text, count_text, names_text, where_text
from nbdist.session.cells.late import LateOutput, as_new, put
from nbdist.session.cells.outcome import Outcome, ProcessOutcome
from nbdist.session.cells.submission import Message, Recipient, Submission, submit
from nbdist.view.output import CellOutput
from nbdist.view.widgets import Widgets

logger = logging.getLogger(__name__)

OUTPUT_SECONDS = 2.0
"""Seconds to wait for output that is missing after a reply; it normally takes milliseconds."""

LATE_SECONDS = 60.0
"""The same limit while output still arrives, or while the process does not even report. After an outage of 15 s,
TCP may wait as long again before it sends what was held back."""

INTERRUPTS = ("KeyboardInterrupt", "CancelledError", "StoppedBeforeStep")
"""Errors that an interrupt raises: the second if the cell awaits something, the third (see
`nbdist.engine.cell.interrupts`) if all processes were asked to leave before the same step."""

CUT_ERRORS = ("JaxRuntimeError", "XlaRuntimeError", "ValueError")
"""Errors of a collective whose connections are cut; ValueError in jax 0.10 where NumPy asks for the values."""

_ANSI = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """The code to run: `code` stands `offset` lines below the top of the notebook's cell `number`."""

    number: int
    code: str
    offset: int = 0

    def line(self, number: int) -> str:
        """Return the text of one line of the notebook's cell, counted from 1."""
        lines = self.code.splitlines()
        index = number - 1 - self.offset
        return lines[index].strip() if 0 <= index < len(lines) else ""


class Execution:
    """The sending of one cell, and the state of each process in it.

    Args:
      cell: The code to run.
      targets: The processes to run it on.
      cluster: The connection to them.
      hosts: Host names by process id.
      output: Gets all output.
      reports: The processes' reports.
      widgets: Learns the state of the processes' widgets.

    Output that arrives after the cell's output was closed goes to `late`, if that is set; changes of displays of
    earlier cells go to these cells. `number` identifies this sending among all kernels, and the proof at its end.
    """

    def __init__(
        self,
        cell: Cell,
        *,
        targets: Sequence[int],
        cluster: Cluster,
        hosts: Mapping[int, str],
        output: CellOutput,
        reports: Monitor,
        widgets: Widgets | None = None,
    ) -> None:
        self.cell = cell
        self._widgets = widgets
        self.targets = tuple(targets)
        self.output = output
        self._cluster = cluster
        self._hosts = hosts
        self._one_host = len(set(hosts.values())) == 1
        self._reports = reports
        self._submissions: dict[int, Submission] = {}
        self._marked: dict[int, Outcome] = {}
        self._was: dict[int, Activity | None] = {}
        self._stopping: dict[int, Activity | None] = {}
        self._ended: dict[int, ProcessOutcome] = {}
        self._replied_at: dict[int, float] = {}
        self._heard_at: dict[int, float] = {}
        self._cut: set[int] = set()
        self._begun: set[int] = set()
        self._adopted: dict[int, str] = {}
        self._withdrawn: dict[int, Future[Any]] = {}
        self._prompts: dict[int, Prompt] = {}
        self._lines_sent_at: dict[int, float] = {}
        self._prompting = threading.Lock()
        self.steps: dict[int, CellStep] = {}
        self.sent: dict[int, Sent] = {}
        self.tracebacks: dict[int, str] = {}
        self.late: LateOutput | None = None
        self.number = 0
        self._guard = MessageGuard("A message of a process's output", logger, output.note)

    def send(
        self, label: str, *, requested: Callable[[Mapping[int, str]], None] = lambda requests: None
    ) -> None:
        """Send the cell to all targets; return at once.

        Args:
          label: The cell's label, which processes read.
          requested: Called with the numbers of the requests, by process id, before they are sent.
        """
        recipients = {
            p: Recipient(
                self._cluster.engines[p], self._cluster.idents[p], partial(self.receive, p)
            )
            for p in self.targets
        }
        self._submissions = submit(
            self._cluster.client, recipients, self.cell.code, label, requested
        )

    def adopt(self, process_id: int, submission: Submission, request: str) -> None:
        """Adopt a cell that another kernel has sent to a process, under the number of its request."""
        self._submissions[process_id] = submission
        self._adopted[process_id] = request

    @property
    def requests(self) -> dict[int, str]:
        """The request number of each target, except targets for which ipyparallel made no request."""
        found = {p: getattr(s.future, "msg_id", None) for p, s in self._submissions.items()}
        return {
            **{p: request for p, request in found.items() if request is not None},
            **self._adopted,
        }

    def withdraw(self, process_ids: Iterable[int]) -> tuple[int, ...]:
        """Take the cell back from processes that have not begun it, without touching what they run now.

        Returns:
          The processes that were asked and will reply; one that has already begun the cell goes on with it.
        """
        requests = self.requests
        asked = tuple(p for p in process_ids if p in requests)
        for process_id in asked:
            self._withdrawn[process_id] = self._cluster.client.abort(
                [requests[process_id]], targets=self._cluster.engines[process_id], block=False
            )
        return asked

    def _taken_back(self, process_id: int) -> bool:
        """Return whether a process has answered that it will not begin the cell."""
        reply = self._withdrawn.get(process_id)
        if reply is None or not reply.done() or reply.exception() is not None:
            return False
        # If the reply does not say so, wait for the reply of the cell itself.
        contents = [message["content"] for message in reply.result()]
        return all(content.get("taken") == [] for content in contents)

    def still_in(self) -> tuple[int, ...]:
        """Return the targets that have not left the cell."""
        return tuple(p for p, s in self.outcomes().items() if s.outcome == "running")

    def prompts(self) -> dict[int, Prompt]:
        """Return the prompts at which processes in the cell wait for a person to type, by process id."""
        with self._prompting:
            asked = dict(self._prompts)
        return {p: prompt for p, prompt in asked.items() if self.wants(p, prompt.number)}

    def wants(self, process_id: int, number: int) -> bool:
        """Return whether a process is in the cell and waits for the answer to this question; from any thread."""
        prompt = self._prompts.get(process_id)
        inside = process_id not in self._cluster.exits and not self._submissions[process_id].replied
        return inside and prompt is not None and prompt.number == number

    def give(self, process_id: int, prompt: Prompt, send: Callable[[], bool]) -> bool:
        """Send a process the reply to a question; return whether it was taken."""
        with self._prompting:  # before sending: the process's next question may arrive first
            del self._prompts[process_id]
            self._lines_sent_at[process_id] = time.monotonic()
        taken = False
        try:
            taken = send()
        finally:
            with self._prompting:
                if not taken and self._lines_sent_at.pop(process_id, None) is not None:
                    self._prompts[process_id] = prompt
        return taken

    @property
    def line_sent_at(self) -> float | None:
        """When a line was sent to a process that has not gone on since (monotonic clock); None: there is none."""
        with self._prompting:
            return min(self._lines_sent_at.values(), default=None)

    def _prompt(self, process_id: int, prompt: Prompt | None) -> None:
        # Output of a process at a prompt is its own: the others will not print the same a moment later.
        self.output.compare_strictly()
        with self._prompting:
            self._lines_sent_at.pop(process_id, None)
            if prompt is None:
                self._prompts.pop(process_id, None)
            else:
                self._prompts[process_id] = prompt

    def pending(self) -> list[Any]:
        """Return the futures of replies and output that have not arrived, to wait for."""
        submissions = [self._submissions[p] for p in self.targets if p not in self._ended]
        futures = [f for s in submissions for f in (s.future, s.output)]
        return [future for future in futures if not future.done()]

    def mark(self, process_ids: Iterable[int], outcome: Outcome) -> None:
        """Record that processes were interrupted, or did not come back from an interrupt."""
        for process_id in process_ids:
            self._marked[process_id] = outcome
            self._was.setdefault(process_id, self._running(process_id).activity)

    @contextlib.contextmanager
    def stopping(self) -> Iterator[set[int]]:
        """Count all targets as asked to stop, since a process may stop before its answer arrives.

        Yields:
          A set, to which the caller adds the processes that will stop. The others keep their outcomes.
        """
        # Kept apart from the marks: a mark that another thread makes in the meantime must stay.
        self._stopping = {p: self._running(p).activity for p in self.targets}
        stop: set[int] = set()
        try:
            yield stop
        finally:
            self.mark(stop - self._marked.keys(), "interrupted")
            self._stopping = {}

    def mark_cut(self, process_ids: Iterable[int]) -> None:
        """Record that the collectives in which processes wait are cut; an error there counts as an interrupt."""
        self._cut.update(process_ids)

    @property
    def clean(self) -> bool:
        """Whether every target has finished the cell, and none has found that it is out of step."""
        outcomes = self.outcomes().values()
        return all(s.outcome == "finished" for s in outcomes) and all(
            step.in_step for step in self.steps.values()
        )

    def outcomes(self) -> dict[int, ProcessOutcome]:
        """Return the outcome of each target so far."""
        for process_id in self.targets:
            if process_id not in self._ended:
                ended = self._settle(process_id)
                if ended is not None:
                    self._ended[process_id] = ended
                    self.output.finish(process_id)
        return {p: self._ended.get(p) or self._running(p) for p in self.targets}

    def _running(self, process_id: int) -> ProcessOutcome:
        activity = self._reports.activity(process_id)
        if activity is not None and activity.cell != self.cell.number:
            activity = None
        marked = self._marked.get(process_id)
        return ProcessOutcome(
            process_id=process_id,
            host=self._hosts[process_id],
            one_host=self._one_host,
            outcome="stuck" if marked == "stuck" else "running",
            activity=activity,
            silent_s=self._reports.silence(process_id),
            begun=process_id in self._begun or activity is not None,
            proving=process_id in self.steps and self.steps[process_id].proving,
            prompt=self._prompts.get(process_id),
        )

    def _settle(self, process_id: int) -> ProcessOutcome | None:
        """Return the outcome of a process that has left the cell, else None."""
        end = self._cluster.exits.get(process_id)
        if end is not None:
            return self._gone(process_id, end)
        submission = self._submissions[process_id]
        if not submission.replied:
            return (
                self._process_outcome(process_id, "not run")
                if self._taken_back(process_id)
                else None
            )
        now = time.monotonic()
        since = self._replied_at.setdefault(process_id, now)
        if not submission.output.done() and not self._given_up(process_id, now - since):
            return None
        error = submission.error()
        if error is None:
            return self._process_outcome(process_id, "finished")
        code = getattr(error, "ename", "EngineError")
        if isinstance(error, TaskAborted) or code == NotRunError.__name__:
            error = None if process_id in self._marked else "an earlier cell had failed there"
            return self._process_outcome(process_id, "not run", error=error)
        if code == "EngineError":
            # The engine is gone, and its end has not been reported yet.
            return (
                None
                if now - since < OUTPUT_SECONDS
                else self._process_outcome(process_id, "gone", error=str(error))
            )
        return self._raised(process_id, error)

    def _given_up(self, process_id: int, waited_s: float) -> bool:
        """Return whether to stop waiting for output that has not come after the reply."""
        # A busy machine may still be reading output that was sent in one burst.
        quiet_s = time.monotonic() - self._heard_at.get(process_id, 0.0)
        if waited_s < OUTPUT_SECONDS or (quiet_s < OUTPUT_SECONDS and waited_s < LATE_SECONDS):
            return False
        if self._reports.silence(process_id) > OUTPUT_SECONDS and waited_s < LATE_SECONDS:
            return False
        self.output.note(
            f"{where_text([process_id], self._hosts)}   finished the cell; some of its output has not arrived"
        )
        return True

    def _process_outcome(self, process_id: int, outcome: Outcome, **facts: Any) -> ProcessOutcome:
        facts.setdefault("time", time.time())
        return ProcessOutcome(
            process_id=process_id,
            host=self._hosts[process_id],
            one_host=self._one_host,
            outcome=outcome,
            **facts,
        )

    def _gone(self, process_id: int, end: ProcessExit) -> ProcessOutcome:
        last = self._running(process_id).activity
        return self._process_outcome(
            process_id,
            "gone",
            error=str(end),
            line=last.line if last else None,
            source=last.source if last else None,
            time=end.time,
            held=self._held(process_id, end),
            killed=end.code is not None and end.code < 0 and end.because_of is None,
        )

    def _held(self, process_id: int, end: ProcessExit) -> str | None:
        """Return what a process ended by a signal held when it last reported; None for any other end."""
        held = self._reports.held(process_id)
        if held is None or end.code is None or end.code >= 0 or end.because_of is not None:
            return None
        reported = time.time() - self._reports.silence(process_id)
        return held_text(held, before_s=max(0.0, end.time - reported))

    def _raised(self, process_id: int, error: Any) -> ProcessOutcome:
        text = f"{error.ename}: {error.evalue}".rstrip(": ")
        was = {**self._stopping, **self._was}
        if process_id in was and (
            error.ename in INTERRUPTS or (process_id in self._cut and error.ename in CUT_ERRORS)
        ):
            activity = was[process_id]
            return self._process_outcome(process_id, "interrupted", error=text, activity=activity)
        self.tracebacks[process_id] = error.traceback or text
        line = raised_line(error.traceback or "", self.cell.number)
        return self._process_outcome(
            process_id,
            "raised",
            error=text,
            line=line,
            source=self.cell.line(line) if line else None,
            time=_completed(self._submissions[process_id]),
        )

    def receive(self, process_id: int, message: Message) -> None:
        """Take a message of a process's output; skip a malformed one, with a note."""
        self._heard_at[process_id] = time.monotonic()
        with self._guard:
            self._take(process_id, message)

    def _rescued(self, process_id: int, saved: Rescued) -> str:
        where = where_text([process_id], self._hosts)
        left = f", not {names_text(saved.left_out)}" if saved.left_out else ""
        count = count_text(saved.arrays, "shard")
        return (
            f"{where}   has saved what it holds: {count} of arrays, {bytes_text(saved.nbytes)}{left}, in "
            f"{saved.path} there; numpy.load reads it"
        )

    def _take(self, process_id: int, message: Message) -> None:
        try:
            ours = message_of(message["msg_type"], message["content"])
        except WireError as error:
            where = where_text([process_id], self._hosts)
            raise WireError(f"{where} has published what cannot be read: {error}") from error
        match ours:
            case CellStep():
                self.steps[process_id] = ours
                return
            case Sent():
                self.sent[process_id] = ours
                return
            case Prompting(prompt=prompt):
                self._prompt(process_id, prompt)
                return
            case Rescued():
                self.output.note(self._rescued(process_id, ours))
                return
        if message["msg_type"] == "execute_input":
            # From here on the process handles signals.
            self._begun.add(process_id)
            return
        if self._widgets is not None and self._widgets.take(process_id, message):
            return
        if self.output.closed:
            if self.late is not None:
                self.late.take(process_id, message)
        elif not put(self.output, process_id, message):
            earlier = None if self.late is None else self.late.earlier
            if earlier is None or not earlier.change(process_id, message):
                put(self.output, process_id, as_new(message))


def without_leading_blank_lines(code: str) -> tuple[str, int]:
    """Return the code from its first non-blank line on, and how many lines were above that line.

    IPython removes these lines before it counts, so its line numbers would differ from the notebook's.
    """
    lines = code.splitlines(keepends=True)
    first = next((index for index, line in enumerate(lines) if line.strip()), 0)
    return "".join(lines[first:]), first


def raised_line(traceback: str, cell: int) -> int | None:
    """Return the line of the notebook's cell that an IPython traceback points at first.

    The first frame of cell `cell` is the statement of the cell itself, however deep the error occurred.
    """
    plain = _ANSI.sub("", traceback)
    found = re.search(rf"Cell In\[{cell}\], line (\d+)", plain)
    return int(found.group(1)) if found else None


def _completed(submission: Submission) -> float:
    """Return when the engine ended the cell, in Unix seconds; the first error is the cause of later ones."""
    metadata = getattr(submission.output, "metadata", None) or {}
    completed = metadata.get("completed")
    if isinstance(completed, str):
        completed = datetime.fromisoformat(completed)
    return completed.timestamp() if completed is not None else time.time()
