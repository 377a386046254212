"""Sockets of this process, whichever library has opened them."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat
from collections.abc import Iterator
from typing import NamedTuple


class Connection(NamedTuple):
    """A TCP connection of this process: its descriptor, and the inode that tells it from later connections."""

    number: int
    inode: int


def connection(number: int) -> Connection:
    """Return the connection of a descriptor.

    Raises:
      OSError: The descriptor is closed.
    """
    return Connection(number, os.fstat(number).st_ino)


def is_open(one: Connection) -> bool:
    """Return whether a connection's descriptor is still open and its own."""
    try:
        return connection(one.number) == one
    except OSError:
        return False


def tcp_sockets() -> Iterator[tuple[int, socket.socket]]:
    """Yield the TCP sockets of this process with their descriptors, each as a copy that is closed afterwards."""
    folder = "/proc/self/fd" if os.path.isdir("/proc/self/fd") else "/dev/fd"  # noqa: PTH112
    for entry in os.listdir(folder):  # noqa: PTH208 - names are numbers here
        with contextlib.suppress(OSError), copy_of(int(entry)) as found:
            if is_internet(found) and found.type == socket.SOCK_STREAM:
                yield int(entry), found


def copy_of(number: int) -> socket.socket:
    """Return a copy of the socket of a descriptor; the caller closes the copy.

    Raises:
      OSError: The descriptor is closed, or is not of a socket.
    """
    if not stat.S_ISSOCK(os.fstat(number).st_mode):
        raise OSError(errno.ENOTSOCK, os.strerror(errno.ENOTSOCK))
    return socket.socket(fileno=os.dup(number))


def is_internet(one: socket.socket) -> bool:
    """Return whether a socket is of IPv4 or IPv6, and so has a port."""
    return one.family in (socket.AF_INET, socket.AF_INET6)


def listens(one: socket.socket) -> bool:
    """Return whether a socket accepts connections."""
    return bool(one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))


def listening_ports() -> set[int]:
    """Return the TCP ports on which this process listens."""
    return {found.getsockname()[1] for _, found in tcp_sockets() if listens(found)}
