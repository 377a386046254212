"""All agents of a session as one: those of ours, or ipyparallel in their place where somebody else started all."""

from __future__ import annotations

import contextlib
import logging
import signal
import threading
import time
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from nbdist.agent.kernel_link import PERIOD_SECONDS
from nbdist.contract.asides import Abandon, AnyAside, Aside, Question
from nbdist.contract.events import Fault
from nbdist.contract.orders import (
    CONTROLLER,
    Ask,
    Connect,
    NewProcess,
    Signal,
    Start,
    StopListening,
)
from nbdist.errors import SessionError
from nbdist.launch.agents.agent_handle import AgentHandle, JobAgent
from nbdist.launch.files.sync import Files
from nbdist.launch.model import happenings
from nbdist.launch.model.happenings import (
    AgentEvents,
    Happening,
    HostsSilent,
    ProcessExit,
    ProcessLost,
)
from nbdist.launch.model.hosts import SILENT_SECONDS, HostInfo
from nbdist.machine import folder as folders
from nbdist.machine.processes import ProcessHandle
from nbdist.message_guard import MessageGuard
from nbdist.spelling import command

logger = logging.getLogger(__name__)

LOST_SECONDS = 30.0
"""Seconds of silence after which a host is given up, so that a short network outage has no effect.

Only time in which this kernel ran counts (`nbdist.agent.kernel_link`)."""


class Agents:
    """Access of a session to its processes, whether nbdist or somebody else has started them.

    `AgentPool` asks nbdist's own agents; `ForeignEngines` asks ipyparallel.
    The defaults here are for processes of somebody else, about which nothing is known.

    Args:
      events: Publishes all happenings to its listeners.
      files: The user's files that are kept the same everywhere, None if there are none.

    Attributes:
      others: The agents on other machines, by host name.
      silent: By the name of each silent host, since when it has sent nothing (Unix seconds).
      faults: Sentences about messages that could not be handled; each is also published as an event `Fault`.
    """

    reaches_past_main_threads = False
    """Whether processes answer requests while they run a cell."""

    def __init__(self, events: AgentEvents, files: Files | None = None) -> None:
        self.events = events
        self.files = files
        self.others: dict[str, AgentHandle] = {}
        self.silent: dict[str, float] = {}
        self.faults: list[str] = []
        events.subscribe(self._collect_fault)

    @property
    def all(self) -> tuple[AgentHandle, ...]:
        """nbdist's own agents, that of this machine first; empty if somebody else has started the engines."""
        return ()

    @property
    def exits(self) -> dict[int, ProcessExit]:
        """How ended processes ended, or why processes can no longer be reached."""
        raise NotImplementedError

    @property
    def controller_end(self) -> ProcessExit | None:
        """The end of the controller, with which all engines are lost; None if it runs, or its state is unknown."""
        return None

    def of(self, process_id: int) -> AgentHandle:
        """Return the agent of one process.

        Raises:
          SessionError: Somebody else has started the process.
        """
        raise SessionError(
            "This kernel has not started these processes, and nothing of nbdist runs beside them that could do "
            f"this. Do it where they came from, or start a session with {command('start')}."
        )

    def host_info(self, process_id: int) -> HostInfo | None:
        """Return the facts about a process's host; None if the host is this machine, or unknown."""
        return None

    def start(self, processes: Sequence[NewProcess]) -> None:
        """Order the agents to start engines.

        Raises:
          SessionError: Somebody else has started the other engines.
        """
        raise SessionError(
            "This kernel has not started these processes and cannot replace them. Start them again where they "
            "came from, then attach again."
        )

    def forget(self, process_ids: Collection[int]) -> None:
        """Drop the ends of processes that are about to be started again, or that another kernel has replaced."""
        raise NotImplementedError

    def signal(self, number: int, process_ids: Sequence[int]) -> None:
        """Send a signal to engines."""
        raise NotImplementedError

    def ask(self, aside: Aside[Any], process_ids: Sequence[int], number: int = 0) -> None:
        """Send processes a request that does not need their main threads, if that is possible; return at once.

        Args:
          aside: The request.
          process_ids: The processes.
          number: A number that the answer repeats.
        """
        raise NotImplementedError

    def leave(self) -> None:
        """Let all processes go on without this kernel."""
        raise NotImplementedError

    def stop(self) -> None:
        """Stop everything that this kernel may stop."""
        raise NotImplementedError

    def _collect_fault(self, happening: Happening) -> None:
        if isinstance(happening, Fault):
            self.faults.append(happening.text)

    def _fault(self, text: str) -> None:
        self.events.publish(Fault(text=text))


