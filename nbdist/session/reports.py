"""Reports and answers of the processes, even in the middle of a cell: where they are, and what they hold."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

from nbdist.contract.asides import (
    Answer,
    Aside,
    CompareBefore,
    GiveLine,
    LineReply,
    NativeStacks,
    ReadNativeStacks,
    ReadStacks,
    StopAtStep,
    Threads,
)
from nbdist.contract.calls.engine import Look, Looked
from nbdist.contract.iopub import AsideAnswer
from nbdist.contract.wire import answer_type
from nbdist.errors import GoneError, LaunchError, Notice, SessionError
from nbdist.interrupts import put_off
from nbdist.launch.model.framework import framework_named
from nbdist.launch.model.plan import Plan
from nbdist.launch.start.pending import Pending
from nbdist.launch.start.pool import Agents
from nbdist.monitor.monitor import Monitor
from nbdist.notation import seconds_text, where_text
from nbdist.session.cells.facts import Health
from nbdist.spelling import command, start_with

LOOK_SECONDS = 0.5
"""Seconds idle processes may take to report what they hold when a person asks."""

IDLE_SECONDS = 2.0
"""How long a process that has left its cell may take to report it; processes report at least once a second."""

POLL_SECONDS = 0.005
"""How often to look whether a report has come."""

DEVICES_SECONDS = 5.0
"""Seconds to wait for all processes to report their devices after they have joined."""

FIRST_SECONDS = 30.0
"""Seconds after which no report will arrive; a process that has joined reports within a tenth of a second."""

AGAIN_SECONDS = 1.5
"""Seconds processes that already run may take to report."""

REPEAT_SECONDS = 0.05
"""How often processes that already run are asked to report."""


class Reports:
    """The processes' reports in one session, which are renewed when a person asks.

    Args:
      monitor: Receives the reports.
      health: The facts beyond the reports.
      hosts: Host names by process id.
      send: Sends a process a request, as `EngineGroup.send`.
    """

    def __init__(
        self,
        monitor: Monitor,
        health: Health,
        hosts: Mapping[int, str],
        send: Callable[[int, Look], Pending[Looked]],
    ) -> None:
        self._monitor = monitor
        self._health = health
        self._hosts = hosts
        self._send = send

    def busy(self, process_id: int) -> bool:
        """Return whether a process reports that it is in a cell."""
        return self._state(process_id) not in ("idle", None)

    def in_cell(self, process_id: int) -> bool:
        """Return whether a process is in a cell that has not ended.

        A report from before the end of a cell may arrive after that end, or after the end of the next cell; then
        it wrongly says that the cell runs.
        """
        activity = self._monitor.activity(process_id)
        return (
            activity is not None
            and activity.state != "idle"
            and not self._health.facts.has_left(process_id, activity.run)
        )

    def doing(self, process_id: int) -> str:
        """Return which cell a process is in, and where: `process 0 is in cell 7, line 3`."""
        activity = self._monitor.activity(process_id)
        where = where_text([process_id], self._hosts)
        if activity is None or activity.cell is None:
            return f"{where} is busy"
        line = f", line {activity.line}" if activity.line is not None else ""
        return f"{where} is in cell {activity.cell}{line}"

    def look(self, in_cells: Collection[int]) -> None:
        """Make processes report what they hold now, so that the next picture is up to date; wait for that.

        Args:
          in_cells: Processes that have not left their cells; they report by themselves.
        """
        facts = self._health.facts
        there = [
            p
            for p in sorted(self._hosts)
            if p not in in_cells and p not in facts.lost and p not in facts.stuck
        ]
        # After the replies of a cell, the reports of its end may still be on their way.
        deadline = time.monotonic() + IDLE_SECONDS
        while any(map(self.busy, there)) and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        self.renew([p for p in there if self._state(p) == "idle"], within_s=LOOK_SECONDS)

    def renew(self, process_ids: Sequence[int], *, within_s: float) -> None:
        """Make idle processes report what they hold now, and wait for that, at most `within_s` seconds."""
        deadline = time.monotonic() + within_s
        asked = self._ask(process_ids, Look(timeout_s=LOOK_SECONDS / 2))
        sequences = {}
        for process_id, request in asked.items():
            request.wait(max(0.0, deadline - time.monotonic()))
            if request.ready():
                # A process that has ended in the meantime sends no report; its end is handled elsewhere.
                with contextlib.suppress(GoneError):
                    sequences[process_id] = request.get()[0].sequence
        self._monitor.wait_for(sequences, timeout_s=within_s)

    def first(self, *, devices: bool) -> None:
        """Wait until every process that was just started has reported.

        Args:
          devices: Whether they have devices to report.

        Raises:
          LaunchError: The processes' reports do not arrive: neither their cells would be seen, nor whether an
            interrupt may be sent to them.
        """
        # Asked, since they would report by themselves only a little later.
        self.renew(list(self._hosts), within_s=DEVICES_SECONDS)
        deadline = time.monotonic() + FIRST_SECONDS
        while silent := [p for p in sorted(self._hosts) if self._state(p) is None]:
            if time.monotonic() > deadline:
                raise LaunchError(
                    f"{where_text(silent, self._hosts)} joined, but nothing that is published there has arrived "
                    f"within {seconds_text(FIRST_SECONDS)}: a port of ipyparallel's "
                    "controller may have been taken by another program. Everything was stopped; start again."
                )
            time.sleep(POLL_SECONDS)
        if devices:
            self._monitor.wait_for_all(timeout_s=DEVICES_SECONDS)

    def again(
        self, there: Sequence[int], repeat: Callable[[Sequence[int]], None], *, devices: bool
    ) -> None:
        """Wait a moment until processes that already run have reported, even in the middle of a cell.

        Args:
          there: The living processes.
          repeat: Makes processes repeat their last reports.
          devices: Whether they have devices to report.
        """
        deadline = time.monotonic() + AGAIN_SECONDS
        repeated = Look(timeout_s=LOOK_SECONDS / 2, again=True)
        asked = self._ask(there, repeated)
        while time.monotonic() < deadline and not self._have_reported(there, devices=devices):
            # Repeated, since the monitor's subscription may not have been there.
            repeat(there)
            asked |= self._ask([p for p, request in asked.items() if request.ready()], repeated)
            time.sleep(REPEAT_SECONDS)

    def _ask(self, process_ids: Sequence[int], look: Look) -> dict[int, Pending[Looked]]:
        asked = {}
        for process_id in process_ids:
            # A process that has ended in the meantime sends no report; its end is handled elsewhere.
            with contextlib.suppress(GoneError):
                asked[process_id] = self._send(process_id, look)
        return asked

    def _have_reported(self, process_ids: Sequence[int], *, devices: bool) -> bool:
        with_devices = {device.process_id for device in self._monitor.snapshot().devices}
        return all(
            self._monitor.activity(p) is not None and (p in with_devices or not devices)
            for p in process_ids
        )

    def _state(self, process_id: int) -> str | None:
        activity = self._monitor.activity(process_id)
        return None if activity is None else activity.state


T = TypeVar("T")

WITHIN_SECONDS = 1.0
"""Seconds to wait for answers; a process answers within milliseconds, unless its interpreter is busy in one long
call."""

ANSWER_LOOK_SECONDS = 0.1
"""Seconds an interrupt may take to end a wait for answers."""


class Asking:
    """Questions that processes answer without their main threads, one question at a time; used from any thread.

    Agents pass a question on to their processes. Each process answers with a message, which the monitor reads:
    with four processes on two cores, this takes half the time of four requests.

    Args:
      send: Asks processes; see `nbdist.launch.start.pool.Agents.ask`.
    """

    def __init__(self, send: Callable[[Aside[Any], Sequence[int], int], None]) -> None:
        self._send = send
        self._one = threading.Lock()
        self._came = threading.Condition()
        self._number = -1
        self._found: dict[int, Answer] = {}

    def ask(
        self,
        aside: Aside[T],
        process_ids: Sequence[int],
        *,
        within_s: float = WITHIN_SECONDS,
    ) -> dict[int, T]:
        """Return the answers of these processes that arrive in time, by process id.

        Args:
          aside: The question; an answer of the wrong type is left out.
          process_ids: The processes to ask.
          within_s: How long to wait for answers.
        """
        with self._one:
            deadline = time.monotonic() + within_s
            with put_off():
                with self._came:
                    number = self._number = time.time_ns()  # rises in every kernel
                    self._found = {}
                self._send(aside, process_ids, number)
            while not self._all_here(process_ids, deadline - time.monotonic()):
                pass
            found = dict(self._found)
        return {
            p: one
            for p, one in found.items()
            if p in process_ids and isinstance(one, answer_type(type(aside)))
        }

    def _all_here(self, process_ids: Sequence[int], left_s: float) -> bool:
        """Return whether all have answered or no time is left; otherwise wait for an answer, and return False."""
        with put_off(), self._came:
            if left_s <= 0 or self._found.keys() >= set(process_ids):
                return True
            self._came.wait(min(left_s, ANSWER_LOOK_SECONDS))
            return False

    def put(self, answer: AsideAnswer) -> None:
        """Take an answer, from any thread; an answer to an older question is left out."""
        with self._came:
            if answer.number == self._number:
                self._found[answer.process_id] = answer.answer
                self._came.notify_all()


STACK_SECONDS = 3.0
"""Seconds processes may take to read their stacks, or to note that they are to stop."""

NATIVE_SECONDS = 25.0
"""Seconds processes may take to have py-spy read their stacks."""

REPLIES = 10
"""How often the reply to a debugger's question is sent to a process that does not confirm it."""


