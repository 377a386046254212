"""Link of an agent to its kernel: orders, the agent's introduction, the connection file for engines, heartbeats.

The kernel may be on another machine. A link may be cut without a sign, so both sides send a heartbeat each second;
silence does not count while the process that measures it did not run. Where others may read what is sent, only
public keys go through the link.

Orders come line by line; an unreadable one does not stop later ones. Some variables count only when a process
starts. An agent on this machine has them from its start; over ssh they come with the first order, and the agent
then begins anew with them, as a new interpreter that reads the same orders.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import select
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType
from typing import Any

from nbdist.agent.sync import FOLDER
from nbdist.contract.checkup import Checkup
from nbdist.contract.events import Alive, Events, Fault, Host, OtherVersion
from nbdist.contract.orders import Assignment, Order, from_line, version_of
from nbdist.contract.wire import decode
from nbdist.machine import checkup
from nbdist.machine.ports import ReservedPorts, own_address
from nbdist.message_guard import MessageGuard
from nbdist.version import __version__

logger = logging.getLogger(__name__)

AT_START = ("PYTHON", "LD_", "DYLD_", "MALLOC_", "GLIBC_")
"""Beginnings of variables that the interpreter, the dynamic linker and the C library read only at the start."""

OPTION = "--unread"
"""The option by which an agent that begins anew gets the descriptor of the orders that it has not obeyed yet."""


def too_late(environment: Mapping[str, str]) -> bool:
    """Return whether a variable that counts only when a process starts has another value in this process.

    False in a process that has begun anew already: whatever changed a variable back would change it again.
    """
    return OPTION not in sys.argv and any(
        name.startswith(AT_START) and os.environ.get(name) != value
        for name, value in environment.items()
    )


def begin_anew(environment: Mapping[str, str], *, orders: bytes, output: int) -> None:
    """Replace this process by a new interpreter; do not return.

    Args:
      environment: Variables to add to those of this process.
      orders: The bytes of standard input that were read and not obeyed.
      output: The descriptor that is to be standard output.
    """
    with tempfile.TemporaryFile() as file:
        file.write(orders)
        file.seek(0)
        os.set_inheritable(file.fileno(), True)
        os.dup2(output, 1)
        command = [sys.executable, *sys.orig_argv[1:], OPTION, str(file.fileno())]
        os.execve(sys.executable, command, {**os.environ, **environment})


def unread(arguments: list[str]) -> bytes:
    """Return the orders that this process read before it began anew; empty if it has not begun anew."""
    if OPTION not in arguments:
        return b""
    with os.fdopen(int(arguments[arguments.index(OPTION) + 1]), "rb") as file:
        return file.read()


class OrderReader:
    """A reader of orders from a descriptor.

    Attributes:
      assigned: Whether the first order has come. Until then nothing runs here, and an error ends the agent.

    Args:
      descriptor: Where orders come in.
      events: Gets faults.
      obey: Called with each order.
      unread: The orders that were read before this program began anew.
    """

    def __init__(
        self,
        descriptor: int,
        events: Events,
        obey: Callable[[Order], None],
        *,
        unread: bytes = b"",
    ) -> None:
        self.descriptor = descriptor
        self.assigned = False
        self.unread = unread
        self._events = events
        self._obey = obey
        what = f"An order to the agent on {socket.gethostname()}"
        self._guard = MessageGuard(what, logger, lambda text: events.send(Fault(text=text)))

    def read(self) -> bool:
        """Obey the orders that have come; return False at the end of input."""
        data = os.read(self.descriptor, 1 << 16)
        self.take(data)
        return bool(data)

    def take(self, data: bytes) -> None:
        """Obey the orders that are complete with these bytes."""
        self.unread += data
        if b"\n" not in self.unread:
            return
        *lines, rest = self.unread.split(b"\n")
        for number, line in enumerate(lines):
            if not line:
                continue  # the newline ends an order that a killed kernel left incomplete
            if self.assigned and is_cut_off(line):
                self._events.send(Fault(text=self._left_out(line)))
                continue
            if not self.assigned:
                self._refuse_other_version(line)
            # An unreadable order must not end what runs here; before the assignment nothing runs.
            with self._guard if self.assigned else contextlib.nullcontext():
                order = from_line(line)
                if isinstance(order, Assignment):
                    if too_late(order.environment):
                        unread = b"\n".join([*lines[number:], rest])
                        output = self._events.descriptor
                        begin_anew(order.environment, orders=unread, output=output)
                    self.assigned = True
                self._obey(order)
        self.unread = rest

    def _left_out(self, line: bytes) -> str:
        return (
            f"An order to the agent on {socket.gethostname()} was cut off after {len(line)} bytes: the kernel "
            "that wrote it has ended meanwhile. It was left out; later ones are obeyed."
        )

    def _refuse_other_version(self, line: bytes) -> None:
        """End this agent if its kernel has another version of nbdist: it may not understand the orders."""
        if version_of(line) != __version__:
            self._events.send(OtherVersion(host=socket.gethostname(), nbdist=__version__))
            raise SystemExit(1)


def is_cut_off(line: bytes) -> bool:
    """Return whether a line is the beginning of an order whose rest is missing: a JSON object without an end."""
    return line.startswith(b"{") and not line.endswith(b"}")


class Introduction:
    """The first event of an agent, with facts about its host, and a listener for hosts that try to reach this one.

    Args:
      events: Gets the event.
      reserved: The ports of the agent; gets the ports on which its processes are to serve.
    """

    def __init__(self, events: Events, reserved: ReservedPorts) -> None:
        self._events = events
        self._reserved = reserved
        self._listener: socket.socket | None = None

    def say(self, assignment: Assignment, folder: str) -> None:
        """Send the facts that the kernel needs before it can give more orders.

        Args:
          assignment: The agent's assignment.
          folder: The session's private folder here.
        """
        address = address_towards(assignment.controller_address)
        checks = None
        if assignment.checks is not None:
            checks = decode(Checkup, checkup.checkup(dict(assignment.checks)))
            if address:
                self._listener = checkup.listen(address)
        self._events.send(
            Host(
                host=socket.gethostname(),
                pid=os.getpid(),
                nbdist=__version__,
                folder=folder,
                cwd=str(Path.cwd()),
                address=address,
                listening=self._listener.getsockname()[1] if self._listener else None,
                ports=tuple(self._reserved.reserve(assignment.ports)),
                checks=checks,
            )
        )

    def stop_listening(self) -> None:
        """Close the listener; a second call does nothing."""
        if self._listener:
            self._listener.close()
            self._listener = None


def address_towards(controller: str | None) -> str | None:
    """Return this host's address towards the controller; for a loopback address, the one where ssh came in."""
    if controller is None:
        return None
    if not controller.startswith("127."):
        return own_address(controller)
    # `CLIENT PORT SERVER PORT`, of ssh(1); if the server is no IPv4 address, the one from which this host reaches
    # other networks.
    came_in = os.environ.get("SSH_CONNECTION", "").split()[2:3]
    return (own_address(came_in[0]) if came_in else None) or own_address("192.0.2.1")


