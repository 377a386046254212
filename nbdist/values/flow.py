"""The transfer of parts of values: a few at a time, so that nothing piles up, and processes side by side."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from nbdist.contract.calls.call import Call
from nbdist.errors import GoneError, SessionError
from nbdist.launch.start.request import Request
from nbdist.quantities import processes_text, seconds_text
from nbdist.spelling import command

POLL_SECONDS = 0.005

HOW_SECONDS = 5.0
"""How long to wait for word of how a process has ended."""

PART_BYTES = 16 << 20
"""The largest part of an array in one message, which several processes keep in memory."""

SHARED_BYTES = 64 << 20
"""The largest part where a process writes into memory that it shares: some 50 ms between two interrupts."""

MOST_MESSAGES = 2
"""The most parts on their way to or from one process at once."""

MOST_MESSAGES_IN_ALL = 16
"""The most parts to or from all processes: parts that wait to be sent are kept in this notebook's memory."""

Progress = Callable[[int, int], None]
"""Called with the bytes moved and their total."""

A = TypeVar("A")

Answer = tuple[A, Sequence[Any]]
"""An answer, and the buffers beside it."""

Answers = dict[int, Answer[A]]
"""By process id."""


def silent(done: int, total: int) -> None:
    """Do nothing: a `Progress` that nobody looks at."""


class Processes(Protocol):
    """The processes of a session; a `nbdist.session.engine_group.EngineGroup` is one."""

    def send(self, process_id: int, call: Call[A], *buffers: Any) -> Request[A]:
        """Send a request; do not wait."""

    def where(self, process_id: int) -> str:
        """Return `process 1 (host h1)`."""

    def gone(self, process_id: int) -> str | None:
        """Return how a process has ended; None while it lives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One message with parts of arrays to or from a process: `begin` sends it, `end` takes the answer."""

    process_id: int
    nbytes: int
    begin: Callable[[], Request[Any]]
    end: Callable[[Answer[Any]], None]


class Flow:
    """Does jobs; those of different processes side by side.

    Args:
      processes: The processes.
      timeout_s: How long nothing may move.
      progress: Called as bytes are moved.
    """

    def __init__(self, processes: Processes, *, timeout_s: float, progress: Progress) -> None:
        self._processes = processes
        self._timeout_s = timeout_s
        self._progress = progress
        self._running: list[tuple[Job, Request[Any]]] = []

    def run(self, jobs: Iterable[Job]) -> None:
        """Do all jobs.

        Raises:
          GoneError: A process has ended.
          SessionError: Nothing has moved for too long; names who has not answered.
          NbdistError: The error that a process raised.
        """
        lanes: dict[int, deque[Job]] = {}
        for job in jobs:
            lanes.setdefault(job.process_id, deque()).append(job)
        total = sum(job.nbytes for lane in lanes.values() for job in lane)
        done, moved_at = 0, time.monotonic()
        while self._running or any(lanes.values()):
            self._start_some(lanes.values())
            ended = self._ended()
            if ended:
                moved, moved_at = sum(job.nbytes for job in ended), time.monotonic()
                done += moved
                if moved:
                    self._progress(done, total)
            elif time.monotonic() - moved_at > self._timeout_s:
                late = {job.process_id for job, request in self._running if not request.ready()}
                raise too_slow(late, self._timeout_s)

    def _start_some(self, lanes: Iterable[deque[Job]]) -> None:
        """Start as many jobs as there is room for, one of each lane in turn."""
        started = True
        while started:
            started = False
            for lane in lanes:
                if lane and self._has_room(lane[0]):
                    job = lane.popleft()
                    self._running.append((job, job.begin()))
                    started = True

    def _has_room(self, job: Job) -> bool:
        alike = sum(other.process_id == job.process_id for other, _ in self._running)
        return alike < MOST_MESSAGES and len(self._running) < MOST_MESSAGES_IN_ALL

    def _ended(self) -> list[Job]:
        """Take the answers that have come."""
        self._running[0][1].wait(POLL_SECONDS)
        ended = [(job, request) for job, request in self._running if request.ready()]
        if not ended:
            refuse_gone(self._processes, {job.process_id for job, _ in self._running})
        for job, request in ended:
            self._running.remove((job, request))
            job.end(answer_of(self._processes, job.process_id, request))
        return [job for job, _ in ended]


def ask_each(
    processes: Processes, asked: Mapping[int, Request[A]], *, timeout_s: float
) -> Answers[A]:
    """Wait for the answers of several processes.

    Raises:
      GoneError: A process has ended.
      SessionError: One did not answer in time.
      NbdistError: The error that a process raised.
    """
    deadline = time.monotonic() + timeout_s
    waiting = dict(asked)
    while waiting:
        next(iter(waiting.values())).wait(POLL_SECONDS)
        here = {p: request for p, request in waiting.items() if request.ready()}
        for process_id, request in here.items():
            answer_of(processes, process_id, request)  # raises what the process has raised
            del waiting[process_id]
        if not here:
            refuse_gone(processes, waiting)
            if time.monotonic() > deadline:
                raise too_slow(waiting, timeout_s)
    return {p: request.get() for p, request in asked.items()}


def send(processes: Processes, process_id: int, call: Call[A], *buffers: Any) -> Request[A]:
    """Send a request of a move.

    Raises:
      GoneError: The process has ended; says how, as soon as that is known.
    """
    with _saying_how(processes, process_id):
        return processes.send(process_id, call, *buffers)


def answer_of(processes: Processes, process_id: int, request: Request[A]) -> Answer[A]:
    """Return the answer to a request of a move that is ready.

    Raises:
      GoneError: The process has ended; says how, as soon as that is known.
      NbdistError: The error that the process raised.
    """
    with _saying_how(processes, process_id):
        return request.get()


@contextlib.contextmanager
def _saying_how(processes: Processes, process_id: int) -> Iterator[None]:
    """Say how a process has ended: that it is out of reach is known a moment before."""
    try:
        yield
    except GoneError:
        until = time.monotonic() + HOW_SECONDS
        while time.monotonic() < until:
            refuse_gone(processes, [process_id])
            time.sleep(POLL_SECONDS)
        raise


def refuse_gone(processes: Processes, process_ids: Iterable[int]) -> None:
    """Raise if one of these processes has ended.

    Raises:
      GoneError: One has ended; says which, and how.
    """
    for process_id in sorted(process_ids):
        how = processes.gone(process_id)
        if how is not None:
            raise GoneError(
                f"{processes.where(process_id)} has ended while values were moved: {how}. Nothing was changed; "
                f"{command('status')} shows what is left."
            )


def too_slow(process_ids: Iterable[int], timeout_s: float) -> SessionError:
    """Return the error for processes that do not answer."""
    return SessionError(
        f"{processes_text(process_ids)} did not answer within {seconds_text(timeout_s)}. "
        f"{command('stacks')} shows what they are in the middle of."
    )