class AgentPool(Agents):
    """All agents of a session: that of this machine, which has the controller, and those elsewhere.

    Args:
      home: The agent of this machine.
      others: The agents on other machines, by host name; a scheduler's job counts as one, on however many hosts.
      events: Where all agents publish their events. This object adds `HostsSilent` whenever the set of silent
        hosts changes.
      files: The user's files that are kept the same everywhere, None if there are none.
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
        super().__init__(events, files)
        self.home = home
        self.others = dict(others)
        self._guard = MessageGuard("A look after the hosts", logger, self._fault)
        self._of: dict[int, AgentHandle] = {}
        self._stopped = threading.Event()
        self._stopping = threading.Lock()
        self._watch = threading.Thread(target=self._pulse, name="nbdist-pulse", daemon=True)
        if self.others:
            self._watch.start()

    @property
    def all(self) -> tuple[AgentHandle, ...]:
        """All agents, that of this machine first."""
        return (self.home, *self.others.values())

    def of(self, process_id: int) -> AgentHandle:
        """Return the agent of one process."""
        return self._of[process_id]

    def host_info(self, process_id: int) -> HostInfo | None:
        """Return the facts about a process's host; None if it is this machine."""
        agent = self._of[process_id]
        if not agent.reach.remote:
            return None
        return agent.facts.get(process_id) or agent.facts.get(None)

    def assign(self, of: Mapping[int, AgentHandle]) -> None:
        """Set which agent each process belongs to."""
        self._of = dict(of)

    def received_since(self, host: str, moment: float) -> bool:
        """Return whether a host on another machine has sent something after a moment (monotonic)."""
        received = [agent.hosts_received_at() for agent in self.others.values()]
        return any(host in each and each[host] > moment for each in received)

    def start(self, processes: Sequence[NewProcess]) -> None:
        """Order each agent to start its engines."""
        wanted: dict[AgentHandle, list[NewProcess]] = defaultdict(list)
        for process in processes:
            wanted[self._of[process.process_id]].append(process)
        for agent, its in wanted.items():
            agent.order(Start(processes=tuple(its)))

    def connect(self, connection: Mapping[str, Any]) -> None:
        """Send the agents on other machines the controller's address and the session's key.

        The stream to the tasks of a job is not encrypted, so the tasks get both from
        `nbdist.launch.start.connect.Handover`.
        """
        for agent in self.others.values():
            if not isinstance(agent, JobAgent):
                agent.order(Connect(connection=dict(connection)))

    def stop_listening(self) -> None:
        """Order the agents to close the listeners by which other hosts tried to reach them."""
        for agent in self.others.values():
            agent.order(StopListening())

    def signal(self, number: int, process_ids: Sequence[int]) -> None:
        """Send a signal to engines."""
        wanted: dict[AgentHandle, list[int]] = defaultdict(list)
        for process_id in process_ids:
            wanted[self._of[process_id]].append(process_id)
        for agent, ids in wanted.items():
            agent.order(Signal(number=int(number), process_ids=tuple(ids)))

    def forget(self, process_ids: Collection[int]) -> None:
        """Drop the ends of processes that are about to be started again."""
        for process_id in process_ids:
            self._of[process_id].exits.pop(process_id, None)

    @property
    def controller_end(self) -> ProcessExit | None:
        """The end of the controller, or of its agent, with which all engines are lost; None while both run."""
        controller = self.home.exits.get(CONTROLLER)
        if controller is not None:
            because = controller.because_of or happenings.CONTROLLER
            return replace(controller, because_of=because)
        return self.home.end_of_all()

    @property
    def exits(self) -> dict[int, ProcessExit]:
        """How ended processes ended, or why processes can no longer be reached."""
        ends: dict[int, ProcessExit] = {}
        everything = self.controller_end
        for process_id, agent in self._of.items():
            end = agent.exits.get(process_id) or agent.end_of_all() or everything
            if end is not None:
                ends[process_id] = replace(end, process_id=process_id)
        return ends

    def ask(self, aside: Aside[Any], process_ids: Sequence[int], number: int = 0) -> None:
        """Send the request through the agents."""
        question = Question(number=number, aside=cast(AnyAside, aside))
        order = Ask(process_ids=tuple(process_ids), question=question)
        for agent in {self._of[process_id]: None for process_id in process_ids}:
            agent.order(order)

    def keep(self) -> None:
        """Order kept agents to go on without a kernel: from now on another kernel can find them."""
        for agent in self.all:
            agent.keep()

    def leave(self) -> None:
        """Let kept agents, and everything they have started, go on without this kernel."""
        self._stopped.set()
        for agent in self.all:
            agent.leave()

    def stop(self) -> None:
        """Stop everything that was started, on all hosts at once. Several threads may call it."""
        with self._stopping:
            self._stopped.set()
            if self.files is not None:
                self.files.stop()
            for agent in self.others.values():
                agent.begin_to_stop()
            # All end at the same time; the controller goes last, since engines wait for one that is gone.
            for agent in self.others.values():
                agent.stop()
            self.home.stop()
        if self._watch.is_alive() and threading.current_thread() is not self._watch:
            self._watch.join(2.0)

    def _pulse(self) -> None:
        while not self._stopped.wait(PERIOD_SECONDS):
            for agent in self.others.values():
                with self._guard:
                    self._check_agent(agent)
            with self._guard:
                self._publish_silent_hosts()

    def _check_agent(self, agent: AgentHandle) -> None:
        if agent.poll() is None and agent.facts:
            agent.beat()
            agent.note_lost_tasks(LOST_SECONDS)
            if agent.silence_s > LOST_SECONDS:
                agent.give_up()

    def _publish_silent_hosts(self) -> None:
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


