"""Transport of values between this notebook and processes: whether they fit, where they lie, and how they flow.

Only a few messages are on their way at a time, so that nothing piles up, and all processes move values at the same
time (`Flow`). Before anything is sent, values that do not fit into the memory of their machines are refused
(`refuse_too_large`). Pieces lie in memories that the processes of a machine share (`Spots`).
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from nbdist.contract.calls import Call
from nbdist.contract.calls.values import Room
from nbdist.engine.values.incoming import COMMON
from nbdist.errors import ArrayError, GoneError, SessionError
from nbdist.launch.start.pending import Pending
from nbdist.machine.checkup import group, memory
from nbdist.notation import bytes_text, processes_text, seconds_text
from nbdist.pieces import Bounds, elements
from nbdist.spelling import command, option

POLL_SECONDS = 0.005

HOW_SECONDS = 5.0
"""Seconds to wait for the report of how a process has ended."""

PART_BYTES = 16 << 20
"""The largest part of an array in one message, in bytes; several processes hold a message in memory."""

SHARED_BYTES = 64 << 20
"""The largest part that a process writes into shared memory, in bytes: some 50 ms between two chances to
interrupt."""

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
"""Answers by process id."""


def silent(done: int, total: int) -> None:
    """Ignore the progress: a `Progress` that nobody watches."""


class Processes(Protocol):
    """The processes of a session; a `nbdist.session.engine_group.EngineGroup` is one."""

    def send(self, process_id: int, call: Call[A], *buffers: Any) -> Pending[A]:
        """Send a request; do not wait."""

    def where(self, process_id: int) -> str:
        """Return `process 1 (host h1)`."""

    def gone(self, process_id: int) -> str | None:
        """Return how a process has ended; None while it lives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartsMessage:
    """One message with parts of arrays to or from a process: `begin` sends it, `end` takes the answer."""

    process_id: int
    nbytes: int
    begin: Callable[[], Pending[Any]]
    end: Callable[[Answer[Any]], None]


class Flow:
    """Messages and their answers, a few at a time, for all processes at once.

    Args:
      processes: The processes.
      timeout_s: Seconds after which it is given up if nothing moves.
      progress: Called as bytes are moved.
    """

    def __init__(self, processes: Processes, *, timeout_s: float, progress: Progress) -> None:
        self._processes = processes
        self._timeout_s = timeout_s
        self._progress = progress
        self._running: list[tuple[PartsMessage, Pending[Any]]] = []

    def run(self, jobs: Iterable[PartsMessage]) -> None:
        """Send all messages, and take their answers.

        Raises:
          GoneError: A process has ended.
          SessionError: Nothing has moved for too long; the text names the processes that have not answered.
          NbdistError: The error that a process raised.
        """
        lanes: dict[int, deque[PartsMessage]] = {}
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

    def _start_some(self, lanes: Iterable[deque[PartsMessage]]) -> None:
        """Start as many jobs as there is room for, one of each process in turn."""
        started = True
        while started:
            started = False
            for lane in lanes:
                if lane and self._has_room(lane[0]):
                    job = lane.popleft()
                    self._running.append((job, job.begin()))
                    started = True

    def _has_room(self, job: PartsMessage) -> bool:
        alike = sum(other.process_id == job.process_id for other, _ in self._running)
        return alike < MOST_MESSAGES and len(self._running) < MOST_MESSAGES_IN_ALL

    def _ended(self) -> list[PartsMessage]:
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
    processes: Processes, asked: Mapping[int, Pending[A]], *, timeout_s: float
) -> Answers[A]:
    """Wait for the answers of several processes.

    Raises:
      GoneError: A process has ended.
      SessionError: A process did not answer in time.
      NbdistError: The error that a process raised.
    """
    deadline = time.monotonic() + timeout_s
    waiting = dict(asked)
    while waiting:
        next(iter(waiting.values())).wait(POLL_SECONDS)
        here = {p: request for p, request in waiting.items() if request.ready()}
        for process_id, request in here.items():
            answer_of(processes, process_id, request)  # raises the error of the process
            del waiting[process_id]
        if not here:
            refuse_gone(processes, waiting)
            if time.monotonic() > deadline:
                raise too_slow(waiting, timeout_s)
    return {p: request.get() for p, request in asked.items()}


def send(processes: Processes, process_id: int, call: Call[A], *buffers: Any) -> Pending[A]:
    """Send a request of a move.

    Raises:
      GoneError: The process has ended; the text says how.
    """
    with _with_the_cause(processes, process_id):
        return processes.send(process_id, call, *buffers)


def answer_of(processes: Processes, process_id: int, request: Pending[A]) -> Answer[A]:
    """Return the answer to a request of a move, which has arrived.

    Raises:
      GoneError: The process has ended; the text says how.
      NbdistError: The error that the process raised.
    """
    with _with_the_cause(processes, process_id):
        return request.get()


@contextlib.contextmanager
def _with_the_cause(processes: Processes, process_id: int) -> Iterator[None]:
    """Wait until it is known how a process has ended, which is a moment after it is out of reach."""
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
      GoneError: A process has ended; the text says which, and how.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """The memory that one process needs.

    Attributes:
      host: The host of the process.
      process_id: The process; None for this notebook, which allocates it for processes on its machine.
      nbytes: The size of the memory in bytes.
    """

    host: str
    process_id: int | None
    nbytes: int


