"""Coordination services of JAX that an agent runs, and the relay through which its host's processes reach one.

JAX runs the service in process 0. There it would end with that process, and could not be started again while
process 0 lives. So it runs in a process of its own (`serve`), beside the engines of the first host.

JAX ends a process (SIGABRT) when its connection to the service breaks. With a relay on each host, the connection
stays up when the service, or its host, has ended, and each open request ends as cancelled: JAX then stops asking
for errors of other processes, and a thread that waits for a value of another process gets an error.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import selectors
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nbdist.agent.kernel_link import PERIOD_SECONDS
from nbdist.agent.processes import Children
from nbdist.contract.events import Coordinating, Events
from nbdist.contract.orders import SERVES_SECONDS, Coordinate
from nbdist.machine.ports import LOOPBACK, ReservedPorts
from nbdist.machine.processes import tail

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEAD = 9
DATA, HEADERS, RST_STREAM = 0x0, 0x1, 0x3
END_STREAM = 0x1
CANCEL = 0x8

Frame = tuple[int, int, int]
"""Type, flags, and the number of the stream."""


class Frames:
    """A reader of HTTP/2 frame heads in one direction of a connection; a head may come in several pieces.

    Args:
      skipped: How many bytes come before the first frame.
    """

    def __init__(self, skipped: int = 0) -> None:
        self._skip = skipped
        self._head = b""

    def read(self, data: bytes) -> Iterator[Frame]:
        """Yield the frames whose heads are complete with these bytes."""
        while data:
            passed = min(self._skip, len(data))
            self._skip -= passed
            data = data[passed:]
            missing = HEAD - len(self._head)
            self._head, data = self._head + data[:missing], data[missing:]
            if self._skip == 0 and len(self._head) == HEAD:
                head, self._head = self._head, b""
                self._skip = int.from_bytes(head[:3])
                yield head[3], head[4], int.from_bytes(head[5:]) & 0x7FFFFFFF

    @property
    def missing(self) -> int:
        """The number of bytes that a frame that has begun still lacks."""
        return self._skip + (HEAD - len(self._head) if self._head else 0)


class Requests:
    """The requests of one connection that have not been answered completely.

    This reads the part of HTTP/2 that a relay of gRPC needs: which requests wait for an answer, and how to cancel
    one.

    Source: RFC 9113, sections 3.4 (preface), 4.1 (frames), 6.2 (HEADERS), 6.4 (RST_STREAM) and 7 (CANCEL). For
    gRPC a stream is one request, and CANCEL its status CANCELLED
    (https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md).
    """

    def __init__(self) -> None:
        self._asking = Frames(skipped=len(PREFACE))
        self._answering = Frames()
        self._open: dict[int, None] = {}

    def asked(self, data: bytes) -> None:
        """Note bytes that the client has sent."""
        for kind, _, stream in self._asking.read(data):
            if kind == HEADERS:
                self._open[stream] = None
            elif kind == RST_STREAM:
                self._open.pop(stream, None)

    def answered(self, data: bytes) -> None:
        """Note bytes that the server has sent."""
        for kind, flags, stream in self._answering.read(data):
            ends = kind in (DATA, HEADERS) and flags & END_STREAM
            if ends or kind == RST_STREAM:
                self._open.pop(stream, None)

    def cancelled(self) -> bytes:
        """Return the bytes that end all open requests as cancelled, to be sent to the client."""
        rest = bytes(self._answering.missing)
        self._answering = Frames()
        streams, self._open = [*self._open], {}
        return rest + b"".join(map(_cancel, streams))


def _cancel(stream: int) -> bytes:
    head = (4).to_bytes(3) + bytes([RST_STREAM, 0]) + stream.to_bytes(4)
    return head + CANCEL.to_bytes(4)


CHUNK = 1 << 16
"""The most bytes that are read at once."""

MOST_WAITING = 1 << 20
"""Bytes that may wait to be sent to one side; above this no more are read from the other side."""

_Address = tuple[socket.AddressFamily, Any]


@dataclass(eq=False)
class _Link:
    """A connection from a process, joined to one to the service; `service` is None once the service has ended."""

    process: socket.socket
    service: socket.socket | None
    connected: bool = False
    to_process: bytes = b""
    to_service: bytes = b""
    requests: Requests = field(default_factory=Requests)


class Relays:
    """A port of this host through which its processes reach the service.

    `pump` does all work on one thread, and never waits.
    """

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._listener: socket.socket | None = None
        self._service: _Address | None = None
        self._links: set[_Link] = set()

    def fileno(self) -> int:
        """Return the descriptor that is readable when `pump` has something to do."""
        return self._selector.fileno()

    def open(self, address: str) -> int:
        """Listen for processes that are to reach this service from now on; earlier connections go on.

        Args:
          address: `HOST:PORT` of the service.

        Returns:
          The port of the loopback address.

        Raises:
          OSError: The host's name has no address, or no port is free.
        """
        host, _, port = address.rpartition(":")
        found = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
        family, _, _, _, there = found[0]
        listener = socket.create_server((LOOPBACK, 0), backlog=socket.SOMAXCONN)
        listener.setblocking(False)
        if self._listener is not None:
            self._drop(self._listener)
        self._listener, self._service = listener, (family, there)
        self._selector.register(listener, selectors.EVENT_READ)
        return int(listener.getsockname()[1])

    def pump(self) -> None:
        """Pass on the bytes that have come."""
        for key, ready in self._selector.select(0):
            one = key.fileobj
            assert isinstance(one, socket.socket)
            if key.data is None:
                self._accept(one)
            elif key.data in self._links:
                self._move(key.data, one, ready)

    def close(self) -> None:
        """End all connections."""
        for link in [*self._links]:
            self._end(link)
        if self._listener is not None:
            self._drop(self._listener)
            self._listener = None
        self._selector.close()

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            process, _ = listener.accept()
            assert self._service is not None
            family, there = self._service
            service = socket.socket(family)
            for one in (process, service):
                one.setblocking(False)
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            link = _Link(process, service)
            self._links.add(link)
            self._selector.register(process, selectors.EVENT_READ, link)
            self._selector.register(service, selectors.EVENT_WRITE, link)
            if service.connect_ex(there) not in (0, errno.EINPROGRESS):
                self._end(link)

    def _move(self, link: _Link, one: socket.socket, ready: int) -> None:
        if one is link.service and not link.connected:
            if one.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                self._end(link)  # the service does not listen: the process tries again by itself
                return
            link.connected = True
        if ready & selectors.EVENT_READ:
            came = _read(one)
            if came == b"":
                if one is link.process:
                    self._end(link)
                    return
                link.service = None
                self._drop(one)
            elif came is not None and one is link.process:
                link.requests.asked(came)
                link.to_service += came
            elif came is not None:
                link.requests.answered(came)
                link.to_process += came
        if link.service is None:
            link.to_process += link.requests.cancelled()
        link.to_process = _write(link.process, link.to_process)
        if link.service is None:
            link.to_service = b""
        elif link.connected:
            link.to_service = _write(link.service, link.to_service)
        self._wait_for(link)

    def _wait_for(self, link: _Link) -> None:
        """Register this link for the events that it waits for."""
        sides = (
            (link.process, link.to_process, link.to_service),
            (link.service, link.to_service or (b"" if link.connected else b"?"), link.to_process),
        )
        for one, waiting, other in sides:
            if one is None:
                continue
            events = selectors.EVENT_WRITE if waiting else 0
            events |= selectors.EVENT_READ if len(other) < MOST_WAITING else 0
            with contextlib.suppress(KeyError):
                self._selector.unregister(one)  # a socket cannot be registered for no events
            if events:
                self._selector.register(one, events, link)

    def _end(self, link: _Link) -> None:
        self._links.discard(link)
        for one in (link.process, link.service):
            if one is not None:
                self._drop(one)

    def _drop(self, one: socket.socket) -> None:
        with contextlib.suppress(KeyError):
            self._selector.unregister(one)
        # Closing is not enough: processes that were forked meanwhile hold the socket open.
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
        one.close()


def _read(one: socket.socket) -> bytes | None:
    """Return the bytes that have come: empty at the end of the connection, None if there are none yet."""
    try:
        return one.recv(CHUNK)
    except BlockingIOError:
        return None
    except OSError:
        return b""


def _write(one: socket.socket, data: bytes) -> bytes:
    """Send what can be sent now and return the rest; a broken connection is noticed when it is read."""
    try:
        return data[one.send(data) :] if data else b""
    except BlockingIOError:
        return data
    except OSError:
        return b""


class Services:
    """The coordination services that the kernel has ordered from an agent, each in a child of its own.

    Args:
      children: The agent's children.
      events: Gets the address of each service.
      beat: Sends a heartbeat while the agent waits.
      let_go: Called in a child to close what only the agent uses.
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
            serve(address, processes, ready)
        command = [sys.executable, "-m", "nbdist.agent.coordination"]
        os.execv(sys.executable, [*command, address, str(processes), str(ready)])


