"""The coordination services that the kernel has ordered from an agent."""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from nbdist.agent import coordinator
from nbdist.agent.children import Children
from nbdist.agent.heartbeat import PERIOD_SECONDS
from nbdist.contract.events import Coordinating
from nbdist.contract.lines import Events
from nbdist.contract.orders import SERVES_SECONDS, Coordinate
from nbdist.machine.log_tail import tail
from nbdist.machine.ports import ReservedPorts


class Services:
    """The coordination services of an agent, each in a child of its own.

    Args:
      children: The agent's.
      events: Gets the address of each service.
      beat: Sends a heartbeat while the agent waits.
      let_go: Called in a child: closes what only the agent uses.
    """

    def __init__(
        self,
        children: Children,
        events: Events,
        *,
        beat: Callable[[], object],
        let_go: Callable[[], None],
    ) -> None:
        self.wanted: list[Coordinate] = []
        self._children = children
        self._events = events
        self._beat = beat
        self._let_go = let_go

    def start(self, folder: str, *, fork: bool) -> None:
        """Start the services that are wanted; each is ready when its event is written.

        Args:
          folder: The session's private folder here.
          fork: Fork this process for a child; otherwise start a fresh interpreter.
        """
        for service in self.wanted:
            with closing(ReservedPorts()) as reserved:
                self._start(service, reserved, folder, fork=fork)
        self.wanted = []

    def _start(
        self, service: Coordinate, reserved: ReservedPorts, folder: str, *, fork: bool
    ) -> None:
        address = f"{service.host}:{service.port or reserved.reserve(1)[0]}"
        ready, serving = os.pipe()
        os.set_inheritable(serving, True)
        log = Path(folder) / "coordinator.log"

        def become() -> None:
            reserved.close()
            self._become(address, service.processes, serving, fork=fork)

        self._children.start(service.number, log, become, death_signal=signal.SIGKILL)
        os.close(serving)
        listens = self.listens(ready)
        os.close(ready)
        self._events.send(
            Coordinating(
                number=service.number,
                address=address if listens else None,
                last_lines=() if listens else tail(log),
            )
        )

    def listens(self, ready: int) -> bool:
        """Wait until a service listens, and send heartbeats meanwhile; return whether it does in time."""
        until = time.monotonic() + SERVES_SECONDS
        while (left := until - time.monotonic()) > 0:
            if select.select([ready], [], [], min(left, PERIOD_SECONDS))[0]:
                return bool(os.read(ready, 1))
            self._beat()
        return False

    def _become(self, address: str, processes: int, ready: int, *, fork: bool) -> None:
        """Run the service in the child."""
        self._let_go()
        if fork:
            coordinator.serve(address, processes, ready)
        command = [sys.executable, "-m", "nbdist.agent.coordinator"]
        os.execv(sys.executable, [*command, address, str(processes), str(ready)])
