"""Ends the collectives that wait, from a thread of this process: where no signal arrives, this works.

On CPU, JAX's collectives go through gloo: each process listens on one port of its own, and connects to those of
the others.
"""

from __future__ import annotations

import contextlib
import fcntl
import socket
import struct
import sys
import termios
import threading
import time
from collections.abc import Callable, Collection, Iterator

from nbdist.engine.frameworks.jax.step.sockets import (
    Connection,
    connection,
    is_open,
    listens,
    tcp_sockets,
)

QUIET_SECONDS = 0.04
STILL_SECONDS = 0.3
QUIET_LIMIT_SECONDS = 1.0
"""So long nothing may have moved before connections are ended; so long where something waits to be sent or read,
as for a host that is cut off; and no longer is waited for that."""

DRAIN_SECONDS = 10.0
"""So long after a cut what others still send is read; they are cut at the same time, or a second later."""

LOOK_SECONDS = 0.01
AT_ONCE_BYTES = 1 << 20

_MOVED = struct.Struct("=2Q")
_MOVED_AT = 120
"""Where `tcpi_bytes_acked` and `tcpi_bytes_received` are in Linux's `struct tcp_info` (since 4.1)."""


class Cut:
    """Ends the connections that carry collectives, as if the others had closed them.

    gloo (at commit 5b46c340) frees whoever waits at a connection when it reads its end, but for two: whose message
    is half written, also by a write that failed, and whose message is half read (`Pair::signalException` goes
    through neither `tx_` nor `rx_`). These wait for half an hour. So nothing may be under way when a connection
    ends, and no write may fail: only reading is ended, the connection stays open through a copy of ours, and what
    others send meanwhile is read from there once gloo has closed its own.
    """

    def __init__(self) -> None:
        # By inode, with what was its descriptor.
        self._kept: dict[int, tuple[int, socket.socket]] = {}
        self._lock = threading.Lock()
        self._drained_until = 0.0

    def cut(self, own: Collection[int], others: Collection[int]) -> int:
        """Ends all; answers how many that were not ended before.

        Each process must end its own: a ring waits for its neighbour only. Every communicator of this process's
        back end is broken afterwards. A program whose collective has failed goes on to its next one all the same,
        and what that sends may come to a receiver that has given up. So connections between two devices of this
        process end first, and then what is on its way is let arrive.

        Args:
          own: The ports on which this process takes such connections.
          others: Those of the other processes.
        """
        inner = self._both_ends(own)
        count = self._end(own, others, lambda number: number in inner)
        self._until_quiet(own, others)
        count += self._end(own, others, lambda number: True)
        self._drain()
        return count

    def moved_bytes(self, own: Collection[int], others: Collection[int]) -> int:
        """How much has been sent and received on these connections so far; 0 where nobody knows."""
        if sys.platform != "linux":
            return 0
        return sum(sent + received for sent, received, _ in self._moved(own, others).values())

    def release(self) -> None:
        """Closes what was kept open: no process has a back end any more that knows these connections."""
        with self._lock:
            for _, copy in self._kept.values():
                copy.close()
            self._kept.clear()

    def _end(
        self, own: Collection[int], others: Collection[int], chosen: Callable[[int], bool]
    ) -> int:
        count = 0
        for number, found in self._carrying(own, others):
            with contextlib.suppress(OSError), self._lock:
                if chosen(number):
                    copy = found.dup()
                    self._kept[connection(copy.fileno()).inode] = number, copy
                    copy.shutdown(socket.SHUT_RD)
                    count += 1
        return count

    def _carrying(
        self, own: Collection[int], others: Collection[int]
    ) -> Iterator[tuple[int, socket.socket]]:
        """Those that carry collectives and are not ended yet, each with its descriptor and as a copy."""
        peers = {*own, *others}  # two devices of one process are connected as well
        for number, found in tcp_sockets():
            # gloo may close it at this moment. What listens stays: gloo ends the process where that fails.
            with contextlib.suppress(OSError):
                if connection(found.fileno()).inode in self._kept or listens(found):
                    continue
                if found.getsockname()[1] in own or found.getpeername()[1] in peers:
                    yield number, found

    def _both_ends(self, own: Collection[int]) -> set[int]:
        """The descriptors of connections of this process with itself."""
        ends = {}
        for number, found in self._carrying(own, ()):
            with contextlib.suppress(OSError):
                ends[found.getsockname()[1], found.getpeername()[1]] = number
        return {number for (near, far), number in ends.items() if (far, near) in ends}

    def _until_quiet(self, own: Collection[int], others: Collection[int]) -> None:
        """Waits until nothing is on its way on these connections; where nobody knows, for a moment."""
        if sys.platform != "linux":
            time.sleep(QUIET_SECONDS)
            return
        moved_at = time.monotonic()
        deadline = moved_at + QUIET_LIMIT_SECONDS
        before = self._moved(own, others)
        while before and time.monotonic() < deadline:
            time.sleep(QUIET_SECONDS)
            now = self._moved(own, others)
            if now != before:
                moved_at = time.monotonic()
            waiting = any(count for *_, count in now.values())
            still = time.monotonic() - moved_at > STILL_SECONDS
            if now == before and (still or not waiting):
                return
            before = now

    def _moved(
        self, own: Collection[int], others: Collection[int]
    ) -> dict[int, tuple[int, int, int]]:
        """Bytes that were sent and received, and those that still wait to be, by descriptor."""
        found = {}
        for number, one in self._carrying(own, others):
            with contextlib.suppress(OSError, struct.error):
                info = one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _MOVED_AT + _MOVED.size)
                sent, received = _MOVED.unpack_from(info, _MOVED_AT)
                found[number] = sent, received, _waiting(one)
        return found

    def _drain(self) -> None:
        """Reads for a while what others send to connections that gloo has closed here; their writes would stop."""
        with self._lock:
            runs = time.monotonic() < self._drained_until
            self._drained_until = time.monotonic() + DRAIN_SECONDS
            if not runs and self._kept:
                threading.Thread(target=self._read, name="nbdist-drain", daemon=True).start()

    def _read(self) -> None:
        while True:
            with self._lock:
                if not self._kept or time.monotonic() > self._drained_until:
                    self._drained_until = 0.0
                    return
                for inode, (number, copy) in self._kept.items():
                    if not is_open(Connection(number, inode)):
                        _empty(copy)
            time.sleep(LOOK_SECONDS)


def _waiting(one: socket.socket) -> int:
    """Bytes of a connection that were not read here, or have not arrived there."""
    count = bytearray(4)
    total = 0
    for queue in (termios.FIONREAD, termios.TIOCOUTQ):
        fcntl.ioctl(one.fileno(), queue, count)
        total += int.from_bytes(count, sys.byteorder)
    return total


def _empty(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while one.recv(AT_ONCE_BYTES, socket.MSG_DONTWAIT):
            pass