def refuse_too_large(
    names: str,
    rooms: Mapping[int, Room],
    needs: Iterable[Need],
    structure_bytes: int,
    *,
    hosts: Mapping[int, str],
    host_text: Callable[[str], str],
) -> None:
    """Refuse a push that does not fit into the memory of every host.

    Args:
      names: The names that are pushed, as text.
      rooms: The room on each process that gets them, by process id.
      needs: The memory for arrays that these processes, and this notebook for them, need.
      structure_bytes: The size of what each process gets beside the arrays.
      hosts: Host names by process id.
      host_text: Returns the text for a host.

    Raises:
      ArrayError: Processes with the same limit on one host need more than is available there.
    """
    needed: dict[tuple[str, str], int] = {}
    available: dict[tuple[str, str], list[int]] = {}
    apart = (Need(host=hosts[p], process_id=p, nbytes=structure_bytes) for p in rooms)
    for need in (*needs, *apart):
        room = _here() if need.process_id is None else rooms[need.process_id]
        key = (need.host, room.group)
        needed[key] = needed.get(key, 0) + need.nbytes
        if room.available is not None:
            available.setdefault(key, []).append(room.available)
    for (host, limit), nbytes in needed.items():
        known = available.get((host, limit))
        if known and nbytes > min(known):
            ids = [p for p in rooms if hosts[p] == host]
            raise ArrayError(
                f"{names} would take {bytes_text(nbytes)} on {host_text(host)}, for {processes_text(ids)}, and "
                f"{bytes_text(min(known))} of its memory are available. Nothing was sent. Push less, or to fewer "
                f"processes with {option('on')}, or divide an array over them with {option('sharding')}."
            )


def _here() -> Room:
    return Room(wanted=(), available=memory()["available"], group=group())


def refuse_too_large_here(expression: str, nbytes: int) -> None:
    """Refuse a value that does not fit into this notebook's memory.

    Raises:
      ArrayError: The value is larger than the available memory.
    """
    available = memory()["available"]
    if available is not None and nbytes > available:
        raise ArrayError(
            f"{expression!r} is {bytes_text(nbytes)} in whole, and {bytes_text(available)} of memory are "
            "available where this notebook runs: not pulled. Pull a part of it."
        )


OWN_BYTES = 1 << 20
"""The size in bytes from which a piece gets its own memory, which is freed with the piece."""

MOST_OWN = 64 if sys.version_info >= (3, 13) else 8
"""The most such memories, for the largest pieces; few if each takes a file descriptor while its array lives."""

ALIGNED_BYTES = 64
"""The alignment of pieces in a memory, in bytes; NumPy and XLA align their arrays in the same way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedPiece:
    """A part of array number `array` that some process wants."""

    array: int
    bounds: Bounds
    nbytes: int

    @property
    def key(self) -> tuple[int, str]:
        """A key that is equal for equal pieces."""
        return self.array, str(self.bounds)


class Spots:
    """The places of pieces in memories that the processes of a machine share: room for each piece once.

    Args:
      pieces: The wanted pieces, in any order, possibly repeated.

    Attributes:
      pieces: Each piece once, the largest first.
      sizes: The sizes of the memories, in bytes.
    """

    def __init__(self, pieces: Iterable[WantedPiece]) -> None:
        distinct = {piece.key: piece for piece in pieces}
        self.pieces = sorted(distinct.values(), key=lambda piece: -piece.nbytes)
        self.sizes = [0]
        self._of: dict[tuple[int, str], tuple[int, int]] = {}
        for nth, piece in enumerate(self.pieces):
            if nth < MOST_OWN and piece.nbytes >= OWN_BYTES:
                self._of[piece.key] = (len(self.sizes), 0)
                self.sizes.append(piece.nbytes)
            else:
                self._of[piece.key] = (COMMON, self.sizes[COMMON])
                self.sizes[COMMON] += -(-piece.nbytes // ALIGNED_BYTES) * ALIGNED_BYTES

    def of(self, piece: WantedPiece) -> tuple[int, int]:
        """Return the number of a piece's memory, and how many bytes from its start the piece lies."""
        return self._of[piece.key]

    def copied_bytes(self, pieces: Iterable[WantedPiece]) -> int:
        """Return how many bytes of these pieces a process copies out of the common memory."""
        return sum(piece.nbytes for piece in pieces if self.of(piece)[0] == COMMON)


def pieces_of(
    wanted: Iterable[Iterable[Bounds]], itemsizes: Sequence[int]
) -> list[list[WantedPiece]]:
    """Return the pieces that a process wants of each array, in its order.

    Args:
      wanted: The bounds of the pieces, by array.
      itemsizes: The sizes of an element in bytes, by array.
    """
    return [
        [WantedPiece(array=n, bounds=b, nbytes=elements(b) * itemsizes[n]) for b in bounds]
        for n, bounds in enumerate(wanted)
    ]
