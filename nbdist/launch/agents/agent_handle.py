"""The kernel's end of agents (`nbdist.agent`): orders out, events in.

`AgentHandle` leads to the agent of one host. `JobAgent` leads to those of all tasks of a job at once.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from nbdist.agent.kernel_link import Pauses
from nbdist.contract import events
from nbdist.contract.checkup import Connection
from nbdist.contract.events import Collects, Exited, Lines, Received, Terminated
from nbdist.contract.orders import (
    CONTROLLER,
    Assignment,
    Keep,
    KernelAlive,
    Order,
    to_line,
)
from nbdist.launch.agents import AgentSpec, Channel, Pipes, Watch
from nbdist.launch.agents.fifo_channel import FoundAgain, LastingChild, Spot
from nbdist.launch.model.happenings import Happening, HostEnded, ProcessExit, ProcessLost
from nbdist.launch.model.hosts import SILENT_SECONDS, HostInfo
from nbdist.machine.processes import LOG_LINES, ProcessHandle, found, tail
from nbdist.message_guard import MessageGuard

logger = logging.getLogger(__name__)

STOP_SECONDS = 3.0
"""Seconds an agent may take to stop everything it started; it needs about 0.6 s at most."""

ORDER_SECONDS = 0.5
"""Seconds the stop waits for an order that is being written."""

AGAIN_SECONDS = 0.1
"""Seconds until the next attempt to read a channel that could not be read."""

STOPPED = "the session was stopped"


class AgentHandle:
    """A running agent: its process, and the channel to it.

    Args:
      reach: How the agent is reached.
      channel: The process, and the streams to and from it.
      log: The file of its standard error, which is read when the agent fails before it can report anything.
      on_event: Called from a thread of this object with each event of the agent.
    """

    stop_seconds = STOP_SECONDS

    def __init__(
        self,
        reach: AgentSpec,
        channel: Channel,
        *,
        log: Path,
        on_event: Callable[[Happening], None],
    ) -> None:
        self.reach = reach
        self.log = log
        self._channel = channel
        self._on_event = on_event
        self._lock = threading.Lock()
        self.facts: dict[int | None, HostInfo] = {}
        self.pids: dict[int, int] = {}
        self.exits: dict[int, ProcessExit] = {}
        self.failure: Received | None = None
        self.copying: list[tuple[int | None, events.FileEvent]] = []
        self.answers: dict[tuple[type, int | None, int], Any] = {}
        self.reached: dict[int | None, tuple[float, Sequence[Connection]]] = {}
        self.asked_s = time.time()
        self.received_at = time.monotonic()
        self._pauses = Pauses()
        self._guard = MessageGuard(f"A message of host {reach.name}", logger, self._fault)
        self.ended_at: float | None = None
        self.given_up = False
        self.stopped = False
        self._lines = Lines()
        self._reader = threading.Thread(target=self._read, name="nbdist-agent", daemon=True)

    @classmethod
    def begin(
        cls,
        reach: AgentSpec,
        assignment: Assignment,
        *,
        log: Path,
        on_event: Callable[[Happening], None],
    ) -> Self:
        """Start an agent; `assignment` says what it is to do, and whether it outlives this kernel."""
        channel: Channel
        if assignment.kept:
            channel = LastingChild(reach.command, reach.environment, log, first=to_line(assignment))
        else:
            channel = Pipes(reach.command, reach.environment, log)
        agent = cls(reach, channel, log=log, on_event=on_event)
        agent._reader.start()
        if not assignment.kept:
            agent.order(assignment)
        return agent

    @classmethod
    def again(
        cls,
        reach: AgentSpec,
        channel: FoundAgain,
        *,
        log: Path,
        on_event: Callable[[Happening], None],
    ) -> Self:
        """Return the handle of an agent that another kernel started; all its events so far are known at once."""
        agent = cls(reach, channel, log=log, on_event=on_event)
        for line in channel.backlog():
            with agent._guard:
                received = agent._lines.take(line)
                if received is not None:
                    agent._take(received)
        if not channel.process.running:
            agent.ended_at = time.time()  # known at once, not when its thread gets to it
        agent._reader.start()
        return agent

    def poll(self) -> int | None:
        """Return the exit status of the command, or None while it runs; 0 if only another kernel could know it."""
        return None if self._channel.process.running else self._channel.process.status or 0

    @property
    def spot(self) -> Spot | None:
        """Where another kernel finds the agent; None if the agent ends with this kernel."""
        return getattr(self._channel, "spot", None)

    @property
    def found(self) -> ProcessHandle | None:
        """The agent's process, by which another kernel finds it; None when it has ended."""
        return found(self.pid)

    @property
    def pid(self) -> int:
        """The id of the agent's process on this machine; of `ssh`, if that leads to the agent."""
        return self._channel.process.pid

    def keep(self) -> None:
        """Order a kept agent to go on without a kernel from now on."""
        if isinstance(self._channel, LastingChild):
            self._channel.keep()
        self.order(Keep())

    def leave(self) -> None:
        """Stop listening; a kept agent and everything it has started go on."""
        self._channel.leave()
        self._reader.join(1.0)
        self._channel.close()

    @property
    def silence_s(self) -> float:
        """Seconds that this kernel has run since anything arrived from the agent."""
        return self._pauses.ran_since(self.received_at)

    def hosts_received_at(self) -> dict[str, float]:
        """Return when each host this agent stands for last sent something (monotonic)."""
        return {self.reach.name: self.received_at}

    def silences(self) -> dict[str, float]:
        """Return the seconds this kernel has run since each host this agent stands for last sent something."""
        return {host: self._pauses.ran_since(at) for host, at in self.hosts_received_at().items()}

    def note_lost_tasks(self, silence_s: float) -> None:
        """Note tasks that have ended or been silent for `silence_s` while others go on; only jobs have tasks."""

    def begin_to_stop(self) -> None:
        """Order the agent to stop everything it started; do not wait."""
        if not self._lock.acquire(timeout=ORDER_SECONDS):
            self._channel.process.kill()  # another thread is stuck in an order that the agent does not read
            return
        try:
            with contextlib.suppress(OSError, ValueError):
                self._channel.end()
        finally:
            self._lock.release()

    def stop(self) -> None:
        """Stop everything this agent started, and the agent; return when all are gone or out of reach."""
        self.begin_to_stop()
        if not self._channel.process.wait(0.1):
            if self._needs_a_signal():
                self._channel.process.terminate()
            self._wait_or_kill()
        self._reader.join(1.0)
        self._channel.close()

    def give_up(self) -> None:
        """Cut the connection to a host that no longer answers."""
        self.given_up = True
        self._channel.process.kill()

    def _needs_a_signal(self) -> bool:
        """Return whether the agent may miss the end of its orders: it reads nothing during a long import.

        An agent on another machine checks for that itself.
        """
        return not self.reach.remote

    def _wait_or_kill(self) -> bool:
        """Wait for the agent's end; return whether it had to be killed."""
        deadline = time.monotonic() + (0.0 if self.given_up else self.stop_seconds)
        while time.monotonic() < deadline:
            if self._channel.process.wait(0.05):
                return False
            if self._is_out_of_reach():
                break  # no answer will come; what runs there ends by itself
        self._channel.process.kill()  # its children are signalled by the operating system
        self._channel.process.wait(STOP_SECONDS)
        return True

    def _is_out_of_reach(self) -> bool:
        return self.reach.remote and self.silence_s > SILENT_SECONDS

    def last_words(self) -> tuple[str, ...]:
        """Return the end of the standard error of the agent, or of the command that leads to it."""
        return tail(self.log)

    def controller_log_tail(self) -> tuple[str, ...]:
        """Return the end of the log of ipyparallel's controller."""
        return tail(self.log.parent / "controller.log", lines=LOG_LINES)

    def end_of_all(self) -> ProcessExit | None:
        """Return the end of this agent, which puts all its engines out of reach; None while it runs."""
        if self.ended_at is None:
            return None
        return replace(self._end(*self._because()), time=self.ended_at)

    def _because(self) -> tuple[str, int | None]:
        """Return what put the engines out of reach, and its exit status if it is a process."""
        if self.stopped:
            return STOPPED, None
        if self.given_up:
            return f"host {self.reach.name} does not answer", None
        if self.reach.remote:
            return f"the connection to host {self.reach.name}", self._channel.process.status
        return "the engines' parent process", self._channel.process.status

    def _end(self, because: str, code: int | None) -> ProcessExit:
        return ProcessExit(
            process_id=CONTROLLER,
            pid=self.pid,
            code=code,
            oom=False,
            time=time.time(),
            last_lines=self.last_words(),
            because_of=because,
        )

    def order(self, order: Order) -> None:
        """Send an order; drop it if the agent has ended.

        Raises:
          WireError: The order holds something JSON has no form for.
        """
        line = to_line(order)
        with self._lock, contextlib.suppress(OSError, ValueError):
            self._channel.send(line)

    def numbers(self, kind: type) -> set[int]:
        """Return the numbers of the answers of one type; those to an earlier kernel are among them."""
        # A copy, since the thread that reads the agent's events adds answers meanwhile.
        return {number for one, _, number in list(self.answers) if one is kind}

    def beat(self) -> None:
        """Tell the agent that the kernel is alive; never wait.

        An order that is being sent shows as much, and a host that accepts no more data must not delay the message
        to the others.
        """
        if not self._lock.acquire(blocking=False):
            return
        try:
            with contextlib.suppress(OSError, ValueError):
                if self._channel.ready():
                    self._channel.send(to_line(KernelAlive()))
        finally:
            self._lock.release()

    def _read(self) -> None:
        while not self._read_all() and self._channel.process.running and not self._channel.left:
            time.sleep(AGAIN_SECONDS)
        if not self._channel.left:
            with self._guard:
                # Its output has ended, so it ends in a moment.
                self._channel.process.wait(STOP_SECONDS)
            self.ended_at = time.time()
            with self._guard:
                self._on_event(HostEnded())

    def _read_all(self) -> bool:
        """Read the agent's output to its end; return False if reading failed before."""
        with self._guard:
            for line in self._channel.lines():
                self.received_at = time.monotonic()
                with self._guard:
                    received = self._lines.take(line)
                    if received is not None:
                        self._take(received)
                        self._on_event(received.event)
            return True
        return False

    def _fault(self, text: str) -> None:
        self._on_event(events.Fault(text=text))

    def _take(self, received: Received) -> None:
        match received.event:
            case events.Host() as host:
                self.facts[received.task] = HostInfo.reported(
                    host, asked_s=self.asked_s, received_s=time.time()
                )
            case events.Started(process_id=process_id, pid=pid):
                self.pids[process_id] = pid
                # This drops the end of an earlier process with the same id, which a later kernel reads again.
                self.exits.pop(process_id, None)
            case events.Stopped():
                self.stopped = True
            case events.Reached(answers=answers):
                self.reached[received.task] = (time.monotonic(), answers)
            case events.ImportFailed() | events.Refused() | events.OtherVersion():
                self.failure = received
            case events.FilesNeeded() | events.FilesDone() | events.FilesFailed() as answer:
                self.copying.append((received.task, answer))
            case events.Reserved() | events.Coordinating() | events.Relaying() as answer:
                self.answers[type(answer), received.task, answer.number] = answer
            case events.Exited() as end:
                self.exits[end.process_id] = ProcessExit(
                    process_id=end.process_id,
                    pid=end.pid,
                    # Stopping a session ends its processes with a signal, which explains nothing.
                    code=None if self.stopped else end.code,
                    because_of=STOPPED if self.stopped else None,
                    oom=end.oom,
                    # Another host's clock may differ, and the first cause is found by the time.
                    time=time.time() if self.reach.remote else received.time,
                    last_lines=end.last_lines,
                )


