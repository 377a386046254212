"""Sources of the view's frames: the feed of a session, or one snapshot that never changes.

A frame carries the top-level sections of a snapshot that changed since the frame before, or all sections:
`nbdist.contract.page.Frame`, which `labextension/src/view/model/frames.ts` reads.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from nbdist.contract.page import CellOutputs, Frame
from nbdist.contract.snapshot import Snapshot
from nbdist.contract.wire import encode
from nbdist.interrupts import put_off
from nbdist.message_guard import MessageGuard

logger = logging.getLogger(__name__)

PERIOD_SECONDS = 0.1
"""The fewest seconds between two frames: iopub has no back-pressure, so with more frames it would lag by tens of
seconds."""

BEAT_SECONDS = 1.0
"""Seconds between two reports that pushed snapshots change nothing."""

SHARE = 0.2
"""The largest part of its time that the feed may spend on changes; large sessions get fewer frames."""

AFTER_FAILURE_SECONDS = 1.0
"""Seconds for which a sink that has failed is left alone."""

REPEAT_SHARE = 0.05
"""The largest part of its time that the feed may spend on repeating the full state."""

Plain = dict[str, Any]
"""A message as plain data."""

OutputsOf = Callable[[Collection[str]], Sequence[CellOutputs]]
"""A function like `ShownCells.of`: returns the outputs of the running cells and of the given ones."""

_PASSING = frozenset({"time", "sequence"})
"""Sections that differ in every snapshot: they are sent with other changes, and do not count as changes."""


class Sink(Protocol):
    """A receiver of frames; must be hashable. Called on the feed's thread, one frame at a time."""

    def take(self, frame: Plain) -> None:
        """Send one frame."""


@dataclass(slots=True)
class _Reader:
    """The state of one sink: when it last got a full frame, and what it needs next."""

    repeat_seconds: float | None
    full_due: bool = True
    full_at: float = 0.0
    full_cost: float = 0.0
    not_before: float = 0.0

    def is_due(self, now: float) -> bool:
        """Return whether the sink must get every section: it is new, has asked, or it is time to repeat them."""
        if self.full_due:
            return now >= self.not_before
        if self.repeat_seconds is None:
            return False
        return now - self.full_at >= max(self.repeat_seconds, self.full_cost / REPEAT_SHARE)

    def missed(self, now: float) -> None:
        """Note that a frame was not sent, so that the sink cannot apply the next change."""
        self.full_due = True
        self.not_before = now + AFTER_FAILURE_SECONDS


