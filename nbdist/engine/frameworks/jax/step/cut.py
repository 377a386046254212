"""Cut of the collectives that wait, by a thread of this process; works where no signal reaches the main thread.

On CPU, JAX's collectives go through gloo: each process listens on one port of its own, and connects to the ports
of the others. Ending these connections frees the threads that wait in collectives, with an exception: a thread
that is stuck in the middle of a message waits until gloo's own limit of 30 minutes. Its connection is silenced,
and its back end is kept until then.

A process that still waits for others to connect has no connection to end: its meeting is ended instead
(`Meetings`).
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import re
import select
import socket
import stat
import struct
import sys
import termios
import threading
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from nbdist.engine.frameworks.jax.private import client_with
from nbdist.engine.frameworks.jax.step.programs import waiting_threads

QUIET_SECONDS = 0.04
STILL_SECONDS = 0.3
QUIET_LIMIT_SECONDS = 1.0
"""Time without a moved byte after which connections are ended: `QUIET_SECONDS`, or `STILL_SECONDS` if bytes wait
to be sent or read, as for a host that is cut off. The whole wait ends after `QUIET_LIMIT_SECONDS`."""

DRAIN_SECONDS = 10.0
"""Time after a cut for which data from other processes is still read. They are cut at most about a second later.
"""

HELD_SECONDS = 0.1
"""Time for which connections deliver nothing before they are ended. All processes are asked at the same moment:
after this time those of the others deliver nothing either, except on a machine that is too busy for that."""

LOOK_SECONDS = 0.01
IDLE_SECONDS = 0.05
"""Times between two looks at what has arrived: one while data arrives, one while none does."""

AT_ONCE_BYTES = 1 << 20

_MOVED = struct.Struct("=2Q")
_MOVED_AT = 120
"""Offset of `tcpi_bytes_acked` and `tcpi_bytes_received` in Linux's `struct tcp_info` (since 4.1)."""

_ATTACH_FILTER, _DETACH_FILTER = 26, 27
"""Linux's `SO_ATTACH_FILTER` and `SO_DETACH_FILTER`, which Python does not name. Source: socket(7)."""

_NOTHING = ctypes.create_string_buffer(struct.pack("=HBBI", 0x06, 0, 0, 0))
"""A filter of one instruction, `BPF_RET | BPF_K` with 0: no byte of any packet is kept."""


class ConnectionCut:
    """Cut of the connections that carry collectives, as if the others had closed them.

    When gloo (at commit 5b46c340) reads the end of a connection, it frees the threads that wait there, with two
    exceptions: those whose message is half written, also by a write that failed, and those whose message is half
    read (`Pair::signalException` goes through neither `tx_` nor `rx_`). These wait for half an hour. So no message
    may be under way when a connection ends, and no write may fail: only the reading side is ended. The connection
    stays open through a copy of its descriptor; once gloo has closed its own descriptor, what other processes send
    is read from the copy.
    """

    def __init__(self) -> None:
        # The original descriptor and the copy, by inode.
        self._kept: dict[int, tuple[int, socket.socket]] = {}
        self._lock = threading.Lock()
        self._drained_until = 0.0

    def cut(self, own: Collection[int], others: Collection[int]) -> int:
        """End all connections; return how many of them earlier calls had not ended.

        Each process must end its own: in a ring each waits for its neighbour only. Every communicator of this
        process's back end is broken afterwards. Data that is on its way gets time to arrive.

        A program whose collective has failed still goes on to its next one. What that sends may reach a receiver
        that waits in the one before: gloo then ends the process of the receiver ("Received data size doesn't match
        expected size"). So no connection delivers anything any more before the first is ended.

        Args:
          own: The ports on which this process accepts such connections.
          others: The ports of the other processes.
        """
        self._until_quiet(own, others)
        held = self._hold(own, others)
        if held:
            time.sleep(HELD_SECONDS)
        for copy in held:
            with contextlib.suppress(OSError):
                copy.shutdown(socket.SHUT_RD)
        self._drain()
        return len(held)

    def moved_bytes(self, own: Collection[int], others: Collection[int]) -> int:
        """Return the bytes sent and received on these connections so far; 0 if the system does not say."""
        if sys.platform != "linux":
            return 0
        return sum(sent + received for sent, received, _ in self._moved(own, others).values())

    def release(self) -> None:
        """Close the copies, once no process has a back end any more that knows these connections."""
        with self._lock:
            for _, copy in self._kept.values():
                _deliver(copy, nothing=False)
                copy.close()
            self._kept.clear()

    def _hold(self, own: Collection[int], others: Collection[int]) -> list[socket.socket]:
        """Have all connections that are not ended yet deliver nothing from now on; return copies, which are kept.

        What other processes send waits at their end until `_read` reads it.
        """
        held = []
        for number, found in self._carrying(own, others):
            with contextlib.suppress(OSError), self._lock:
                copy = found.dup()
                self._kept[connection(copy.fileno()).inode] = number, copy
                held.append(copy)
                _deliver(copy, nothing=True)
        return held

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
        """Read for a while from connections that gloo has closed here, so that writes at the other end go on."""
        with self._lock:
            runs = time.monotonic() < self._drained_until
            self._drained_until = time.monotonic() + DRAIN_SECONDS
            if not runs and self._kept:
                threading.Thread(target=self._read, name="nbdist-drain", daemon=True).start()

    def _read(self) -> None:
        closed: set[int] = set()
        while True:
            with self._lock:
                if not self._kept or time.monotonic() > self._drained_until:
                    self._drained_until = 0.0
                    return
                for inode, (number, copy) in self._kept.items():
                    if inode not in closed and not is_open(TcpConnection(number, inode)):
                        closed.add(inode)
                        _deliver(copy, nothing=False)
                came = [_empty(copy) for inode, (_, copy) in self._kept.items() if inode in closed]
            # Each call to the system takes the interpreter away from a repair for a moment.
            time.sleep(LOOK_SECONDS if any(came) else IDLE_SECONDS)


