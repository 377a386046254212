"""Proof that processes are in step: small collectives of nbdist's own, with numbers that only they carry.

First all processes meet, with one device each, over connections that nothing else uses: as long as one process
stays away, none sends data that another could take for something else. There they compare how many programs each
has sent, and which. If this comparison is not enough, all devices then take part in a collective like the user's.

JAX keeps the order of a process's collectives. A process with another collective pending is paired wrongly in this
one, so that the proof does not return, or returns numbers that nobody has sent.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat
import struct
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from nbdist.engine.frameworks.jax.arrays import plain_settings
from nbdist.engine.frameworks.jax.private import client_with
from nbdist.engine.frameworks.jax.step.dispatched import Count

WORD = 0xFFFFFFFF
COLUMNS = 6


@dataclass
class Trial:
    """One proof under way.

    `passed` is None until the numbers of all processes have come; `alike` says whether all had sent the same
    programs before, `uneven` whether they had sent different numbers of programs.
    """

    number: int
    done: threading.Event = field(default_factory=threading.Event)
    passed: bool | None = None
    alike: bool = True
    error: str | None = None
    abandoned: bool = False
    uneven: bool = False

    def abandon(self) -> None:
        """End the wait for the proof, if it is not over; a later result proves nothing."""
        if not self.done.is_set():
            self.abandoned = True
            self.done.set()

    @property
    def in_step(self) -> bool:
        """Whether the trial has proven that all processes are in step."""
        return bool(self.passed) and self.alike and not self.abandoned


class Proof:
    """The collectives of proofs on one back end, compiled when this is made.

    Args:
      ignore: Called before and after a proof sends its programs, with the thread, and whether the thread's
        programs are to be left out of the count.

    Raises:
      RuntimeError: JAX cannot compile a program.
    """

    def __init__(self, ignore: Callable[[int, bool], None]) -> None:
        import jax

        self._ignore = ignore
        devices = jax.devices()
        first = {device.process_index: device for device in reversed(devices)}
        # XLA makes new connections for each order of devices, and nothing else uses this reverse order.
        self._meeting = Gathering([first[process] for process in sorted(first, reverse=True)])
        self._all = Gathering(devices)

    def begin(self, number: int, count: Count, *, counted: bool) -> Trial:
        """Send this process's numbers, on a separate thread, since nothing interrupts a wait in C++.

        Args:
          number: The number of this proof, the same on all processes and never used before.
          count: The programs that this process has sent since all were last in step.
          counted: Whether equal counts are proof enough for this process; they are only if all processes say so.
        """
        trial = Trial(number)
        threading.Thread(
            target=self._run, args=(trial, count, counted), name="nbdist-proof", daemon=True
        ).start()
        return trial

    def _run(self, trial: Trial, count: Count, counted: bool) -> None:
        import numpy

        number = (trial.number & WORD, trial.number >> 32 & WORD)
        mine = [*number, count.programs & WORD, count.names, count.kinds, not counted]
        row = numpy.array([mine], numpy.uint32)
        try:
            self._ignore(threading.get_ident(), True)
            found = self._meeting.rows(row)
            # If the counts differ and the collective of all devices passes, the additional programs had no
            # collectives. The processes are then in step, but not alike: one has computed more than the others.
            trial.uneven = not bool((found[:, 2] == row[:, 2]).all())
            trial.alike = bool((found[:, 2:5] == row[:, 2:5]).all())
            passed = bool((found[:, :2] == row[:, :2]).all())
            # All processes have the same rows, and so come to the same result.
            if passed and (trial.uneven or found[:, 5].any()):
                passed = bool((self._all.rows(row)[:, :2] == row[:, :2]).all())
            trial.passed = passed
        except Exception as error:  # noqa: BLE001 - a failure here becomes a typed reply
            trial.passed, trial.error = False, f"{type(error).__name__}: {error}"
        finally:
            self._ignore(threading.get_ident(), False)
            trial.done.set()


class Gathering:
    """A collective that gathers one row from each device, the row of its process.

    Args:
      devices: The devices in the order of their rows.
    """

    def __init__(self, devices: list[Any]) -> None:
        import jax
        import numpy
        from jax.sharding import Mesh, NamedSharding, PartitionSpec

        self._jax = jax
        mesh = Mesh(numpy.array(devices), ("every",))
        self._local = [device for device in devices if device.process_index == jax.process_index()]
        self._shape = (len(devices), COLUMNS)
        self._sharding = NamedSharding(mesh, PartitionSpec("every"))
        whole = NamedSharding(mesh, PartitionSpec())
        # On a new thread, where no mesh or device of the user's is in context.
        with ThreadPoolExecutor(1) as alone:
            self._gather = alone.submit(self._compiled, whole).result()

    def _compiled(self, whole: Any) -> Any:
        rows = self._jax.ShapeDtypeStruct(self._shape, "uint32", sharding=self._sharding)
        with plain_settings():
            return self._jax.jit(lambda rows: rows, out_shardings=whole).lower(rows).compile()

    def rows(self, row: Any) -> Any:
        """Return the rows of all devices as a NumPy array; waits for them."""
        import numpy

        make = self._jax.make_array_from_single_device_arrays
        with plain_settings():
            pieces = [self._jax.device_put(row, device) for device in self._local]
            rows = make(self._shape, self._sharding, pieces)
            return numpy.asarray(self._gather(rows).addressable_data(0))


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

    A process that waits for absent ones is freed, from any thread: addresses are written in place of the missing
    ones. Of two processes the one with the higher address connects (gloo's `Pair::connect`). The written address
    is the lowest, with port 0, which refuses connections: the program fails (`Gloo context initialization
    failed`). The store refuses an address that comes later.

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


class TcpConnection(NamedTuple):
    """A TCP connection of this process: its descriptor, and the inode that tells it from later connections."""

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