class Feed:
    """The newest snapshot of a session; a separate thread sends its changes to sinks.

    The thread starts with the first sink and ends with `close`. Without a sink nothing is encoded. A snapshot that
    cannot be encoded is left out; a sink that fails gets every section with its next frame. `on_fault` is called
    with a sentence about the first such failure. `values` returns a summary of an array, as `Session.values` of
    `nbdist.session.session`, and `outputs` the outputs of cells, as `ShownCells.of` of
    `nbdist.view.output.renderer`.
    """

    def __init__(self) -> None:
        self._stream = uuid.uuid4().hex
        self._changed = threading.Condition()
        self._readers: dict[Sink, _Reader] = {}
        self._thread: threading.Thread | None = None
        self._closed = False
        self._pushed: Snapshot | None = None
        self._pushed_at = 0.0
        # The content of the last frame; only the thread touches it.
        self._sent: Snapshot | None = None
        self._sections: dict[str, Any] = {}
        self._number = 0
        self.on_fault: Callable[[str], None] | None = None
        self.values: Callable[[str], dict[str, Any]] | None = None
        self.outputs: OutputsOf | None = None
        self._encoding = MessageGuard("A snapshot for the view", logger, self._fault)
        self._sending = MessageGuard("A frame of the view", logger, self._fault)

    @property
    def session(self) -> str | None:
        """The session id of the newest snapshot; None before the first."""
        return None if self._pushed is None else self._pushed.session

    @property
    def whole(self) -> None:
        """None: a session changes, so its data are not stored in the notebook."""
        return None

    def push(self, snapshot: Snapshot) -> None:
        """Take a new snapshot, replacing one that was not sent yet; return at once."""
        with put_off(), self._changed:
            self._pushed = snapshot
            self._pushed_at = time.monotonic()
            self._changed.notify()

    def attach(self, sink: Sink, *, repeat_seconds: float | None = None) -> None:
        """Send frames to `sink` from now on, a full one first.

        With `repeat_seconds` the full state is repeated at that interval, for views that join unannounced; less
        often if it is large. A sink that is already attached stays as it is.
        """
        with put_off(), self._changed:
            if self._closed or sink in self._readers:
                return
            self._readers[sink] = _Reader(repeat_seconds)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="nbdist-feed", daemon=True)
                self._thread.start()
            self._changed.notify()

    def detach(self, sink: Sink) -> None:
        """Send no more frames to `sink`."""
        with put_off(), self._changed:
            self._readers.pop(sink, None)

    def refresh(self, sink: Sink) -> None:
        """Send a full frame to `sink` soon."""
        with put_off(), self._changed:
            if (reader := self._readers.get(sink)) is not None:
                reader.full_due = True
                self._changed.notify()

    def close(self) -> None:
        """Send everything that is still unsent, end the thread, and let go of the sinks."""
        with put_off(), self._changed:
            self._closed = True
            self._changed.notify()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout=5)
        with put_off(), self._changed:
            self._readers.clear()

    def _run(self) -> None:
        next_at = 0.0
        beat_at = 0.0
        while True:
            with self._changed:
                self._wait(next_at)
                closed = self._closed
                pushed, pushed_at = self._pushed, self._pushed_at
                readers = dict(self._readers)
            if pushed is not None and readers:
                started = time.monotonic()
                with self._encoding:
                    changed = self._update(pushed)
                    beat = pushed_at > beat_at and started - beat_at >= BEAT_SECONDS
                    if self._send(changed, readers, pushed_at=pushed_at, beat=beat):
                        beat_at = started
                next_at = started + max(PERIOD_SECONDS, (time.monotonic() - started) / SHARE)
            if closed:
                return

    def _wait(self, next_at: float) -> None:
        """Wait for something to do, at most until the next repetition or beat."""
        while not self._closed:
            now = time.monotonic()
            if now >= next_at and self._has_work(now):
                return
            self._changed.wait(max(PERIOD_SECONDS, next_at - now) if self._readers else None)

    def _has_work(self, now: float) -> bool:
        if self._pushed is None or not self._readers:
            return False
        due = any(reader.is_due(now) for reader in self._readers.values())
        return due or self._pushed is not self._sent

    def _update(self, snapshot: Snapshot) -> dict[str, Any]:
        """Encode the sections that differ from those sent last, and return them."""
        changed: dict[str, Any] = {}
        sent = self._sent
        if snapshot is sent:
            return changed
        for name in Snapshot.__struct_fields__:
            value = getattr(snapshot, name)
            if sent is None or value != getattr(sent, name):
                changed[name] = encode(value)
        # Stored only now: a snapshot that cannot be encoded must not count as partly sent.
        self._sent = snapshot
        self._sections |= changed
        if changed.keys() <= _PASSING:
            return {}
        self._number += 1
        return changed

    def _send(
        self,
        changed: dict[str, Any],
        readers: dict[Sink, _Reader],
        *,
        pushed_at: float,
        beat: bool,
    ) -> bool:
        """Send each sink what it needs; return whether something went to every sink."""
        now = time.monotonic()
        age = round(now - pushed_at, 3)
        for sink, reader in readers.items():
            failed = True
            with self._sending:
                if reader.is_due(now):
                    reader.full_due = False
                    sink.take(self._frame(None, dict(self._sections), age))
                    reader.full_at = time.monotonic()
                    reader.full_cost = reader.full_at - now
                # A sink that has missed a frame is not tried again for a moment.
                elif changed and not reader.full_due:
                    sink.take(self._frame(self._number - 1, changed, age))
                elif beat and not reader.full_due:
                    sink.take(self._frame(self._number, {}, age))
                failed = False
            if failed:
                reader.missed(now)
        return bool(changed) or beat

    def _fault(self, text: str) -> None:
        if self.on_fault is not None:
            self.on_fault(text)

    def _frame(self, base: int | None, sections: dict[str, Any], age: float) -> Plain:
        frame: Plain = encode(
            Frame(stream=self._stream, sequence=self._number, base=base, age=age, snapshot=sections)
        )
        return frame


class OneFrame:
    """A snapshot that never changes, sent to each view that asks. It has no thread, and no side panel shows it."""

    values = None
    """None: there is no process that could be asked for values."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._stream = uuid.uuid4().hex

    @property
    def session(self) -> str:
        """The session's id in the snapshot."""
        return self._snapshot.session

    @cached_property
    def whole(self) -> Frame:
        """The one frame."""
        sections = encode(self._snapshot)
        return Frame(stream=self._stream, sequence=1, base=None, age=0.0, snapshot=sections)

    def attach(self, sink: Sink) -> None:
        """Do nothing: a view asks with `refresh` when it is shown."""

    def detach(self, sink: Sink) -> None:
        """Do nothing: nothing more is sent."""

    def refresh(self, sink: Sink) -> None:
        """Send the frame to a view."""
        sink.take(encode(self.whole))


Source = Feed | OneFrame
"""A view's source of frames."""
