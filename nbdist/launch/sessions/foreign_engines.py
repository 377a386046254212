"""`ForeignEngines` stands for the agents of engines that another kernel, or somebody else, has started."""

from __future__ import annotations

import contextlib
import logging
import signal
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from nbdist.contract.asides import Abandon, Aside
from nbdist.launch.model.happenings import AgentEvents, ProcessExit, ProcessLost
from nbdist.launch.start.pool import Agents
from nbdist.machine import folder as folders
from nbdist.machine.processes import ProcessHandle
from nbdist.message_guard import MessageGuard

logger = logging.getLogger(__name__)


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
