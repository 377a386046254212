"""All output of one process in a cell, in order, in bounded memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from nbdist.notation import bytes_text
from nbdist.view.output.bounded_log import HashPoint, Item, KeptEntries, Limits, Queue, Spool
from nbdist.view.output.cursor import WIDTH, Pen, ScreenRow
from nbdist.view.output.entries import Display, Entry, Gap, Line, Stream, digest_of_lines
from nbdist.view.widgets import LiveWidget

REACH = 32
"""How many of the newest outputs the cursor can go back over."""

_BULK = 8 * REACH
_CLEARS = 256

_FRAMES = 8
_FRAME_ENTRIES = 64
"""The number of animation frames kept for processes that are behind, and of entries in each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """The entries of one process at one moment: `head`, then the gap that a cut left, then `rest`.

    `marks` holds for each note how many entries were there before it. `count`, `digest` and `checkpoints` describe
    all settled entries after the head, also those that are cut. The last `floating` entries are bars that are
    being redrawn. `clears` are the times at which the output was cleared, `generation` is their number, `past` the
    contents cleared last.
    """

    process_id: int
    head: tuple[Entry, ...]
    gap: Gap | None
    rest: tuple[Entry, ...]
    finished: bool
    marks: tuple[int, ...] = ()
    floating: int = 0
    count: int = 0
    digest: bytes = b""
    checkpoints: tuple[HashPoint, ...] = ()
    generation: int = 0
    clears: tuple[float, ...] = ()
    past: tuple[Column, ...] = ()

    @property
    def entries(self) -> list[Entry]:
        """All entries."""
        return [*self.head, *([] if self.gap is None else [self.gap]), *self.rest]


