"""A socket on which a test says what comes, in the place of one of ZeroMQ's."""

from __future__ import annotations

import queue
from collections.abc import Callable
from typing import Any

import zmq


class FakeSocket:
    """What a thread that reads messages uses of a socket.

    Args:
      wait: Called with the milliseconds for which a reader waits where nothing has come.
    """

    def __init__(self, wait: Callable[[int], None]) -> None:
        self._wait = wait
        self._came: queue.SimpleQueue[list[bytes] | zmq.ZMQError] = queue.SimpleQueue()
        self.taken = 0
        self.closed = False

    def put(self, *came: list[bytes] | zmq.ZMQError) -> None:
        """Messages, or errors that the socket raises in their place."""
        for one in came:
            self._came.put(one)

    @property
    def read(self) -> bool:
        """Whether all that was put has been taken."""
        return self._came.empty()

    def poll(self, timeout_ms: int) -> int:
        if self._came.empty():
            self._wait(timeout_ms)
        return int(not self._came.empty())

    def recv_multipart(self) -> Any:
        came = self._came.get_nowait()
        self.taken += 1
        if isinstance(came, zmq.ZMQError):
            raise came
        return came

    def close(self) -> None:
        self.closed = True
