"""How orders reach an agent and how its events come back: over pipes here, over files in `fifo_channel`.

Over pipes an agent is gone with its kernel: end of input says so.
"""

from __future__ import annotations

import contextlib
import select
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from nbdist.launch.agents.own_ends import keep_own


class Channel(Protocol):
    """One agent, or the command that leads to it, and the streams to and from it."""

    pid: int

    @property
    def status(self) -> int | None:
        """Its exit status; None while it runs, and where only another kernel could know."""

    @property
    def running(self) -> bool:
        """Whether it runs."""

    @property
    def left(self) -> bool:
        """Whether this kernel no longer listens, although it runs."""

    def ready(self) -> bool:
        """Whether a short order can be handed over without waiting."""

    def send(self, line: bytes) -> None:
        """Hands over one order.

        Raises:
          OSError: It has ended.
        """

    def end(self) -> None:
        """Has it stop all it started, and itself; does not wait."""

    def lines(self) -> Iterator[bytes]:
        """What it says, line by line, until it ends or is left."""

    def wait(self, timeout_s: float) -> bool:
        """Waits for its end; answers whether it has come."""

    def terminate(self) -> None:
        """SIGTERM."""

    def kill(self) -> None:
        """SIGKILL."""

    def leave(self) -> None:
        """Has `lines` end, although a kept agent goes on."""

    def close(self) -> None:
        """Gives back what this kernel holds of it; nobody may be in `lines` any more."""


class Child:
    """What channels of this kernel's own children share."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.pid = process.pid

    @property
    def status(self) -> int | None:
        """See `Channel`."""
        return self.process.poll()

    @property
    def running(self) -> bool:
        """See `Channel`."""
        return self.process.poll() is None

    def wait(self, timeout_s: float) -> bool:
        """See `Channel`."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout_s)
            return True
        return False

    def terminate(self) -> None:
        """See `Channel`."""
        self.process.terminate()

    def kill(self) -> None:
        """See `Channel`."""
        self.process.kill()


def has_room(pipe: int) -> bool:
    """Whether a pipe takes a page without waiting (pipe(7))."""
    poll = select.poll()
    poll.register(pipe, select.POLLOUT)
    return bool(poll.poll(0))


class Pipes(Child):
    """A child on two pipes; it ends with this kernel."""

    left = False

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str] | None, log: Path
    ) -> None:
        with log.open("wb") as errors:
            super().__init__(
                subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    env=None if environment is None else dict(environment),
                    start_new_session=True,  # Ctrl-C in the kernel's terminal is the kernel's to handle
                )
            )
        keep_own(self)

    def ends(self) -> Iterator[int]:
        """See `HasEnds`."""
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None and not stream.closed:
                yield stream.fileno()

    def ready(self) -> bool:
        """See `Channel`."""
        assert self.process.stdin is not None
        return has_room(self.process.stdin.fileno())

    def send(self, line: bytes) -> None:
        """See `Channel`."""
        assert self.process.stdin is not None
        self.process.stdin.write(line)
        self.process.stdin.flush()

    def end(self) -> None:
        """See `Channel`."""
        assert self.process.stdin is not None
        self.process.stdin.close()

    def lines(self) -> Iterator[bytes]:
        """See `Channel`."""
        assert self.process.stdout is not None
        yield from self.process.stdout

    def leave(self) -> None:
        """See `Channel`; it ends with this kernel."""

    def close(self) -> None:
        """See `Channel`."""
        with contextlib.suppress(OSError, ValueError):
            assert self.process.stdout is not None
            self.process.stdout.close()
