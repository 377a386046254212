"""Happenings on the hosts of a session: events of agents, ends of processes, and the progress of a start.

Agents report events; the kernel itself notices what no agent reports: a lost agent or process, a silent host.
`AgentEvents` passes all of them on to its listeners.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from nbdist.contract.events import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class HostEnded:
    """The agent of a host, or the connection to it, has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessLost:
    """A process has ended or is out of reach, without an event of its agent."""

    process_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HostsSilent:
    """The set of silent hosts has changed: by name, since when (Unix seconds)."""

    since: Mapping[str, float]


Happening = Event | HostEnded | ProcessLost | HostsSilent


CONTROLLER = "ipyparallel's controller"
"""The cause in `because_of` for processes that are out of reach because their controller has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessExit:
    """How a process ended, as far as is known.

    `code` is its exit status, or minus the signal's number; None if the host itself is out of reach. `oom` says
    whether the out-of-memory killer ended a process of its control group at that time. `last_lines` is the end of
    its own standard error and output. `because_of` names what put the process out of reach, if it did not end
    itself.
    """

    process_id: int
    pid: int
    code: int | None
    oom: bool
    time: float
    last_lines: tuple[str, ...]
    because_of: str | None = None

    @property
    def of_the_controller(self) -> bool:
        """Whether the process still runs, and is out of reach because ipyparallel's controller has ended."""
        return self.because_of == CONTROLLER

    def __str__(self) -> str:
        if self.because_of is not None:
            return f"out of reach: {self.because_of} {self._ending()}".rstrip()
        return self._ending()

    def _ending(self) -> str:
        if self.code is None:
            return ""
        if self.code >= 0:
            return f"ended with exit code {self.code}"
        with contextlib.suppress(ValueError):
            name = signal.Signals(-self.code).name
            if self.oom:
                return f"killed by signal {-self.code} ({name}), out of memory"
            return f"killed by signal {-self.code} ({name})"
        return f"killed by signal {-self.code}"


StartProgress = Callable[[str, int, int], None]
"""Callback of a start, for anyone who shows its progress.

It gets the text for a stage, how many processes (or hosts) have reached that stage, and how many there are."""

POLL_SECONDS = 0.01


def silent(stage: str, done: int, total: int) -> None:
    """Ignore the progress: a `StartProgress` for a start that nobody watches."""


def with_words(text: str, lines: Iterable[str]) -> str:
    """Return a text, and below it the last words of a program, indented."""
    return "\n".join([text, *(f"  {line}" for line in lines)]).rstrip()


Listener = Callable[[Happening], None]


class AgentEvents:
    """Distributor of a session's happenings. Listeners run on the thread on which a happening arrived."""

    def __init__(self) -> None:
        # Replaced as a whole: threads that publish meanwhile go on with the tuple they have.
        self._listeners: tuple[Listener, ...] = ()

    def subscribe(self, listener: Listener) -> None:
        """Call `listener` with each event from now on, after the listeners that subscribed before."""
        self._listeners = (*self._listeners, listener)

    def unsubscribe(self, listener: Listener) -> None:
        """Call `listener` no more; do nothing if it is not subscribed."""
        self._listeners = tuple(one for one in self._listeners if one != listener)

    def publish(self, event: Happening) -> None:
        """Call all listeners.

        Raises:
          Exception: A listener raised it; the others have been called nevertheless.
        """
        with contextlib.ExitStack() as stack:
            for listener in reversed(self._listeners):
                stack.callback(listener, event)
