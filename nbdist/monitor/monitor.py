"""Monitor that receives the processes' reports on a thread and a socket of its own, and keeps one snapshot.

Reports do not use an engine's main thread or the client's request socket, so they arrive while cells run, and
every attached kernel receives the same reports. `Holdings` keeps each process's last reported memory and arrays,
for the message about its end.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import zmq
from msgspec import structs

from nbdist.contract.iopub import AsideAnswer, message_of
from nbdist.contract.snapshot import Activity, Array, DeviceKey, Mesh, Report, Snapshot
from nbdist.errors import Notice, SpecError, WireError
from nbdist.launch.start.client import subscriber, wire
from nbdist.message_guard import MessageGuard
from nbdist.monitor import Merger
from nbdist.monitor.disagreements import After, Samples
from nbdist.monitor.states import ExpectedProcess, Known, at_rest
from nbdist.notation import array_type_text, bytes_text, seconds_text
from nbdist.pieces import piece_bytes, pieces, split

logger = logging.getLogger(__name__)

PERIOD_SECONDS = 0.1
"""The fewest seconds between two snapshots: at 30 a second a browser that draws two views falls behind."""

IDLE_PERIOD_SECONDS = 1.0
"""Seconds between updates of ages and silences when nothing new has come."""

AFTER_FAILURE_SECONDS = 0.5
"""Seconds for which a socket that cannot be read is left alone."""

MOST_FAULTS = 5
"""The most faults of nbdist's own threads that are shown; the log has all."""


LARGEST = 3
"""The most arrays of a process that are named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldArray:
    """An array, and the bytes of its pieces on the devices of one process, every copy counted."""

    path: str
    dtype: str
    shape: tuple[int, ...]
    nbytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """The memory of a process in bytes, and its largest arrays, largest first."""

    rss_bytes: int
    arrays: tuple[HeldArray, ...]


@dataclass(frozen=True, slots=True)
class _Sections:
    pid: int
    rss_bytes: int | None = None
    meshes: tuple[Mesh, ...] = ()
    arrays: tuple[Array, ...] = ()


class Holdings:
    """Keeps the newest memory, meshes and arrays of each process, also of an ended one; used from any thread."""

    def __init__(self) -> None:
        self._of: dict[int, _Sections] = {}

    def take(self, report: Report) -> None:
        """Take in one report; sections that are None have not changed."""
        known = self._of.get(report.process_id)
        if known is None or known.pid != report.pid:
            known = _Sections(report.pid)
        if report.activity is not None:
            known = replace(known, rss_bytes=report.activity.rss_bytes)
        if report.meshes is not None:
            known = replace(known, meshes=report.meshes)
        if report.arrays is not None:
            known = replace(known, arrays=report.arrays)
        self._of[report.process_id] = known

    def held(self, process_id: int) -> Held | None:
        """Return what a process held when it last reported; None before its first report."""
        known = self._of.get(process_id)
        if known is None or known.rss_bytes is None:
            return None
        meshes = {mesh.id: mesh for mesh in known.meshes}
        return Held(
            rss_bytes=known.rss_bytes, arrays=largest(known.arrays, meshes, process_id=process_id)
        )


def largest(
    arrays: Sequence[Array], meshes: Mapping[str, Mesh], *, process_id: int
) -> tuple[HeldArray, ...]:
    """Return the arrays of which a process holds the most bytes; arrays on unknown meshes are left out.

    Args:
      arrays: As the process has reported them.
      meshes: The meshes it has reported, by id.
      process_id: The process.
    """
    at_most = sorted(
        _at_most(arrays, meshes, process_id=process_id), key=lambda one: one[0], reverse=True
    )
    found: list[HeldArray] = []
    for bound, array in at_most:
        # List the pieces of few arrays only: one array may have thousands.
        if len(found) == LARGEST and found[-1].nbytes >= bound:
            break
        nbytes = sum(
            piece_bytes(array, part.slices) * sum(_is_of(key, process_id) for key in part.devices)
            for part in pieces(array, meshes)
        )
        if nbytes:
            found.append(
                HeldArray(path=array.path, dtype=array.dtype, shape=array.shape, nbytes=nbytes)
            )
            found = sorted(found, key=lambda one: one.nbytes, reverse=True)[:LARGEST]
    return tuple(found)


def _at_most(
    arrays: Sequence[Array], meshes: Mapping[str, Mesh], *, process_id: int
) -> Iterator[tuple[int, Array]]:
    """Yield each array with an upper bound of the process's bytes: the largest piece on each of its devices."""
    devices = {
        name: sum(_is_of(key, process_id) for key in mesh.devices) for name, mesh in meshes.items()
    }
    for array in arrays:
        sharding = array.sharding
        try:
            cut = split(array, meshes)
        except SpecError:
            continue
        own = devices[sharding.mesh] if sharding.kind == "named" else cut.devices
        yield cut.piece_bytes * own, array


