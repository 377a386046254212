"""Agents without processes: channels that answer orders with the events that a test has chosen."""

from __future__ import annotations

import json
import queue
import signal
import threading
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

from nbdist.contract.events import in_lines
from nbdist.launch.agents import Channel

Order = dict[str, Any]

PIDS = count(1_000_000)


class FakeChannel(Channel):
    """An `nbdist.launch.agents.Channel` to an agent that only answers.

    Args:
      name: Of the agent's host.
      log: Its standard error.
      obey: Called with this channel and each order, on the thread that gives it.
      sleep: Called where somebody waits for its end.
    """

    def __init__(
        self,
        name: str,
        log: Path,
        obey: Callable[[FakeChannel, Order], None],
        sleep: Callable[[float], None],
    ) -> None:
        self.name = name
        # It is its own process.
        self.process: Any = self
        self.pid = next(PIDS)
        self.status: int | None = None
        self.orders: list[Order] = []
        # Neither the end of its input nor SIGTERM ends it.
        self.hangs = False
        # It says no more that it is there.
        self.silent = False
        self.closed = False
        self.left = False
        self._log = log
        self._obey = obey
        self._sleep = sleep
        self._said: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self.unread = 0

    def say(self, event: str, **facts: Any) -> None:
        """One event, for the kernel's reader to take."""
        self._put(json.dumps({"event": event, "time": 0.0, **facts}).encode() + b"\n")

    def say_as(self, task: int, event: str, **facts: Any) -> None:
        """One event of a task of a job."""
        text = json.dumps({"event": event, "time": 0.0, **facts})
        for line in in_lines(text, task):
            self._put(f"{line}\n".encode())

    def exit(self, status: int, *words: str) -> None:
        """Its command ends, with these words on its standard error."""
        with self._lock:
            if self.status is not None:
                return
            self.status = status
        with self._log.open("a") as log:
            log.writelines(f"{line}\n" for line in words)
        self._put(None)

    def ordered(self, kind: str) -> list[Order]:
        """The orders of one kind that it was sent."""
        return [order for order in self.orders if order["order"] == kind]

    def _put(self, line: bytes | None) -> None:
        with self._lock:
            self.unread += 1
        self._said.put(line)

    def _taken(self) -> None:
        with self._lock:
            self.unread -= 1

    @property
    def running(self) -> bool:
        return self.status is None

    def ready(self) -> bool:
        return True

    def send(self, line: bytes) -> None:
        if not self.running:
            raise BrokenPipeError(f"the agent of {self.name} has ended")
        order = json.loads(line)
        self.orders.append(order)
        self._obey(self, order)

    def end(self) -> None:
        if not self.hangs:
            self.exit(0)

    def lines(self) -> Iterator[bytes]:
        while (line := self._said.get()) is not None:
            yield line
            self._taken()  # by now it has been handled
        self._taken()

    def wait(self, timeout_s: float) -> bool:
        if self.running:
            self._sleep(timeout_s)
        return not self.running

    def terminate(self) -> None:
        if not self.hangs:
            self.exit(-signal.SIGTERM)

    def kill(self) -> None:
        self.exit(-signal.SIGKILL)

    def leave(self) -> None:
        self.left = True
        self._put(None)

    def close(self) -> None:
        self.closed = True
