"""Ports of this host that are free, and the address under which another host knows it."""

from __future__ import annotations

import random
import socket
from contextlib import closing
from pathlib import Path

LOOPBACK = "127.0.0.1"
"""The address of this machine that no other machine reaches."""

FIRST_PORT = 20000
"""Below this number many services have ports of their own."""

_RANDOM = random.SystemRandom()
"""Unaffected by `random.seed`: two notebooks that both call `random.seed(0)` must not pick the same port."""


def free_ports(count: int) -> list[int]:
    """Return `count` different TCP ports that are free on every address of this machine.

    Other processes bind these ports later. So they are taken from below the ephemeral range: a port in that range
    may be given to any program a moment later.
    """
    candidates = _candidates()
    found: list[int] = []
    while len(found) < count:
        port = _RANDOM.choice(candidates)
        if port not in found and _is_free(port):
            found.append(port)
    return found


class ReservedPorts:
    """TCP ports of this machine, kept from other programs until they are released.

    The process that is to listen may need seconds to start, and meanwhile other programs look for free ports. Each
    port is bound to a socket with `SO_REUSEADDR` (see socket(7)). Sockets that set this option too, such as those
    of libzmq and gRPC, can still bind the port and listen; programs that look for a free port cannot.
    """

    def __init__(self) -> None:
        self._sockets: list[socket.socket] = []

    def reserve(self, count: int) -> list[int]:
        """Reserve `count` more free ports, all different, and return them."""
        candidates, found = _candidates(), list[int]()
        while len(found) < count:
            port, one = _RANDOM.choice(candidates), socket.socket()
            try:
                one.bind(("", port))
            except OSError:
                one.close()
                continue
            # Set only after the bind: with it set before, two sockets could bind the same port.
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._sockets.append(one)
            found.append(port)
        return found

    def close(self) -> None:
        """Release all ports; those on which somebody listens by now stay taken."""
        while self._sockets:
            self._sockets.pop().close()


def is_taken(host: str, port: int) -> bool:
    """Return whether another program listens at this port of an address of this machine."""
    with closing(socket.socket()) as probe:
        # Earlier connections that the system has not forgotten yet do not count (tcp(7), TIME_WAIT).
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            probe.listen(1)
        except OSError:
            return True
    return False


def own_address(other: str) -> str | None:
    """Return the address of this machine from which `other` is reached; None where there is no route.

    Sends nothing: connecting a UDP socket only makes the system choose a route.
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
    """Return the first port of the ephemeral range: the system's on Linux, IANA's elsewhere."""
    try:
        text = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text()
        return int(text.split()[0])
    except (OSError, ValueError, IndexError):
        return 49152
