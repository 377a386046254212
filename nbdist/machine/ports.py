"""Ports of this host that are free, and the address under which another host knows it."""

from __future__ import annotations

import random
import socket
from contextlib import closing
from pathlib import Path

LOOPBACK = "127.0.0.1"
"""The address of this machine that nobody else reaches."""

FIRST_PORT = 20000
"""Below it many services have ports of their own."""

_RANDOM = random.SystemRandom()
"""Two notebooks that both call `random.seed(0)` must not meet at one port."""


def free_ports(count: int) -> list[int]:
    """So many different TCP ports that are free on every address of this machine.

    They are bound later, by other processes, so they come from below the range out of which the system gives
    ports to whoever asks for any: one of those may be gone a moment later.
    """
    candidates = _candidates()
    found: list[int] = []
    while len(found) < count:
        port = _RANDOM.choice(candidates)
        if port not in found and _is_free(port):
            found.append(port)
    return found


class ReservedPorts:
    """TCP ports of this machine that nobody else is given until they are released.

    Whoever is to listen on one may need seconds to come so far, and others look for free ones meanwhile. Each is
    bound to a socket that allows its address to be used again (`SO_REUSEADDR`, see socket(7)): another that does,
    as those of libzmq and gRPC, can be bound to it all the same, and listen; those which look for a free port
    cannot.
    """

    def __init__(self) -> None:
        self._sockets: list[socket.socket] = []

    def reserve(self, count: int) -> list[int]:
        """So many different ports more, that were free."""
        candidates, found = _candidates(), list[int]()
        while len(found) < count:
            port, one = _RANDOM.choice(candidates), socket.socket()
            try:
                one.bind(("", port))
            except OSError:
                one.close()
                continue
            # Only now: bound with it, two could have the same port.
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._sockets.append(one)
            found.append(port)
        return found

    def close(self) -> None:
        """Releases all of them; those on which somebody listens by now stay taken."""
        while self._sockets:
            self._sockets.pop().close()


def is_taken(host: str, port: int) -> bool:
    """Whether another program listens at this port of an address of this machine."""
    with closing(socket.socket()) as probe:
        # Connections of before that have not been forgotten yet do not count (tcp(7), TIME_WAIT).
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            probe.listen(1)
        except OSError:
            return True
    return False


def own_address(other: str) -> str | None:
    """The address of this machine from which `other` is reached; None where there is no route.

    Nothing is sent: connecting a UDP socket only has the system choose a route.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            other, 9, type=socket.SOCK_DGRAM, family=socket.AF_INET
        )[0]
        with closing(socket.socket(family, kind, protocol)) as probe:
            probe.connect(address)
            return str(probe.getsockname()[0])
    except OSError:
        return None


def _candidates() -> range:
    below = _first_given_port()
    return range(FIRST_PORT, below) if below - FIRST_PORT > 1000 else range(1024, 65536)


def _is_free(port: int) -> bool:
    with closing(socket.socket()) as probe:
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True


def _first_given_port() -> int:
    """Where the range begins out of which the system gives ports (Linux; elsewhere that of IANA)."""
    try:
        text = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text()
        return int(text.split()[0])
    except (OSError, ValueError, IndexError):
        return 49152
