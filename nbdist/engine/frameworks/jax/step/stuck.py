"""Stuck collectives: they were cut, but gloo waits in them until its own limit of 30 minutes.

gloo gives up a message whose buffer is gone, but not the connection. The rest of the message stays unread, so that
gloo never sees the end of the connection (`Pair::prepareRead` returns -1; gloo at commit 5b46c340), and its thread
asks for events all the time. gloo also does not free a thread whose message was half written or half read when the
connection ended (see `nbdist.engine.frameworks.jax.step.cut`): only the waiting thread is left then.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import socket
import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nbdist.engine.frameworks.jax.step.sockets import (
    Connection,
    connection,
    copy_of,
    is_internet,
    is_open,
    listens,
)
from nbdist.engine.frameworks.jax.step.threads import waiting_threads

LIMIT_SECONDS = 31 * 60
"""A little more than gloo's own limit; source: `DefaultCollectiveTimeout` of XLA's CPU back end, 30 minutes."""

FOLDER = Path("/proc/self/fdinfo")
_WATCHED = re.compile(r"^tfd:\s*(\d+)", re.MULTILINE)


def carrying(own: Collection[int]) -> list[Connection]:
    """Return the connections whose events gloo's thread waits for; none if the system does not say.

    The thread also waits for new connections at a port in `own`. Source: `tfd` in `/proc/<pid>/fdinfo`, proc(5).
    """
    found: list[Connection] = []
    for watched in _watched().values():
        connections, takes_more = [], False
        for number in watched:
            with contextlib.suppress(OSError), copy_of(number) as one:
                if not listens(one):
                    connections.append(connection(number))
                elif is_internet(one):
                    takes_more |= one.getsockname()[1] in own
        found += connections if takes_more else []
    return found


def silence(stuck: Connection) -> bool:
    """Replace a stuck connection by one on which nothing ever happens; return False if it is gone.

    gloo's thread then stops asking for events, and can still close its descriptor in the end.
    """
    if not is_open(stuck):
        return False
    near, far = socket.socketpair()
    watching = [number for number, watched in _watched().items() if stuck.number in watched]
    with near:
        os.dup2(near.fileno(), stuck.number, inheritable=False)
    for number in watching:
        with (
            contextlib.suppress(OSError),
            contextlib.closing(select.epoll.fromfd(os.dup(number))) as one,
        ):
            # Registered since gloo fails otherwise; without events since none must ever be reported.
            one.register(stuck.number, 0)
    far.detach()  # the far side stays open, so that the near one sees no end of the connection
    return True


def _watched() -> dict[int, list[int]]:
    """Return the descriptors that are watched for events, by the epoll descriptor that watches them."""
    found = {}
    if FOLDER.is_dir():
        for entry in FOLDER.iterdir():
            with contextlib.suppress(OSError):
                numbers = _WATCHED.findall(entry.read_text())
                if numbers:
                    found[int(entry.name)] = list(map(int, numbers))
    return found


@dataclass(frozen=True, slots=True)
class _Kept:
    """A back end in which a collective is stuck, since when, and the threads that wait in it."""

    since: float
    back_end: Any
    threads: frozenset[int]


_KEPT: list[_Kept] = []


def waiting() -> frozenset[int]:
    """Return the threads that wait in a collective of a back end that is not kept."""
    found = frozenset(waiting_threads())
    return found.difference(*(kept.threads for kept in _KEPT))


def keep(back_end: Any, threads: Collection[int]) -> None:
    """Keep a back end in which a collective is stuck, since freeing it would wait for all its threads."""
    _KEPT.append(_Kept(time.monotonic(), back_end, frozenset(threads)))


def let_go() -> None:
    """Release kept back ends whose stuck collectives have reached gloo's own limit by now."""
    before = time.monotonic() - LIMIT_SECONDS
    _KEPT[:] = [kept for kept in _KEPT if kept.since > before]