def enter(cwd: str, copy: str | None, folder: str) -> None:
    """Go to the working folder, or to its copy if this host has no such folder.

    Args:
      cwd: The working folder.
      copy: The name of its copy below the session's folder; None: there is none.
      folder: The session's private folder here.

    Raises:
      OSError: Neither folder exists.
    """
    before = os.getcwd()  # noqa: PTH109 - as `python -m` has it
    try:
        os.chdir(cwd)
    except OSError:
        if copy is None:
            raise
        made = Path(folder, FOLDER, copy)
        made.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.chdir(made)
    # The folder of the start: the kernel's on this machine, the home folder over ssh.
    if sys.path[:1] == [before]:
        sys.path[0] = str(Path.cwd())


class Collecting:
    """A fetch of the connection file for engines, when orders come through a stream that others may read.

    `srun` and `mpirun` encrypt nothing, and the file holds the session's key. So the kernel sends a task only the
    address where the file can be fetched, and its public key (CURVE). The task makes a pair of keys of its own,
    sends its public key back through the stream, and asks for the file; the kernel answers only keys that its
    tasks have sent. Whoever reads the stream learns only public keys. See `nbdist.launch.start.connect` for the
    kernel's end.

    Args:
      address: Where the kernel serves the file, such as `tcp://10.0.0.1:40123`.
      server_key: The kernel's public key, in Z85.

    Attributes:
      public_key: The key that the kernel is to answer, in Z85.
    """

    def __init__(self, address: str, server_key: str) -> None:
        # Imported here, since an agent whose orders come through ssh does not need it.
        import zmq

        public, secret = zmq.curve_keypair()
        self.public_key = public.decode()
        self._context = zmq.Context()
        socket = self._socket = self._context.socket(zmq.DEALER)
        socket.linger = 0
        socket.curve_serverkey = server_key.encode()
        socket.curve_publickey, socket.curve_secretkey = public, secret
        socket.connect(address)
        socket.send(b"")

    def poll(self) -> dict[str, Any] | None:
        """Return the connection file, or None until it has come; do not wait."""
        if not self._socket.poll(0):
            return None
        found: dict[str, Any] = json.loads(self._socket.recv())
        return found

    def close(self) -> None:
        """End the connection, and the thread behind it: engines are forked from this process."""
        self._context.destroy(linger=0)