def _waiting(one: socket.socket) -> int:
    """Return the number of a connection's bytes that were not read here, or have not arrived at the other end."""
    count = bytearray(4)
    total = 0
    for queue in (termios.FIONREAD, termios.TIOCOUTQ):
        fcntl.ioctl(one.fileno(), queue, count)
        total += int.from_bytes(count, sys.byteorder)
    return total


def _deliver(one: socket.socket, *, nothing: bool) -> None:
    """Have a connection deliver nothing from now on, or again what arrives; only Linux can do this."""
    if sys.platform != "linux":
        return
    with contextlib.suppress(OSError):
        if nothing:
            program = struct.pack("@HP", 1, ctypes.addressof(_NOTHING))
            one.setsockopt(socket.SOL_SOCKET, _ATTACH_FILTER, program)
        else:
            one.setsockopt(socket.SOL_SOCKET, _DETACH_FILTER, 0)


def _empty(one: socket.socket) -> bool:
    """Read what has arrived; return whether anything had."""
    came = False
    with contextlib.suppress(OSError):
        while one.recv(AT_ONCE_BYTES, socket.MSG_DONTWAIT):
            came = True
    return came


LIMIT_SECONDS = 31 * 60
"""Time after which no collective is stuck any more, a little longer than gloo's own limit of 30 minutes.

Source: `DefaultCollectiveTimeout` of XLA's CPU back end.
"""

DESCRIPTORS_FOLDER = Path("/proc/self/fdinfo")
_WATCHED = re.compile(r"^tfd:\s*(\d+)", re.MULTILINE)


def carrying(own: Collection[int]) -> list[TcpConnection]:
    """Return the connections whose events gloo's thread waits for; none if the system does not say.

    The thread also waits for new connections at a port in `own`. Source: `tfd` in `/proc/<pid>/fdinfo`, proc(5).
    """
    found: list[TcpConnection] = []
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


def silence(stuck: TcpConnection) -> bool:
    """Replace a stuck connection by one on which nothing ever happens; return False if it is gone.

    gloo gives up a message whose buffer is gone, but not the connection. The rest of the message stays unread, so
    that gloo never sees the end of the connection (`Pair::prepareRead` returns -1; gloo at commit 5b46c340), and
    its thread asks for events all the time. After this call the thread stops asking, and can still close its
    descriptor in the end.
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
    if DESCRIPTORS_FOLDER.is_dir():
        for entry in DESCRIPTORS_FOLDER.iterdir():
            with contextlib.suppress(OSError):
                numbers = _WATCHED.findall(entry.read_text())
                if numbers:
                    found[int(entry.name)] = list(map(int, numbers))
    return found


@dataclass(frozen=True, slots=True)
class _Kept:
    """A back end in which a collective is stuck, with the time since when, and the threads that wait in it."""

    since: float
    back_end: Any
    threads: frozenset[int]


_KEPT: list[_Kept] = []


def waiting() -> frozenset[int]:
    """Return the threads that wait in a collective of a back end that is not kept.

    After a cut, such a thread may be the only sign of a stuck collective: gloo does not free a thread whose
    message was half written or half read when the connection ended (see `ConnectionCut`).
    """
    found = frozenset(waiting_threads())
    return found.difference(*(kept.threads for kept in _KEPT))


def keep(back_end: Any, threads: Collection[int]) -> None:
    """Keep a back end in which a collective is stuck, since freeing it would wait for all its threads."""
    _KEPT.append(_Kept(time.monotonic(), back_end, frozenset(threads)))


def let_go() -> None:
    """Release kept back ends whose stuck collectives have reached gloo's own limit by now."""
    before = time.monotonic() - LIMIT_SECONDS
    _KEPT[:] = [kept for kept in _KEPT if kept.since > before]