class Asides:
    """Questions to the processes of one session that they answer even in the middle of a cell.

    Args:
      agents: The processes' agents.
      plan: The session's plan.
      busy: Returns whether a process reports that it is in a cell.
    """

    def __init__(self, agents: Agents, plan: Plan, busy: Callable[[int], bool]) -> None:
        self._agents = agents
        self._plan = plan
        self._busy = busy
        self._asking = Asking(agents.ask)
        self.put = self._asking.put

    def digests(self, process_ids: Sequence[int], code: str) -> dict[int, Mapping[str, str]] | None:
        """Return digests of what must be equal before a cell; None if a process is busy or slow to answer."""
        if not self._agents.reaches_past_main_threads or any(map(self._busy, process_ids)):
            return None
        found = self._asking.ask(CompareBefore(code=code), process_ids)
        if len(found) < len(process_ids):
            return None
        return {p: answer.digests for p, answer in found.items()}

    def stop_at_step(self, process_ids: Sequence[int], run: int) -> dict[int, int | None]:
        """Ask processes to leave a cell before the same step; return the steps begun on each that answers.

        None stands for a process on which the cell does not run.

        Raises:
          SessionError: Somebody else has started these processes, or they cannot agree on a step.
        """
        if not self._agents.reaches_past_main_threads:
            raise SessionError(
                "This kernel has not started these processes: nothing that it sends reaches them while they run "
                "a cell. "
                f"{command('interrupt')} interrupts it."
            )
        framework = framework_named(self._plan.framework)
        if not framework.stops_at_steps:
            raise SessionError(
                "The processes agree on a common step through JAX's coordinator, but this session computes with "
                f"{framework.title}. {command('interrupt')} interrupts the cell."
            )
        found = self._asking.ask(StopAtStep(run=run), process_ids, within_s=STACK_SECONDS)
        return {p: answer.steps for p, answer in found.items()}

    def reply(self, process_id: int, number: int, reply: LineReply) -> bool:
        """Send a process the reply to a question of its debugger; see `nbdist.engine.cell.debugger`.

        Returns:
          Whether the process has taken the reply; it takes a reply once, however often it is sent.
        """
        for _ in range(REPLIES):
            found = self._asking.ask(
                GiveLine(to=number, reply=reply), [process_id], within_s=STACK_SECONDS
            )
            if found:
                return found[process_id].taken
        return False

    def stacks(self, process_ids: Sequence[int]) -> dict[int, Threads]:
        """Return the threads of the processes that answer in time, even of busy ones.

        Raises:
          SessionError: Somebody else has started these processes.
        """
        self._refuse_out_of_reach()
        return self._asking.ask(ReadStacks(), process_ids, within_s=STACK_SECONDS)

    def native_stacks(self, process_ids: Sequence[int]) -> dict[int, NativeStacks]:
        """Return the stacks of the processes that answer in time, with C and C++ frames, as py-spy reads them.

        Raises:
          SessionError: Somebody else has started these processes.
        """
        self._refuse_out_of_reach()
        return self._asking.ask(ReadNativeStacks(), process_ids, within_s=NATIVE_SECONDS)

    def _refuse_out_of_reach(self) -> None:
        if not self._agents.reaches_past_main_threads:
            raise SessionError(
                Notice(
                    level="bad",
                    title="This kernel has not started these processes, and cannot read their stacks.",
                    text=f"Of a session that began with {start_with('keep', True)}, any kernel can.",
                    do=f"{command('status')} shows the line that each process is in.",
                    code="out of reach",
                )
            )