HUB_SECONDS = 0.2
"""Seconds between two looks at the hub's list of engines."""


class ForeignEngines(Agents):
    """Engines in place of a session's own agents.

    This kernel has not started the engines and does not stop them; ipyparallel passes signals and reports ends.

    Args:
      client: ipyparallel's client: the hub reports when an engine ends, and the engines' nannies pass signals on.
      engines: ipyparallel's engine ids by process id, looked up each time.
      folder: Removed when this kernel leaves; None: nothing is.
      home: The process of the controller's agent, with which the session ends; None: unknown.
    """

    def __init__(
        self,
        client: Any,
        engines: Mapping[int, int],
        *,
        folder: str | None = None,
        home: ProcessHandle | None = None,
    ) -> None:
        super().__init__(AgentEvents())
        self._home = home
        self._folder = folder
        self._guard = MessageGuard("A look after the engines", logger, self._fault)
        self._client = client
        self._engines = engines
        self._ends: dict[int, ProcessExit] = {}
        self._stopped = threading.Event()
        self._look()  # some may have ended before this kernel attached
        self._watch = threading.Thread(
            target=self._look_on, name="nbdist-foreign-engines", daemon=True
        )
        self._watch.start()

    def signal(self, number: int, process_ids: Sequence[int]) -> None:
        """Make the engines' nannies pass a signal on."""
        engines = [self._engines[p] for p in process_ids if p not in self._ends]
        if engines:
            self._client.send_signal(int(number), targets=engines, block=False)

    def ask(self, aside: Aside[Any], process_ids: Sequence[int], number: int = 0) -> None:
        """Interrupt processes for `Abandon`, since that ends a proof as well; all else needs agents of nbdist."""
        if isinstance(aside, Abandon):
            self.signal(signal.SIGINT, process_ids)

    def forget(self, process_ids: Collection[int]) -> None:
        """Drop the ends of processes that another kernel has started again."""
        for process_id in process_ids:
            self._ends.pop(process_id, None)

    @property
    def exits(self) -> dict[int, ProcessExit]:
        """Ends of engines that the hub no longer has."""
        return dict(self._ends)

    def leave(self) -> None:
        """Stop watching the engines, and remove the folder."""
        self._stopped.set()
        if threading.current_thread() is not self._watch:
            self._watch.join(2.0)
        if self._folder is not None:
            folders.remove(self._folder)

    def stop(self) -> None:
        """Leave the engines: this kernel has not started them."""
        self.leave()

    def _look_on(self) -> None:
        while not self._stopped.wait(HUB_SECONDS):
            self._look()

    def _look(self) -> None:
        # ipyparallel's list of engines changes while it is read.
        with self._guard, contextlib.suppress(RuntimeError):
            there = set(self._client.ids)
            gone = {p for p, e in self._engines.items() if e not in there}
            because = "ipyparallel's hub has lost its engine"
            if self._home is not None and not self._home.running:
                gone, because = set(self._engines), "the session has ended with its kernel"
            for process_id in gone - set(self._ends):
                self._note(process_id, because)

    def _note(self, process_id: int, because: str) -> None:
        self._ends[process_id] = ProcessExit(
            process_id=process_id,
            pid=0,
            code=None,
            oom=False,
            time=time.time(),
            last_lines=(),
            because_of=because,
        )
        self.events.publish(ProcessLost(process_id=process_id))
