"""The kernel's end of agents: how one is reached, and the channel for its orders and events.

`agent_handle` is for one agent, `job_agent` for all agents of a job. Orders and events go over pipes here, and
over files in `fifo_channel`. An agent on pipes ends with its kernel, since it sees the end of input.
"""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nbdist.launch.model.hosts import AskedHost, SshOptions
from nbdist.machine.processes import LOG_LINES, ProcessHandle


class ChildProcess:
    """A process that this kernel has started, with the methods of a `nbdist.machine.processes.ProcessHandle`."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self.pid = process.pid

    @property
    def status(self) -> int | None:
        """Exit status of the child; None while it runs."""
        return self._process.poll()

    @property
    def running(self) -> bool:
        """Whether the child runs."""
        return self._process.poll() is None

    def wait(self, timeout_s: float) -> bool:
        """Wait for the child's end; return whether it has ended."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout_s)
            return True
        return False

    def terminate(self) -> None:
        """Send SIGTERM to the child."""
        self._process.terminate()

    def kill(self) -> None:
        """Send SIGKILL to the child."""
        self._process.kill()


class Channel:
    """Channel to one agent, or to the command that leads to it: the process and its streams.

    While the channel lives, children that this process forks do not get its pipes: in a child, the descriptors
    lead to `os.devnull`. A child with the write end would keep the reader from ever seeing the end of input, and
    would write a second time, when it ends, what was in a buffer at the fork. Forks that bypass Python are not
    covered.

    Args:
      process: The process of the agent or command.

    Attributes:
      left: Whether this kernel no longer listens, although the agent runs.
    """

    def __init__(self, process: ChildProcess | ProcessHandle) -> None:
        self.process = process
        self.left = False
        _ALL.add(self)

    def ends(self) -> Iterator[int]:
        """Yield the descriptors of the open ends that belong to this kernel alone."""
        raise NotImplementedError

    def ready(self) -> bool:
        """Return whether a short order can be sent without waiting."""
        raise NotImplementedError

    def send(self, line: bytes) -> None:
        """Send one order.

        Raises:
          OSError: The agent has ended.
        """
        raise NotImplementedError

    def end(self) -> None:
        """Order the agent to stop everything it started, and itself; do not wait."""
        raise NotImplementedError

    def lines(self) -> Iterator[bytes]:
        """Yield the agent's output, line by line, until the agent ends or `leave` is called."""
        raise NotImplementedError

    def leave(self) -> None:
        """Make `lines` end; a kept agent goes on."""

    def close(self) -> None:
        """Release the kernel's resources for the agent; no thread may be in `lines` any more."""
        raise NotImplementedError


# A registration for forks cannot be undone, so there is one for all channels.
_ALL: weakref.WeakSet[Channel] = weakref.WeakSet()


def _in_child() -> None:
    nowhere = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for channel in list(_ALL):
        for descriptor in channel.ends():
            os.dup2(nowhere, descriptor, inheritable=False)
    os.close(nowhere)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


def has_room(pipe: int) -> bool:
    """Return whether a pipe accepts a page without waiting (pipe(7))."""
    poll = select.poll()
    poll.register(pipe, select.POLLOUT)
    return bool(poll.poll(0))


class Pipes(Channel):
    """A child on two pipes, which ends with this kernel."""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str] | None, log: Path
    ) -> None:
        with log.open("wb") as errors:
            child = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=None if environment is None else dict(environment),
                start_new_session=True,  # Ctrl-C in the kernel's terminal is the kernel's to handle
            )
        assert child.stdin is not None and child.stdout is not None
        self._orders, self._events = child.stdin, child.stdout
        super().__init__(ChildProcess(child))

    def ends(self) -> Iterator[int]:
        """Yield the descriptors of the open pipes."""
        for stream in (self._orders, self._events):
            if not stream.closed:
                yield stream.fileno()

    def ready(self) -> bool:
        """Return whether the pipe accepts a short order without waiting."""
        return has_room(self._orders.fileno())

    def send(self, line: bytes) -> None:
        """Write one order to the pipe."""
        self._orders.write(line)
        self._orders.flush()

    def end(self) -> None:
        """Close the pipe of orders, which tells the agent to stop."""
        self._orders.close()

    def lines(self) -> Iterator[bytes]:
        """Yield the agent's output, line by line."""
        yield from self._events

    def close(self) -> None:
        """Close the pipe of events."""
        with contextlib.suppress(OSError, ValueError):
            self._events.close()


class Watch:
    """Reports of a scheduler or `mpirun` about the job that runs the processes; the defaults report nothing.

    Reports are read from the standard error of the job's command; the scheduler is asked for the rest.

    Args:
      title: The scheduler's name, as shown.
      command: The name of its command.
      python: The interpreter that the command starts on the hosts.
    """

    def __init__(self, title: str, command: str, *, python: str) -> None:
        self.title = title
        self.command = command
        self.python = python

    def waiting(self, lines: Sequence[str]) -> str | None:
        """Return why the job has not begun, such as `job 12 PENDING (Resources)`; None if it does not wait."""
        return None

    def ending(self, lines: Sequence[str]) -> str | None:
        """Return who ended the job, such as `Slurm's job 12 (TIMEOUT, TimeLimit)`; None if it ended by itself."""
        return None

    def reasons(self, lines: Sequence[str]) -> tuple[str, ...]:
        """Return the lines that say why a job has ended."""
        return tuple(lines[-LOG_LINES:])

    def ended_tasks(self, lines: Sequence[str]) -> dict[int, str]:
        """Return how tasks ended while others go on, by task number, in the command's words."""
        return {}

    def cancel(self) -> None:
        """End the job without its command, which had to be killed."""


LOCAL_COMMAND = (sys.executable, "-m", "nbdist.agent")


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSpec:
    """How one agent is started and reached: its command, its host, and who reports on it.

    `name` is the host's name, as shown. `environment` is the environment of `command`; None: this kernel's own.
    `remote` says whether the agent's folder and processes are on another machine; `host` and `options` say which
    machine that is and how ssh reaches it, None for a job of a scheduler. `watch` reads the scheduler's reports on
    the job.
    """

    name: str
    command: tuple[str, ...] = LOCAL_COMMAND
    environment: Mapping[str, str] | None = None
    remote: bool = False
    host: AskedHost | None = None
    options: SshOptions | None = None
    watch: Watch | None = None