JOB_LINES = 1000
"""How many lines of the standard error of a job's command are read; each of its tasks may write some."""


class JobAgent(AgentHandle):
    """The agents of all tasks of a job, through the stream of `srun` or `mpirun`, which also reports its end.

    Attributes:
      public_keys: Public keys of tasks, to which the connection file may go; see `nbdist.agent.kernel_link`.
    """

    stop_seconds = 6.0
    """Seconds for the job's command: it gives tasks 2 s to end by themselves, and then cleans up."""

    def __init__(
        self,
        reach: AgentSpec,
        channel: Channel,
        *,
        log: Path,
        on_event: Callable[[Happening], None],
    ) -> None:
        super().__init__(reach, channel, log=log, on_event=on_event)
        self._received_at: dict[int, float] = {}
        self._terminated: set[int] = set()
        self._lost_one = False
        self.public_keys: set[str] = set()
        self._cancelled = False

    @property
    def watch(self) -> Watch:
        """The scheduler's watch on the job."""
        assert self.reach.watch is not None
        return self.reach.watch

    @property
    def waiting(self) -> str | None:
        """Why the job has not begun; None if it has."""
        return None if self.facts else self.watch.waiting(self.job_words())

    def job_words(self) -> tuple[str, ...]:
        """Return the last `JOB_LINES` lines of the standard error of the job's command."""
        return tail(self.log, lines=JOB_LINES)

    def hosts_received_at(self) -> dict[str, float]:
        """Return when each host of the job last sent something (monotonic)."""
        found: dict[str, float] = {}
        for task, received_at in list(self._received_at.items()):
            host = self.facts[task].host
            found[host] = max(found.get(host, received_at), received_at)
        return found

    def note_lost_tasks(self, silence_s: float) -> None:
        """Note tasks that have ended, or been silent for `silence_s`, while others go on."""
        if self.ended_at is not None:
            return
        gone = {
            task: f"host {self.facts[task].host} does not answer"
            for task, received_at in list(self._received_at.items())
            if self._pauses.ran_since(received_at) > silence_s
        }
        self._lost_one |= bool(gone)
        gone |= self.watch.ended_tasks(self.job_words())
        for task, because in gone.items():
            if task in self.facts and task not in self.exits:
                self._received_at.pop(task, None)
                self.exits[task] = self._end(because, None)
                self._on_event(ProcessLost(process_id=task))

    def begin_to_stop(self) -> None:
        """Order all tasks to end, also on a host that was cut off.

        The end of the orders reaches such a host late, and by then the command has killed the tasks. The scheduler
        reaches the host by its own connection, and asks the tasks to end before it kills them.
        """
        super().begin_to_stop()
        silent = any(silence_s > SILENT_SECONDS for silence_s in self.silences().values())
        if (self._lost_one or silent) and not self._cancelled:
            self._cancelled = True
            self.watch.cancel()

    def _needs_a_signal(self) -> bool:
        """Return whether the job still waits in a queue, where it reads nothing."""
        return self.waiting is not None

    def _is_out_of_reach(self) -> bool:
        return bool(self.facts) and super()._is_out_of_reach()

    def _wait_or_kill(self) -> bool:
        killed = super()._wait_or_kill()
        if killed:
            self.watch.cancel()
        return killed

    def _because(self) -> tuple[str, int | None]:
        ending = self.watch.ending(self.job_words())
        if ending is not None:
            return ending, self._channel.process.status
        if self.stopped or self.given_up:
            return super()._because()
        return self.watch.command, self._channel.process.status

    def _take(self, received: Received) -> None:
        task = received.task
        if isinstance(received.event, Collects):
            self.public_keys.add(received.event.public_key)
        if isinstance(received.event, Terminated):
            if task is not None:
                self._terminated.add(task)
        elif not isinstance(received.event, Exited) or task not in self._terminated:
            super()._take(received)
        if task is not None and task in self.facts:
            self._received_at[task] = self.received_at
