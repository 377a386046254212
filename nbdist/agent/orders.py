"""Orders of the kernel as an agent reads them, line by line; an unreadable order does not stop later ones.

Some variables count only when a process starts. An agent on this machine has them from its start; over ssh they
come with the first order, and the agent then begins anew with them, as a new interpreter that reads the same
orders.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import sys
import tempfile
from collections.abc import Callable, Mapping

from nbdist.contract.events import Events, Fault, OtherVersion
from nbdist.contract.orders import Assignment, Order, from_line, version_of
from nbdist.message_guard import MessageGuard
from nbdist.version import __version__

logger = logging.getLogger(__name__)

AT_START = ("PYTHON", "LD_", "DYLD_", "MALLOC_", "GLIBC_")
"""Beginnings of variables that the interpreter, the dynamic linker and the C library read only at the start."""

OPTION = "--unread"
"""The option that gives an agent that has begun anew the descriptor of the orders it has not obeyed."""


def too_late(environment: Mapping[str, str]) -> bool:
    """Return whether some of these variables would have no effect on this process any more.

    The answer is False in a process that has begun anew: what changed a variable back once would do so again.
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