class ProcessOutput:
    """The output of one process. Not thread-safe.

    The newest outputs are in a window, where the cursor may still change them. An output that leaves the window is
    settled and goes to `KeptEntries`.
    """

    def __init__(self, process_id: int, *, limits: Limits, path: Path) -> None:
        self.process_id = process_id
        self.finished = False
        self.queue: Queue | None = None
        self._limits = limits
        self._spool = Spool(path)
        self._clears: deque[float] = deque(maxlen=_CLEARS)
        self._past: deque[Column] = deque(maxlen=_FRAMES)
        self._generation = 0
        self._marks: list[int] = []
        self._clear_next = False
        self._begin()

    def stream(self, name: Stream, text: str, time: float) -> None:
        """Take text of a stream."""
        self._clear_if_due(time)
        pen = self._pens[name]
        self._turn_to(pen)
        if text.count("\n") > _BULK and pen.plain(text):
            text = self._bulk(pen, text, time)
        pen.feed(text, time)
        self._settle(time)

    def result(self, text: str, time: float) -> None:
        """Take the text of a displayed value. A text of several lines counts as equal only as a whole."""
        self._clear_if_due(time)
        # A flood is settled line by line, which is faster.
        pen = self._pens["result"]
        pen.whole = digest_of_lines(text) if text.count("\n") <= _BULK else ""
        self.stream("result", f"{text}\n", time)
        pen.whole = ""

    def display(
        self,
        data: Mapping[str, Any],
        metadata: Mapping[str, Any],
        display_id: str | None,
        time: float,
        widget: LiveWidget | None = None,
    ) -> None:
        """Take a rich output; with a `widget` it shows that widget."""
        self._clear_if_due(time)
        self._turn_to(None)
        display = self._bounded(data, metadata, time)
        display.widgets = () if widget is None else (widget,)
        self._window.append(display)
        if display_id is not None:
            self._displays[display_id] = display
        self._settle(time)

    def update(self, data: Mapping[str, Any], metadata: Mapping[str, Any], display_id: str) -> bool:
        """Change the display with this id; return whether there is one."""
        display = self._displays.get(display_id)
        if display is None:
            return False
        bounded = self._bounded(data, metadata, display.time)
        display.set(bounded.data, bounded.metadata)
        return True

    def clear(self, time: float, *, wait: bool) -> None:
        """Drop all output; with `wait`, only when the next output comes."""
        self._clear_next = True
        if not wait:
            self._clear_if_due(time)

    def mark(self) -> None:
        """Remember the present end of the output as the place of one more note."""
        floating = sum(isinstance(one, ScreenRow) and self._floats(one) for one in self._window)
        self._marks.append(self._kept.total + len(self._window) - floating)

    def finish(self, time: float) -> None:
        """Note that the process has finished the cell: nothing changes from now on."""
        self.finished = True
        self._turn_to(None)
        for pen in self._pens.values():
            pen.end()
        self._settle(time, keep=0)

    @property
    def changeable(self) -> bool:
        """Return whether a display has an id by which it may be changed."""
        return bool(self._displays)

    def close(self) -> None:
        """Close the file, if there is one."""
        self._spool.close()

    def follow(self, queue: Queue) -> None:
        """Put complete entries into a queue from now on, beginning with those in memory."""
        for entry in (*self._kept.head, *self._kept.tail):
            queue.add(entry, entry.time)
        self.queue = queue
        self._hand_over(None)

    def take(self) -> list[Item]:
        """Empty the queue."""
        if self.queue is None:
            return []
        if self.queue.cut:
            self._kept.keep_all()
        return self.queue.take(str(self._spool.path))

    def column(self) -> Column:
        """Return the present state."""
        window = [one for one in self._window if not self._is_wiped(one)]
        # The place of a bar among another stream's lines is accidental.
        bars = [one for one in window if isinstance(one, ScreenRow) and self._floats(one)]
        window = [*(one for one in window if one not in bars), *bars]
        kept = self._kept
        self._spool.flush()
        head, rest = tuple(kept.head), (*kept.tail, *map(self._entry, window))
        gap = kept.gap("") if kept.cut else None
        entries = len(head) + (gap is not None) + len(rest)
        ago = kept.total + len(window) - entries
        marks = (mark if mark <= len(head) else max(len(head), mark - ago) for mark in self._marks)
        return Column(
            process_id=self.process_id,
            head=head,
            gap=gap,
            rest=rest,
            finished=self.finished,
            marks=tuple(min(mark, entries) for mark in marks),
            floating=len(bars),
            count=kept.count,
            digest=kept.digest,
            checkpoints=tuple(kept.checkpoints),
            generation=self._generation,
            clears=tuple(self._clears),
            past=tuple(self._past),
        )

    def live(self) -> list[Line]:
        """Return the bars that are being redrawn."""
        rows = [one for one in self._window if isinstance(one, ScreenRow) and self._floats(one)]
        return [row.line(open=True) for row in rows if not self._is_wiped(row)]

    def _begin(self) -> None:
        self._kept = KeptEntries(self._limits, self._spool)
        self._window: list[ScreenRow | Display] = []
        # Displays that were cut out must not be kept alive by their ids.
        self._displays: WeakValueDictionary[str, Display] = WeakValueDictionary()
        streams: tuple[Stream, ...] = ("stdout", "stderr", "result")
        self._pens: dict[Stream, Pen] = {name: Pen(name, self._window) for name in streams}
        self._writing: Pen | None = None

    def _clear_if_due(self, time: float) -> None:
        if self._clear_next:
            self._clear_next = False
            cleared = replace(self.column(), past=())
            if len(cleared.head) + len(cleared.rest) <= _FRAME_ENTRIES:
                self._past.append(cleared)
            self._spool.discard()
            self._clears.append(time)
            self._generation += 1
            self._marks = [0] * len(self._marks)
            self._begin()

    def _turn_to(self, pen: Pen | None) -> None:
        if self._writing is not None and self._writing is not pen:
            self._writing.leave()
        self._writing = pen

    def _bulk(self, pen: Pen, text: str, time: float) -> str:
        """Settle most lines of a long plain text at once; return the rest, which begins a new line."""
        first, *lines = text.split("\n")
        if any(len(line) > WIDTH for line in lines):
            return text
        pen.feed(f"{first}\n", time)
        if pen.live:
            return "\n".join(lines)
        self._settle(time, keep=0)
        done, rest = lines[:-REACH], lines[-REACH:]
        self._kept.add_lines(pen.stream, done, time)
        if self.queue is not None:
            self.queue.add_lines(pen.stream, done, time)
        return "\n".join(rest)

    def _settle(self, time: float, *, keep: int = REACH) -> None:
        self._hand_over(time)
        excess = len(self._window) - keep
        if excess <= 0:
            return
        stay: list[ScreenRow | Display] = []
        for one in self._window:
            floats = isinstance(one, ScreenRow) and self._floats(one)
            if excess <= 0 or (floats and len(stay) < REACH) or self._is_written(one):
                stay.append(one)
                continue
            excess -= 1
            if isinstance(one, ScreenRow):
                self._pens[one.stream].forget(one)
            self._kept.add(self._entry(one))
        # The pens hold this very list.
        self._window[:] = stay

    def _hand_over(self, time: float | None) -> None:
        """Give complete entries to the queue, if there is one; without a time, at the time each began."""
        if self.queue is None:
            return
        for one in self._window:
            if not one.handed and (isinstance(one, Display) or not self._is_live(one)):
                one.handed = True
                self.queue.add(self._entry(one), one.time if time is None else time)

    def _entry(self, one: ScreenRow | Display) -> Entry:
        if isinstance(one, Display):
            return one
        return one.line(open=self._is_live(one) or (one.revisited and not self.finished))

    def _is_live(self, row: ScreenRow) -> bool:
        return row in self._pens[row.stream].live

    def _is_wiped(self, one: ScreenRow | Display) -> bool:
        return isinstance(one, ScreenRow) and one.blank and self._is_live(one)

    def _is_written(self, one: ScreenRow | Display) -> bool:
        return isinstance(one, ScreenRow) and not one.redrawn and self._is_live(one)

    def _floats(self, row: ScreenRow) -> bool:
        return row.redrawn and self._is_live(row)

    def _bounded(
        self, data: Mapping[str, Any], metadata: Mapping[str, Any], time: float
    ) -> Display:
        display = Display(data, metadata, time)
        if display.size <= self._limits.one_display:
            return display
        most = bytes_text(self._limits.one_display)
        kinds = ", ".join(data)
        text = f"… a display of {bytes_text(display.size)} is not shown (at most {most}): {kinds}"
        return Display({"text/plain": text}, {}, time)