class TcpConnection(NamedTuple):
    """A TCP connection of this process: its descriptor, and its inode, which no later connection shares."""

    number: int
    inode: int


def connection(number: int) -> TcpConnection:
    """Return the connection of a descriptor.

    Raises:
      OSError: The descriptor is closed.
    """
    return TcpConnection(number, os.fstat(number).st_ino)


def is_open(one: TcpConnection) -> bool:
    """Return whether a connection's descriptor is still open and its own."""
    try:
        return connection(one.number) == one
    except OSError:
        return False


def tcp_sockets() -> Iterator[tuple[int, socket.socket]]:
    """Yield the TCP sockets of this process with their descriptors, whichever library has opened them.

    Each is a copy that is closed afterwards.
    """
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


FOLDER = "cpu:gloo"
"""Folder in the store in which XLA's CPU back end keeps gloo's addresses (jaxlib 0.12.0.1).

Below it is a folder for each group, named by the ids of its devices, with one numbered key for each device. If XLA
uses other keys nothing is freed.
"""


LENGTHS = {socket.AF_INET: 2 + 4, socket.AF_INET6: 2 + 4 + 16}
"""Bytes of port and address in a `sockaddr`, after the two bytes of its family (ip(7) and ipv6(7) of Linux)."""


class Meetings:
    """Meetings of the processes of a group of devices, on one back end; after one was ended, a repair must follow.

    On CPU gloo connects the devices of a group when a program first needs it. Each process writes its address into
    the key-value store of JAX's coordinator, and waits there for the addresses of the others, 30 seconds each
    (`kDefaultTimeout` of gloo's `rendezvous/store.h`; XLA's `GlooKeyValueStore`). There is no connection to cut
    yet. A main thread that waits in C++, as in NumPy's conversion, gets no signal.

    `end` frees a process that waits for absent ones, from any thread: it writes addresses in place of the missing
    ones. Of two processes the one with the higher address connects (gloo's `Pair::connect`). The address written
    is the lowest, with port 0, which refuses connections, so the waiting program fails (`Gloo context
    initialization failed`). The store refuses an address that comes later.

    Attributes:
      ended: Whether a meeting was ended.
    """

    def __init__(self) -> None:
        self.ended = False
        self._ending = threading.Lock()

    def end(self, own: Collection[int]) -> None:
        """End the meetings in which this process waits, on a separate thread: the coordinator may not answer.

        Without the client's methods for bytes (jax 0.12.0.1) such a wait ends by itself, after half a minute.

        Args:
          own: The ports on which this process accepts connections for collectives.
        """
        threading.Thread(target=self._end, args=(own,), name="nbdist-meetings", daemon=True).start()

    def _end(self, own: Collection[int]) -> None:
        if not self._ending.acquire(blocking=False):
            return
        try:
            client = client_with("key_value_dir_get_bytes", "key_value_set_bytes")
            if client is None:
                return
            # The coordinator may be gone.
            with contextlib.suppress(RuntimeError):
                known = dict(client.key_value_dir_get_bytes(FOLDER))
                for key, address in missing(known, own).items():
                    self.ended = True
                    # Another process may do the same at this moment.
                    with contextlib.suppress(RuntimeError):
                        client.key_value_set_bytes(key, address)
        finally:
            self._ending.release()


def missing(addresses: Mapping[str, bytes], own: Collection[int]) -> dict[str, bytes]:
    """Return an address that refuses connections for each key whose address this process waits for.

    Args:
      addresses: All known addresses, by key.
      own: As for `Meetings.end`.
    """
    groups: dict[str, dict[int, bytes]] = {}
    for key, value in addresses.items():
        group, _, number = key.rpartition("/")
        if number.isdigit():
            groups.setdefault(group, {})[int(number)] = value
    found = {}
    for group, known in groups.items():
        refusing = next(filter(None, (_refusing(value, own) for value in known.values())), None)
        if refusing is not None:
            count = len(group.rpartition("/")[2].split(","))
            found.update({f"{group}/{n}": refusing for n in range(count) if n not in known})
    return found


def _refusing(value: bytes, own: Collection[int]) -> bytes | None:
    """Return an address of this process with zeros in place of port and host; None if it is another's."""
    for family, length in LENGTHS.items():
        for port in own:
            head = struct.pack("=H", family)
            at = value.find(head + struct.pack("!H", port))
            if at >= 0:
                at += len(head)
                return value[:at] + bytes(length) + value[at + length :]
    return None