def _is_of(key: DeviceKey, process_id: int) -> bool:
    return key.startswith(f"{process_id}:")


def held_text(held: Held, *, before_s: float) -> str:
    """Return what a process held before a signal ended it, in words.

    The text is `memory 8 MB when it last reported, 0.4 s before its end; largest arrays on its devices:
    w (f32[]) 4 B`.
    """
    memory = bytes_text(held.rss_bytes)
    text = f"memory {memory} when it last reported, {seconds_text(before_s)} before its end"
    arrays = ", ".join(
        f"{one.path} ({array_type_text(one.dtype, one.shape)}) {bytes_text(one.nbytes)}"
        for one in held.arrays
    )
    return f"{text}; largest arrays on its devices: {arrays}" if arrays else text


@dataclass(frozen=True, slots=True)
class LatestActivity:
    """The newest activity of a process, and when it was received (monotonic clock)."""

    activity: Activity
    at: float


class Monitor:
    """Listener to all processes of one session.

    Args:
      session: The session's id, as snapshots carry it.
      planned: The processes that are expected.
      connection: ipyparallel's client connection info (`interface`, `iopub`, `key`,
        `signature_scheme`).
      publish: Called from the monitor's thread with each new snapshot.
    """

    def __init__(
        self,
        *,
        session: str,
        planned: tuple[ExpectedProcess, ...],
        connection: Mapping[str, Any],
        publish: Callable[[Snapshot], None],
    ) -> None:
        self._merger = Merger(session, planned)
        self._publish = publish
        self._connection = connection
        self._wire = wire(connection)
        self._lock = threading.Lock()
        self._known = Known()
        self._latest: dict[int, LatestActivity] = {}
        self._samples: dict[int, Samples] = {}
        self._holdings = Holdings()
        self._dirty = True
        self._faults: tuple[Notice, ...] = ()
        self._reading = MessageGuard("A report of a process", logger, self.fault)
        self._publishing = MessageGuard("A snapshot of the session", logger, self.fault)
        self.on_answer: Callable[[AsideAnswer], None] = lambda answer: None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="nbdist-monitor", daemon=True)

    def start(self) -> None:
        """Begin to listen."""
        self._thread.start()

    def stop(self) -> None:
        """Publish a last snapshot and end."""
        self._stop.set()
        self._thread.join(2.0)
        with self._publishing:
            self._publish(self.snapshot())

    def know(self, known: Known) -> None:
        """Replace the kernel's own facts about the processes."""
        with self._lock:
            self._known = known
            self._dirty = True

    def fault(self, text: str) -> None:
        """Show a fault of one of nbdist's own threads in all later snapshots; a repeated fault is shown once."""
        notice = Notice(level="warn", title="nbdist could not handle something.", text=text)
        with self._lock:
            if notice not in self._faults and len(self._faults) < MOST_FAULTS:
                self._faults = (*self._faults, notice)
                self._dirty = True

    def sent(self, process_ids: Iterable[int], run: int) -> None:
        """Note that a cell was sent to processes; `run` rises from one sending to the next."""
        with self._lock:
            self._merger.sent(process_ids, run)

    def rest(self, process_ids: Iterable[int], cell: int) -> None:
        """Count processes that have replied to a cell as idle."""
        ids = list(process_ids)
        with self._lock:
            self._merger.rest(ids, cell)
            self._dirty = True
        for process_id in ids:
            latest = self._latest.get(process_id)
            if latest is not None and latest.activity.cell == cell:
                self._latest[process_id] = LatestActivity(at_rest(latest.activity), latest.at)

    def activity(self, process_id: int) -> Activity | None:
        """Return the newest activity of a process; None before its first report.

        `line_seconds` and `cell_seconds` count on from the moment the report was received.
        """
        latest = self._latest.get(process_id)
        if latest is None:
            return None
        return aged(latest.activity, time.monotonic() - latest.at)

    def samples(self, process_id: int) -> After:
        """Return the texts of names that a process has reported after its last cells."""
        with self._lock:
            found = self._samples.get(process_id)
            return {} if found is None else dict(found.after)

    def held(self, process_id: int) -> Held | None:
        """Return what a process held at its last report, even if it has ended; None before a report."""
        return self._holdings.held(process_id)

    def silence(self, process_id: int) -> float:
        """Return the seconds since a process last reported; 0 before its first report."""
        latest = self._latest.get(process_id)
        return 0.0 if latest is None else time.monotonic() - latest.at

    def snapshot(self) -> Snapshot:
        """Return everything known of the whole session now."""
        with self._lock:
            known = replace(self._known, notices=(*self._known.notices, *self._faults))
            return self._merger.snapshot(known, time_s=time.time())

    def wait_for(self, sequences: Mapping[int, int], *, timeout_s: float) -> bool:
        """Wait until reports of these numbers have come; return whether all have."""

        def all_came() -> bool:
            with self._lock:
                return all(self._merger.sequence(p) >= n for p, n in sequences.items())

        return _comes_true(all_came, timeout_s, look_s=0.005)

    def wait_for_all(self, *, timeout_s: float) -> bool:
        """Wait until every process has reported its devices; return whether all have."""

        def all_reported() -> bool:
            snapshot = self.snapshot()
            reported = {device.process_id for device in snapshot.devices}
            return reported.issuperset(process.process_id for process in snapshot.processes)

        return _comes_true(all_reported, timeout_s, look_s=0.02)

    def _run(self) -> None:
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        socket = subscriber(context, self._connection, [b"nbdist"])
        published = 0.0
        try:
            while not self._stop.is_set():
                now = time.monotonic()
                idle = not self._read(socket) and not self._dirty
                if idle and now - published < IDLE_PERIOD_SECONDS:
                    continue
                if now - published >= PERIOD_SECONDS:
                    published = now
                    self._dirty = False
                    with self._publishing:
                        self._publish(self.snapshot())
        finally:
            socket.close()
            context.term()

    def _read(self, socket: zmq.Socket[bytes]) -> bool:
        """Take the messages that have come, waiting a moment for the first; return whether any was a report.

        Snapshots go out in between even if messages come as fast as they are taken.
        """
        reported = False
        try:
            came = bool(socket.poll(int(PERIOD_SECONDS * 1000)))
            until = time.monotonic() + PERIOD_SECONDS
            while came and time.monotonic() < until and socket.poll(0):
                frames = socket.recv_multipart()
                with self._reading:
                    reported = self._take(frames) or reported
        except zmq.ZMQError:
            logger.exception("the socket of reports cannot be read")
            self._stop.wait(AFTER_FAILURE_SECONDS)
        return reported

    def _take(self, frames: list[bytes]) -> bool:
        try:
            topics, parts = self._wire.feed_identities(frames)
            message = self._wire.deserialize(parts)
        except (ValueError, TypeError, IndexError):
            return False  # not signed with this session's key: not ours to read
        try:
            report = message_of(message["msg_type"], message["content"])
            if not isinstance(report, Report | AsideAnswer):
                raise WireError(f"it is of the type {message['msg_type']!r}.")
        except WireError as error:
            raise WireError(
                f"{_sender(topics)} has published what is no report: {error}"
            ) from error
        if isinstance(report, AsideAnswer):
            self.on_answer(report)
            return False
        with self._lock:
            self._merger.update(report, time_s=time.time())
            self._samples.setdefault(report.process_id, Samples()).take(report)
        self._holdings.take(report)
        if report.activity is not None:
            self._latest[report.process_id] = LatestActivity(report.activity, time.monotonic())
        return True


def _comes_true(condition: Callable[[], bool], timeout_s: float, *, look_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(look_s)
    return False


def _sender(topics: Sequence[bytes]) -> str:
    """Return `Process 3` for a topic such as `nbdist.3`."""
    name = topics[0].decode(errors="replace") if topics else ""
    return f"Process {name.rpartition('.')[2]}"


def aged(activity: Activity, seconds: float) -> Activity:
    """Return the activity as it is `seconds` later, if nothing else has changed."""
    if activity.state == "idle":
        return activity
    return structs.replace(
        activity,
        cell_seconds=None if activity.cell_seconds is None else activity.cell_seconds + seconds,
        line_seconds=None if activity.line_seconds is None else activity.line_seconds + seconds,
    )