HEARTBEAT_SECONDS = 24 * 60 * 60
SHUTDOWN_SECONDS = 3

READY = b"1"


def serve(address: str, processes: int, ready: int) -> None:
    """Serve until a signal ends this process.

    Args:
      address: The one `HOST:PORT` to listen on.
      processes: How many will join.
      ready: A descriptor that gets `READY` when the service listens.

    Raises:
      OSError: The port is taken.
    """
    refuse_taken(address)
    service = service_at(address, processes)
    os.write(ready, READY)
    os.close(ready)
    while service is not None:
        signal.pause()


def refuse_taken(address: str) -> None:
    """Raise `OSError` if somebody listens at an address.

    gRPC would listen there as well (SO_REUSEPORT), and the system would choose which of the two each process
    reaches.
    """
    host, _, port = address.rpartition(":")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        trial.bind((host.strip("[]"), int(port)))


def service_at(address: str, processes: int) -> Any:
    """Return a running service.

    The timeout of JAX's heartbeats is one day: they would end every process after a pause of all, such as a
    machine that sleeps. nbdist itself sees the end of a process within a tenth of a second.

    Private API: `jaxlib._jax.get_distributed_runtime_service` (0.10.0 to 0.12.0.1), which
    `jax.distributed.initialize` calls in process 0 alone, and which has no public equivalent.

    Raises:
      AttributeError: That function is gone.
    """
    from jax._src.lib import _jax

    return _jax.get_distributed_runtime_service(
        address,
        processes,
        heartbeat_timeout=HEARTBEAT_SECONDS,
        shutdown_timeout=SHUTDOWN_SECONDS,
        recoverable=True,
    )


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
