"""Cut of the collectives that wait, from a thread of this process; works also where no signal arrives.

On CPU, JAX's collectives go through gloo: each process listens on one port of its own, and connects to the ports
of the others.
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
"""Connections are ended once no byte has moved for `QUIET_SECONDS`. If bytes wait to be sent or read, as for a
host that is cut off, this takes `STILL_SECONDS`. The whole wait ends after `QUIET_LIMIT_SECONDS`."""

DRAIN_SECONDS = 10.0
"""How long data that others still send is read after a cut; the others are cut at most about a second later."""

LOOK_SECONDS = 0.01
AT_ONCE_BYTES = 1 << 20

_MOVED = struct.Struct("=2Q")
_MOVED_AT = 120
"""Offset of `tcpi_bytes_acked` and `tcpi_bytes_received` in Linux's `struct tcp_info` (since 4.1)."""


class Cut:
    """Cut of the connections that carry collectives, as if the others had closed them.

    When gloo (at commit 5b46c340) reads the end of a connection, it frees the threads that wait there, with two
    exceptions: those whose message is half written, also by a write that failed, and those whose message is half
    read (`Pair::signalException` goes through neither `tx_` nor `rx_`). These wait for half an hour. So nothing
    may be under way when a connection ends, and no write may fail: only reading is ended. The connection stays
    open through a copy of its descriptor; once gloo has closed its own, data of others is read from the copy.
    """

    def __init__(self) -> None:
        # The original descriptor and the copy, by inode.
        self._kept: dict[int, tuple[int, socket.socket]] = {}
        self._lock = threading.Lock()
        self._drained_until = 0.0

    def cut(self, own: Collection[int], others: Collection[int]) -> int:
        """End all connections; return how many were not ended before.

        Each process must end its own: in a ring each waits for its neighbour only. Every communicator of this
        process's back end is broken afterwards. A program whose collective has failed still goes on to its next
        one, which may send data to a receiver that has given up. So the connections between two devices of this
        process are ended first; data that is on its way then gets time to arrive.

        Args:
          own: The ports on which this process accepts such connections.
          others: The ports of the other processes.
        """
        inner = self._both_ends(own)
        count = self._end(own, others, lambda number: number in inner)
        self._until_quiet(own, others)
        count += self._end(own, others, lambda number: True)
        self._drain()
        return count

    def moved_bytes(self, own: Collection[int], others: Collection[int]) -> int:
        """Return the bytes sent and received on these connections so far; 0 if the system does not say."""
        if sys.platform != "linux":
            return 0
        return sum(sent + received for sent, received, _ in self._moved(own, others).values())

    def release(self) -> None:
        """Close the copies, once no process has a back end any more that knows these connections."""
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
        """Yield the connections that carry collectives and are not ended yet: descriptors and copies."""
        peers = {*own, *others}  # two devices of one process are connected as well
        for number, found in tcp_sockets():
            # gloo may close the socket at this moment. Listening sockets stay: gloo ends the process if one fails.
            with contextlib.suppress(OSError):
                if connection(found.fileno()).inode in self._kept or listens(found):
                    continue
                if found.getsockname()[1] in own or found.getpeername()[1] in peers:
                    yield number, found

    def _both_ends(self, own: Collection[int]) -> set[int]:
        """Return the descriptors of connections of this process with itself."""
        ends = {}
        for number, found in self._carrying(own, ()):
            with contextlib.suppress(OSError):
                ends[found.getsockname()[1], found.getpeername()[1]] = number
        return {number for (near, far), number in ends.items() if (far, near) in ends}

    def _until_quiet(self, own: Collection[int], others: Collection[int]) -> None:
        """Wait until no data is on its way on these connections; where the system does not say, for a moment."""
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
        """Return the numbers of bytes that were sent, were received, and still wait, by descriptor."""
        found = {}
        for number, one in self._carrying(own, others):
            with contextlib.suppress(OSError, struct.error):
                info = one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _MOVED_AT + _MOVED.size)
                sent, received = _MOVED.unpack_from(info, _MOVED_AT)
                found[number] = sent, received, _waiting(one)
        return found

    def _drain(self) -> None:
        """Read for a while what others send to connections that gloo has closed here: their writes would stop."""
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
    """Return the number of bytes of a connection that were not read here, or have not arrived there."""
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
