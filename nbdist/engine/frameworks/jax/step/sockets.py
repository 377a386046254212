"""The sockets of this process, whoever has opened them."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat
from collections.abc import Iterator
from typing import NamedTuple


class Connection(NamedTuple):
    """A TCP connection of this process: the number of its descriptor, and what tells it from later ones."""

    number: int
    inode: int


def connection(number: int) -> Connection:
    """The connection that a descriptor stands for.

    Raises:
      OSError: It is closed.
    """
    return Connection(number, os.fstat(number).st_ino)


def is_open(one: Connection) -> bool:
    """Whether its descriptor still stands for it."""
    try:
        return connection(one.number) == one
    except OSError:
        return False


def tcp_sockets() -> Iterator[tuple[int, socket.socket]]:
    """The TCP sockets of this process by descriptor, each as a copy that is closed again."""
    folder = "/proc/self/fd" if os.path.isdir("/proc/self/fd") else "/dev/fd"  # noqa: PTH112
    for entry in os.listdir(folder):  # noqa: PTH208 - names are numbers here
        with contextlib.suppress(OSError), copy_of(int(entry)) as found:
            if is_internet(found) and found.type == socket.SOCK_STREAM:
                yield int(entry), found


def copy_of(number: int) -> socket.socket:
    """A copy of the socket that a descriptor stands for; the caller closes it.

    Raises:
      OSError: It is none, or is closed by now.
    """
    if not stat.S_ISSOCK(os.fstat(number).st_mode):
        raise OSError(errno.ENOTSOCK, os.strerror(errno.ENOTSOCK))
    return socket.socket(fileno=os.dup(number))


def is_internet(one: socket.socket) -> bool:
    """Whether it has a port."""
    return one.family in (socket.AF_INET, socket.AF_INET6)


def listens(one: socket.socket) -> bool:
    """Whether it takes connections."""
    return bool(one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))


def listening_ports() -> set[int]:
    """The TCP ports on which this process listens."""
    return {found.getsockname()[1] for _, found in tcp_sockets() if listens(found)}