PAUSE_SECONDS = 5.0
"""Longest time between two looks of a process that runs; looks are meant to be a second apart."""


def clock_of_sleep() -> float:
    """Return a time in seconds that goes on while the machine sleeps, unlike `time.monotonic` (Linux, macOS)."""
    # macOS has no CLOCK_BOOTTIME; there CLOCK_MONOTONIC counts sleep, and time.monotonic, another clock, does not.
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Pauses:
    """Times in which this process did not run: stopped (Ctrl-Z, SIGSTOP), starved, or on a machine that slept.

    A process that runs again has not yet read what others have sent meanwhile, so a pause must not count as their
    silence. `ran_since` must be called about once a second; any thread may call it.

    Args:
      clock: Returns seconds that go on while this process is stopped or the machine sleeps.
    """

    def __init__(self, *, clock: Callable[[], float] = clock_of_sleep) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._looked = clock()
        self._resumed = time.monotonic()

    def ran_since(self, moment: float) -> float:
        """Return the seconds since a moment (`time.monotonic`), or since the last pause ended if that is later."""
        with self._lock:
            looked, self._looked = self._looked, self._clock()
            now = time.monotonic()
            if self._looked - looked > PAUSE_SECONDS:
                self._resumed = now
            return now - max(moment, self._resumed)


PERIOD_SECONDS = 1.0
"""Seconds between two heartbeats of each side."""

ANSWERS_SECONDS = 3.0
"""Seconds for which a kept agent still sends heartbeats after the kernel has last sent something."""


class Pulse:
    """The heartbeats of an agent, one a second, and the silence of its kernel.

    A connection that is cut looks like an idle one; TCP alone would notice the cut after minutes.

    Args:
      events: Gets the heartbeats.
      orders: The descriptor from which orders come.
      silence_s: How long the kernel may be silent while this process runs, in seconds; None: without limit.
        Without a limit, heartbeats are sent only in answer to the kernel, so that the output of a kept agent does
        not grow without a reader.
    """

    def __init__(self, events: Events, orders: int, *, silence_s: float | None) -> None:
        self.period_s = PERIOD_SECONDS
        self._events = events
        self._orders = orders
        self._silence_s = silence_s
        self._pauses = Pauses()
        self._received_at = self._said = time.monotonic()

    def received(self) -> None:
        """Note that the kernel has sent something."""
        self._received_at = time.monotonic()

    def beat(self) -> bool:
        """Send a heartbeat if it is time; return whether the kernel counts as there."""
        now = time.monotonic()
        silence = self._pauses.ran_since(self._received_at)
        asked = self._silence_s is not None or silence < ANSWERS_SECONDS
        if asked and now - self._said >= self.period_s:
            self._said = now
            self._events.send(Alive())
        return self._silence_s is None or silence < self._silence_s

    def go_on_without(self) -> None:
        """Allow the kernel to be silent for ever."""
        self._silence_s = None

    def go_on_by_itself(self) -> None:
        """Send heartbeats while this thread is busy with imports, and end the process when the kernel leaves.

        The handler runs between two steps of the interpreter, so only a single long call in C delays it.
        """
        signal.signal(signal.SIGALRM, self._tick)
        signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)

    def stop(self) -> None:
        """End what `go_on_by_itself` began; orders that came meanwhile are still to be read."""
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        self.received()

    def _tick(self, number: int, frame: FrameType | None) -> None:
        poll = select.poll()
        poll.register(self._orders, select.POLLIN | getattr(select, "POLLRDHUP", 0))
        gone = select.POLLHUP | select.POLLERR | getattr(select, "POLLRDHUP", 0)
        if any(event & gone for _, event in poll.poll(0)):
            raise SystemExit(0)
        self.beat()
