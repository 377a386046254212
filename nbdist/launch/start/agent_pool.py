"""All agents of a session as one: the one of this machine, which has the controller, and those elsewhere."""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from nbdist.agent.heartbeat import PERIOD_SECONDS
from nbdist.contract.asides import Aside
from nbdist.contract.events import Fault
from nbdist.contract.orders import CONTROLLER, Ask, Connect, NewProcess, StopListening
from nbdist.contract.questions import Question
from nbdist.launch.agents.agent_events import AgentEvents
from nbdist.launch.agents.agent_handle import AgentHandle
from nbdist.launch.agents.job_agent import JobAgent
from nbdist.launch.files.sync import Files
from nbdist.launch.model import exits
from nbdist.launch.model.exits import ProcessExit
from nbdist.launch.model.happenings import Happening, HostsSilent
from nbdist.launch.model.host_info import SILENT_SECONDS, HostInfo
from nbdist.message_guard import MessageGuard

logger = logging.getLogger(__name__)

LOST_SECONDS = 30.0
"""A host that has been silent for so long is given up; a cable that was out for a moment costs nothing.

Only time in which this kernel ran counts (`nbdist.machine.pauses`).
"""

KERNEL_LOST_SECONDS = 900.0
"""A kernel that has been silent for so long is given up by a host that is still connected to it.

A kernel that is stopped, or whose machine sleeps, says nothing, and from afar that looks like a cut: what runs on
the hosts waits. A kernel that ends closes the connection, which ends all at once. Linux gives up a connection on
which nothing is acknowledged after about as long (tcp(7), `tcp_retries2`: 924.6 s): more would gain nothing.
"""


