"""A relay on each host, through which its processes reach JAX's coordination service.

A process of JAX's ends (SIGABRT) when its connection to the service does. With the relay the connection lives on
when the service, or its host, has ended, and each request ends as cancelled: JAX then stops asking for errors of
others, and a thread that waits for a value of another process gets an error.
"""

from __future__ import annotations

import contextlib
import errno
import selectors
import socket
from dataclasses import dataclass, field
from typing import Any

from nbdist.agent.http2 import Requests
from nbdist.machine.ports import LOOPBACK

CHUNK = 1 << 16
"""How many bytes are read at once."""

MOST_WAITING = 1 << 20
"""While this many bytes wait for one side to take them, no more are read from the other."""

_Address = tuple[socket.AddressFamily, Any]


@dataclass(eq=False)
class _Link:
    """A connection of a process, and the one to the service, None when that has ended."""

    process: socket.socket
    service: socket.socket | None
    connected: bool = False
    to_process: bytes = b""
    to_service: bytes = b""
    requests: Requests = field(default_factory=Requests)


class Relays:
    """A listener on a port of this host for the service; `pump` does all work on one thread and never waits."""

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
                self._end(link)  # nobody listens: the process tries again by itself
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
        # Processes that were forked meanwhile have the socket as well.
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
        one.close()


def _read(one: socket.socket) -> bytes | None:
    """Return the bytes that have come; empty at the end of the connection, None if there are none yet."""
    try:
        return one.recv(CHUNK)
    except BlockingIOError:
        return None
    except OSError:
        return b""


def _write(one: socket.socket, data: bytes) -> bytes:
    """Send what can be sent now; return the rest. A broken connection shows when it is read."""
    try:
        return data[one.send(data) :] if data else b""
    except BlockingIOError:
        return data
    except OSError:
        return b""
