"""Engines that this kernel has not started and does not stop: ipyparallel passes signals and reports ends."""

from __future__ import annotations

import contextlib
import logging
import signal
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from nbdist.contract.asides import Aside
from nbdist.contract.events import Fault
from nbdist.contract.orders import NewProcess
from nbdist.contract.questions import Question
from nbdist.errors import SessionError
from nbdist.launch.agents.agent_events import AgentEvents
from nbdist.launch.agents.agent_handle import AgentHandle
from nbdist.launch.agents.process_handle import ProcessHandle
from nbdist.launch.files.sync import Files
from nbdist.launch.model.exits import ProcessExit
from nbdist.launch.model.happenings import ProcessLost
from nbdist.launch.model.host_info import HostInfo
from nbdist.machine import folder as folders
from nbdist.message_guard import MessageGuard
from nbdist.spelling import command

logger = logging.getLogger(__name__)

LOOK_SECONDS = 0.2


class ForeignEngines:
    """Engines in place of a session's own agents; see `nbdist.launch.start.agents.Agents`.

    Args:
      client: ipyparallel's client, which learns from the hub when an engine ends; its nannies pass signals on.
      engines: ipyparallel's engine ids by process id, looked up each time.
      folder: Removed when this kernel leaves; None: nothing is.
      home: The agent of the controller, with whose end everything ends; None: not known.
    """

    reaches_past_main_threads = False

    def __init__(
        self,
        client: Any,
        engines: Mapping[int, int],
        *,
        folder: str | None = None,
        home: ProcessHandle | None = None,
    ) -> None:
        self._home = home
        self._folder = folder
        self.others: dict[str, AgentHandle] = {}
        self.files: Files | None = None
        self.silent: dict[str, float] = {}
        self.faults: list[str] = []
        self._guard = MessageGuard("A look after the engines", logger, self._fault)
        self.events = AgentEvents()
        self._client = client
        self._engines = engines
        self._ends: dict[int, ProcessExit] = {}
        self._stopped = threading.Event()
        self._look()  # some may have ended before this kernel came
        self._watch = threading.Thread(
            target=self._look_on, name="nbdist-foreign-engines", daemon=True
        )
        self._watch.start()

    @property
    def all(self) -> tuple[AgentHandle, ...]:
        """Empty: there is no agent of ours."""
        return ()

    def of(self, process_id: int) -> AgentHandle:
        """Refuse: no agent of ours has started the process.

        Raises:
          SessionError: Always.
        """
        raise SessionError(
            "This kernel has not started these processes, and nothing of nbdist runs beside them that could do "
            f"this. Do it where they came from, or start a session with {command('start')}."
        )

    def place(self, process_id: int) -> HostInfo | None:
        """Return None: the process's host is not known."""
        return None

    def start(self, processes: Sequence[NewProcess]) -> None:
        """Refuse to start engines.

        Raises:
          SessionError: Always: only their starter can start others in their place.
        """
        raise SessionError(
            "This kernel has not started these processes and cannot replace them. Start them again where they "
            "came from, then attach again."
        )

    def signal(self, number: int, process_ids: Sequence[int]) -> None:
        """Make the engines' nannies pass a signal on."""
        engines = [self._engines[p] for p in process_ids if p not in self._ends]
        if engines:
            self._client.send_signal(int(number), targets=engines, block=False)

    def ask(
        self,
        what: Aside,
        process_ids: Sequence[int],
        question: Question | None = None,
    ) -> None:
        """Interrupt processes for `Aside.ABANDON`, which ends a proof too; all else needs an agent of ours."""
        if what is Aside.ABANDON:
            self.signal(signal.SIGINT, process_ids)

    def forget(self, process_ids: Collection[int]) -> None:
        """Drop the ends of processes that another kernel has started again."""
        for process_id in process_ids:
            self._ends.pop(process_id, None)

    @property
    def controller_end(self) -> ProcessExit | None:
        """None: the controller's end is reported as the end of every engine."""
        return None

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

    def _fault(self, text: str) -> None:
        self.faults.append(text)
        self.events.publish(Fault(text=text))

    def _look_on(self) -> None:
        while not self._stopped.wait(LOOK_SECONDS):
            self._look()

    def _look(self) -> None:
        # The list changes while it is read.
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