class AgentPool:
    """Every agent of a session.

    Args:
      home: The one of this machine.
      others: Those on other machines, by host name; one job of a scheduler is one of them, whatever its hosts.
      events: To which all of them publish what they report. This object adds `HostsSilent` whenever other
        hosts than before are silent.
      files: The user's files that are kept the same everywhere, None where there are none.

    `faults` are sentences about messages that could not be handled; each comes as an event `Fault` as well.
    """

    reaches_past_main_threads = True

    def __init__(
        self,
        home: AgentHandle,
        others: Mapping[str, AgentHandle],
        *,
        events: AgentEvents,
        files: Files | None = None,
    ) -> None:
        self.home = home
        self.files = files
        self.others = dict(others)
        self.events = events
        self.silent: dict[str, float] = {}
        self.faults: list[str] = []
        events.subscribe(self._collect_fault)
        self._guard = MessageGuard("A look after the hosts", logger, self._fault)
        self._of: dict[int, AgentHandle] = {}
        self._stopped = threading.Event()
        self._stopping = threading.Lock()
        self._watch = threading.Thread(target=self._pulse, name="nbdist-pulse", daemon=True)
        if self.others:
            self._watch.start()

    @property
    def all(self) -> tuple[AgentHandle, ...]:
        """Home first."""
        return (self.home, *self.others.values())

    def of(self, process_id: int) -> AgentHandle:
        """The agent of one process."""
        return self._of[process_id]

    def place(self, process_id: int) -> HostInfo | None:
        """What is known of a process's host; None where it is this machine."""
        agent = self._of[process_id]
        if not agent.reach.remote:
            return None
        return agent.facts.get(process_id) or agent.facts.get(None)

    def assign(self, of: Mapping[int, AgentHandle]) -> None:
        """Says which agent each process belongs to."""
        self._of = dict(of)

    def received_since(self, host: str, moment: float) -> bool:
        """Whether a host on another machine has said something after a moment (monotonic)."""
        received = [agent.hosts_received_at() for agent in self.others.values()]
        return any(host in each and each[host] > moment for each in received)

    def start(self, processes: Sequence[NewProcess]) -> None:
        """Asks for engines, each of its agent."""
        wanted: dict[AgentHandle, list[NewProcess]] = defaultdict(list)
        for process in processes:
            wanted[self._of[process.process_id]].append(process)
        for agent, its in wanted.items():
            agent.start(its)

    def connect(self, connection: Mapping[str, Any]) -> None:
        """Sends the agents on other machines where the controller is, and the session's key.

        What leads to the tasks of a job is not encrypted: they have it from a `Handover`.
        """
        for agent in self.others.values():
            if not isinstance(agent, JobAgent):
                agent.order(Connect(connection=dict(connection)))

    def stop_listening(self) -> None:
        """Has the agents close what the others were to reach them at."""
        for agent in self.others.values():
            agent.order(StopListening())

    def signal(self, number: int, process_ids: Sequence[int]) -> None:
        """Sends a signal to engines."""
        wanted: dict[AgentHandle, list[int]] = defaultdict(list)
        for process_id in process_ids:
            wanted[self._of[process_id]].append(process_id)
        for agent, ids in wanted.items():
            agent.signal(number, ids)

    def forget(self, process_ids: Collection[int]) -> None:
        """Drops the ends of processes that are about to be started again."""
        for process_id in process_ids:
            self._of[process_id].exits.pop(process_id, None)

    @property
    def controller_end(self) -> ProcessExit | None:
        """The end of the controller, or of its agent, with which all engines are lost."""
        controller = self.home.exits.get(CONTROLLER)
        if controller is not None:
            because = controller.because_of or exits.CONTROLLER
            return replace(controller, because_of=because)
        return self.home.end_of_all()

    @property
    def exits(self) -> dict[int, ProcessExit]:
        """How processes ended that have, or why they can no longer be reached."""
        ends: dict[int, ProcessExit] = {}
        everything = self.controller_end
        for process_id, agent in self._of.items():
            end = agent.exits.get(process_id) or agent.end_of_all() or everything
            if end is not None:
                ends[process_id] = replace(end, process_id=process_id)
        return ends

    def ask(
        self,
        what: Aside,
        process_ids: Sequence[int],
        question: Question | None = None,
    ) -> None:
        """Asks processes for one thing past their main threads; returns at once.

        Args:
          what: The thing.
          process_ids: The processes.
          question: What they read beside it; see `nbdist.contract.questions`.
        """
        order = Ask(what=what.value, process_ids=tuple(process_ids), question=question)
        for agent in {self._of[process_id]: None for process_id in process_ids}:
            agent.order(order)

    def keep(self) -> None:
        """Has kept agents go on without a kernel from now on, since another can find them."""
        for agent in self.all:
            agent.keep()

    def leave(self) -> None:
        """Lets kept agents, and all they have started, go on without this kernel."""
        self._stopped.set()
        for agent in self.all:
            agent.leave()

    def stop(self) -> None:
        """Stops everything that was started, on all hosts at once. Several threads may ask for it."""
        with self._stopping:
            self._stopped.set()
            if self.files is not None:
                self.files.stop()
            for agent in self.others.values():
                agent.begin_to_stop()
            # They end side by side. The controller goes last: engines that are left alone wait for it.
            for agent in self.others.values():
                agent.stop()
            self.home.stop()
        if self._watch.is_alive() and threading.current_thread() is not self._watch:
            self._watch.join(2.0)

    def _collect_fault(self, happening: Happening) -> None:
        if isinstance(happening, Fault):
            self.faults.append(happening.text)

    def _pulse(self) -> None:
        while not self._stopped.wait(PERIOD_SECONDS):
            for agent in self.others.values():
                with self._guard:
                    self._look_after(agent)
            with self._guard:
                self._look_who_is_silent()

    def _look_after(self, agent: AgentHandle) -> None:
        if agent.poll() is None and agent.facts:
            agent.beat()
            agent.look_after_tasks(LOST_SECONDS)
            if agent.silence_s > LOST_SECONDS:
                agent.give_up()

    def _look_who_is_silent(self) -> None:
        now = time.time()
        silent = {
            name: self.silent.get(name, now - silence_s)
            for agent in self.others.values()
            if agent.facts and agent.poll() is None
            for name, silence_s in agent.silences().items()
            if silence_s > SILENT_SECONDS
        }
        if silent != self.silent:
            self.silent = silent
            self.events.publish(HostsSilent(since=silent))

    def _fault(self, text: str) -> None:
        self.events.publish(Fault(text=text))
