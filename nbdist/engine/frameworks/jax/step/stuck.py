"""Collectives that were cut, and in which gloo waits all the same, until its own limit of 30 minutes.

gloo gives up a message whose buffer is gone, but not the connection: the rest of the message stays unread, so that
the end of the connection is never seen (`Pair::prepareRead` answers -1; gloo at commit 5b46c340), and its thread
asks for events all the time. And it frees nobody whose message was half written or half read when the connection
ended (see `nbdist.engine.frameworks.jax.step.cut`): then no connection is left, only the thread that waits.
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
    """The connections whose events gloo's thread waits for; none where the system does not say.

    It waits for new ones as well, at the port in `own`. Source: `tfd` in `/proc/<pid>/fdinfo`, proc(5).
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
    """Puts a connection on which nothing ever happens in the place of a stuck one; False if it is gone.

    gloo's thread no longer runs in circles, and finds its descriptor when it closes it in the end.
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
            # Without events, since none must ever be reported; gloo fails where it is not registered.
            one.register(stuck.number, 0)
    far.detach()  # stays open, so that there is no end either
    return True


def _watched() -> dict[int, list[int]]:
    """What waits for events of other descriptors, and of which."""
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
    """The threads that are in a collective of a back end that is not kept."""
    found = frozenset(waiting_threads())
    return found.difference(*(kept.threads for kept in _KEPT))


def keep(back_end: Any, threads: Collection[int]) -> None:
    """Keeps a back end in which a collective is stuck: whoever frees one waits for all its threads."""
    _KEPT.append(_Kept(time.monotonic(), back_end, frozenset(threads)))


def let_go() -> None:
    """Forgets back ends whose last collective has reached gloo's own limit by now."""
    before = time.monotonic() - LIMIT_SECONDS
    _KEPT[:] = [kept for kept in _KEPT if kept.since > before]
