"""The output of cells that another kernel has sent: what comes now, and what the processes have kept of before.

A client of ipyparallel receives only what it has asked for; this listens to all, on a socket of its own.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any

import zmq

from nbdist.cells.submission import Message
from nbdist.contract.echo import Kept, KeptMessage
from nbdist.contract.iopub import Echo, message_of
from nbdist.launch.start.iopub import subscriber, wire
from nbdist.message_guard import MessageGuard

logger = logging.getLogger(__name__)

POLL_MILLISECONDS = 50


class ForeignOutput:
    """Listens for the requests of certain cells.

    What comes is held back until the process's echo is here, which has all that was before; a process that has
    none to give is let through by `go_on`.

    Args:
      connection: ipyparallel's client connection info.
      requests: Process ids by the number of the request whose output is wanted.
      take: Called from a thread of this object with the process and each message of its output, once and in
        order.
      report: Called with a sentence about the first message of a kind that could not be handled.
    """

    def __init__(
        self,
        connection: Mapping[str, Any],
        requests: Mapping[str, int],
        take: Callable[[int, Message], None],
        report: Callable[[str], None] | None = None,
    ) -> None:
        self._connection = connection
        self._wire = wire(connection)
        self._requests = dict(requests)
        self._take = take
        self._guard = MessageGuard("Output of a cell of before", logger, report)
        self._lock = threading.RLock()
        self._seen: set[str] = set()
        self._held: dict[int, list[Message]] = {p: [] for p in requests.values()}
        self.lost: dict[int, int] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="nbdist-foreign-output", daemon=True)

    @property
    def waiting(self) -> tuple[int, ...]:
        """The processes whose echo has not come."""
        return tuple(self._held)

    def start(self) -> None:
        """Begins to listen."""
        self._thread.start()

    def stop(self) -> None:
        """Ends."""
        self._stop.set()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(2.0)

    def go_on(self) -> None:
        """Waits for no echo any longer."""
        with self._lock:
            for process_id in self.waiting:
                self._release(process_id)

    def echo(self, process_id: int, kept: Kept) -> None:
        """Takes what a process has kept."""
        with self._lock:
            with self._guard:
                for message in kept.messages:
                    with self._guard:
                        self._take_kept(process_id, message)
                for request, count in kept.lost.items():
                    if self._requests.get(request) == process_id:
                        self.lost[process_id] = count
            self._release(process_id)

    def _take_kept(self, process_id: int, message: KeptMessage) -> None:
        if self._requests.get(message.parent) == process_id:
            self._once(process_id, message.id, message.kind, message.content)

    def _release(self, process_id: int) -> None:
        for message in self._held.pop(process_id, ()):
            with self._guard:
                self._once(process_id, message["id"], message["msg_type"], message["content"])

    def _once(self, process_id: int, name: str, kind: str, content: Any) -> None:
        if name not in self._seen:
            self._seen.add(name)
            self._take(process_id, {"msg_type": kind, "content": content})

    def _run(self) -> None:
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        socket = subscriber(context, self._connection, (b"engine.", b"echo."))
        try:
            while not self._stop.is_set():
                with self._guard:
                    if socket.poll(POLL_MILLISECONDS):
                        self._receive(socket.recv_multipart())
        finally:
            socket.close()
            context.term()

    def _receive(self, frames: list[bytes]) -> None:
        try:
            topics, parts = self._wire.feed_identities(frames)
            message = self._wire.deserialize(parts)
        except (ValueError, TypeError, IndexError):
            return  # not signed with this session's key
        if topics and topics[0].startswith(b"echo."):
            echo = message_of(message["msg_type"], message["content"])
            if isinstance(echo, Echo):
                self.echo(echo.process_id, echo.kept)
            return
        process_id = self._requests.get((message["parent_header"] or {}).get("msg_id", ""))
        if process_id is None:
            return
        name, kind = message["header"]["msg_id"], message["msg_type"]
        with self._lock:
            if process_id in self._held:
                self._held[process_id].append(
                    {"id": name, "msg_type": kind, "content": message["content"]}
                )
            else:
                self._once(process_id, name, kind, message["content"])
