"""Channels to an agent that outlive the kernel, so that another kernel finds the agent again.

A kept agent reads its orders from a named pipe that it holds open itself, and writes its events to a file. Both
are in the session's private folder, where another kernel finds them. The command may be `ssh` or `srun`: the agent
that it starts is kept as well.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from nbdist.contract.orders import Stop, to_line
from nbdist.launch.agents import Channel, ChildProcess, has_room
from nbdist.machine.processes import ProcessHandle, found

PIPE_BYTES = 1 << 14
"""Bytes that can be written to a pipe before anybody reads, at least (macOS: 16384; Linux: 65536)."""

KERNEL, MARKER = "NBDIST_KERNEL", "NBDIST_KEPT"
"""Variables for a command that may wait long: its kernel's pid, and a file that exists once others can find it."""

STOP = to_line(Stop())
"""The order that ends a kept agent; an agent on pipes ends at the end of input."""

SOON_SECONDS, LATER_SECONDS = 0.005, 0.05
BUSY_SECONDS = 2.0
"""Intervals at which a kept agent's file is read: `LATER_SECONDS` once nothing has arrived for `BUSY_SECONDS`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """Where a kept agent is found again: its process, its orders, its events."""

    pid: int
    began: str
    orders: str
    events: str


class _Files(Channel):
    """Orders into a named pipe, events out of a file; used from two threads, one per direction."""

    def __init__(self, process: ChildProcess | ProcessHandle, orders: Path, events: Path) -> None:
        # Also open for reading, so that opening does not block, and writing to an ended agent raises nothing.
        self._orders = os.open(orders, os.O_RDWR | os.O_CLOEXEC)
        self._events: BinaryIO = events.open("rb")
        self._part = b""
        super().__init__(process)

    def ends(self) -> Iterator[int]:
        """Yield the descriptor of the pipe, if open; a child that inherited it would also hold its lock."""
        if self._orders >= 0:
            yield self._orders

    def ready(self) -> bool:
        """Return whether the named pipe accepts a short order without waiting."""
        return not self.left and has_room(self._orders)

    def send(self, line: bytes) -> None:
        """Write one order to the named pipe."""
        if self.left:
            raise BrokenPipeError("This kernel has left the session.")
        # A kernel that was killed while writing may have left half an order; the newline ends that one.
        self._write(b"\n" + line)

    def _write(self, data: bytes) -> None:
        # Two kernels may write at the same time, and a long order is written in pieces.
        fcntl.flock(self._orders, fcntl.LOCK_EX)
        try:
            while data:
                data = data[os.write(self._orders, data) :]
        finally:
            fcntl.flock(self._orders, fcntl.LOCK_UN)

    def end(self) -> None:
        """Write the order that ends the agent."""
        self.send(STOP)

    def backlog(self) -> Iterator[bytes]:
        """Yield the lines written so far that have not been read."""
        while (line := self._line()) is not None:
            yield line

    def lines(self) -> Iterator[bytes]:
        """Yield the lines of the file of events, and wait for more until the agent ends or `leave` is called."""
        received_at = time.monotonic()
        while not self.left:
            # Checked before reading: if it has ended, all its lines are in the file.
            running = self.process.running
            line = self._line()
            if line is not None:
                received_at = time.monotonic()
                yield line
            elif not running:
                return
            else:
                busy = time.monotonic() - received_at < BUSY_SECONDS
                time.sleep(SOON_SECONDS if busy else LATER_SECONDS)

    def _line(self) -> bytes | None:
        # The file is closed: this kernel has left in the meantime.
        with contextlib.suppress(ValueError):
            self._part += self._events.readline()
        if not self._part.endswith(b"\n"):
            return None
        line, self._part = self._part, b""
        return line

    def leave(self) -> None:
        """Make `lines` end; the agent goes on."""
        self.left = True

    def close(self) -> None:
        """Close the file of events and the pipe of orders."""
        self.left = True
        self._events.close()
        if self._orders >= 0:
            os.close(self._orders)
        self._orders = -1


_LEFT: list[subprocess.Popen[bytes]] = []
"""Running children that this kernel has left; dropping one while it runs would raise a `ResourceWarning`."""


class LastingChild(_Files):
    """A child that outlives this kernel.

    Args:
      command: Its command line.
      environment: Its environment; None: this kernel's own.
      log: The file of its standard error; its orders and events are beside that file.
      first: Its first order, written before the child starts, so that a kernel killed at any moment leaves no
        agent that waits forever.

    Raises:
      OSError: The files or the process cannot be made.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str] | None,
        log: Path,
        *,
        first: bytes = b"",
    ) -> None:
        orders, events = log.with_suffix(".orders"), log.with_suffix(".events")
        os.mkfifo(orders, 0o600)
        self._paths = orders, events
        self._marker = log.with_suffix(".kept")
        inherited = os.environ if environment is None else environment
        own = {KERNEL: str(os.getpid()), MARKER: str(self._marker)}
        # The child holds the pipe open in both directions, so it never meets the end of input.
        stdin = os.open(orders, os.O_RDWR | os.O_CLOEXEC)
        stdout = os.open(events, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            held = first[:PIPE_BYTES]
            os.write(stdin, held)
            with log.open("wb") as errors:
                child = subprocess.Popen(
                    command,
                    stdin=stdin,
                    stdout=stdout,
                    stderr=errors,
                    env={**inherited, **own},
                    start_new_session=True,
                )
        finally:
            os.close(stdin)
            os.close(stdout)
        super().__init__(ChildProcess(child), orders, events)
        self._child = child
        self._write(first[len(held) :])

    def leave(self) -> None:
        """Make `lines` end, and keep the child's handle as long as it runs."""
        super().leave()
        _LEFT[:] = [one for one in (*_LEFT, self._child) if one.poll() is None]

    def keep(self) -> None:
        """Note that other kernels can find the child, so that a command waiting for a job goes on alone."""
        self._marker.touch(mode=0o600)

    @property
    def spot(self) -> Spot | None:
        """Where another kernel finds the child; None when it has ended."""
        process = found(self.process.pid)
        if process is None:
            return None
        orders, events = map(str, self._paths)
        return Spot(pid=process.pid, began=process.began, orders=orders, events=events)


class FoundAgain(_Files):
    """A kept agent that another kernel has started, whether or not that kernel still runs.

    Raises:
      OSError: Its files are gone.
    """

    def __init__(self, spot: Spot) -> None:
        process = ProcessHandle(spot.pid, spot.began)
        super().__init__(process, Path(spot.orders), Path(spot.events))
        self.spot = spot
