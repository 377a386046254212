"""Bounded memory for the output of one process: limits, kept entries, a queue to print, and a full log file."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from io import BufferedWriter
from pathlib import Path
from typing import NamedTuple

from nbdist.notation import bytes_text, count_text
from nbdist.view.output.entries import Display, Entry, Gap, Line, Stream, line, may_differ_from_key

_SHOWN_LINES = 8000
_SHOWN_CHARACTERS = 192 << 10
_SHOWN_DISPLAY_CHARACTERS = 128 << 20
"""The most that a cell shows of all processes together: lines, characters of lines, characters of displays."""

_TAIL = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The most lines, characters of text, displays, and characters of displays.

    `one_display` bounds the characters of a single display.
    """

    lines: int
    characters: int
    displays: int
    display_characters: int
    one_display: int

    @classmethod
    def for_processes(cls, count: int) -> Limits:
        """Return the limits of each of `count` processes, which share what one cell can show."""
        return cls(
            lines=max(20, _SHOWN_LINES // count),
            characters=max(2000, _SHOWN_CHARACTERS // count),
            displays=40,
            display_characters=max(4 << 20, _SHOWN_DISPLAY_CHARACTERS // count),
            one_display=max(1 << 20, _SHOWN_DISPLAY_CHARACTERS // count // 4),
        )

    @property
    def tail(self) -> Limits:
        """Return a fifth of these limits, for the tail: the end of a flood is sent again at each refresh."""
        return Limits(
            lines=self.lines // _TAIL,
            characters=self.characters // _TAIL,
            displays=self.displays // _TAIL,
            display_characters=self.display_characters // _TAIL,
            one_display=self.one_display,
        )


class OutputRoom:
    """The amounts counted against some limits."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._lines = 0
        self._characters = 0
        self._displays = 0
        self._display_characters = 0

    @property
    def exceeded(self) -> bool:
        """Return whether an amount exceeds its limit."""
        return (
            self._lines > self.limits.lines
            or self._characters > self.limits.characters
            or self._displays > self.limits.displays
            or self._display_characters > self.limits.display_characters
        )

    def take(self, entry: Entry) -> None:
        """Count an entry in."""
        self._count(entry, 1)

    def release(self, entry: Entry) -> None:
        """Count an entry out."""
        self._count(entry, -1)

    def _count(self, entry: Entry, sign: int) -> None:
        if isinstance(entry, Line):
            self._lines += sign
            # The key, since timings may give equal bars different lengths on different processes.
            self._characters += sign * len(entry.key)
        elif isinstance(entry, Display):
            self._displays += sign
            self._display_characters += sign * entry.size


HOLD_S = 0.5
"""Seconds for which output that not all processes have is held back: the others may still bring it."""

FRESH_S = 2.0
"""Seconds for which a process with less of a line or a flood, or with what others have cleared, counts as behind,
and for which a widget that has changed is taken to become what another process has made of its own.

Processes are never at exactly the same place."""

STRICT_S = 2 * FRESH_S
"""Seconds after which nothing that is there now is fresh any more."""


LARGEST_BYTES = 4 << 30
"""The largest size of a file, so that a flood left alone overnight does not fill the disk."""


class Spool:
    """File with all output of one process, used once there is more than can be shown.

    A private text file (mode 0600, in a folder of mode 0700), made when it is first needed.

    Attributes:
      problem: Why the file does not hold everything, or None.
    """

    def __init__(self, path: Path, *, largest_bytes: int = LARGEST_BYTES) -> None:
        self.path = path
        self.problem: str | None = None
        self._largest = largest_bytes
        self._written = 0
        self._file: BufferedWriter | None = None

    @property
    def started(self) -> bool:
        """Return whether the file was started, even if it could not be made."""
        return self._file is not None or self.problem is not None

    def start(self) -> None:
        """Make the file; empty an earlier one of the same name."""
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            # A link at this path was put there by somebody else: do not write through it.
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
            self._file = os.fdopen(os.open(self.path, flags, 0o600), "wb")
        except OSError as error:
            self._fail(error)

    def write(self, text: str) -> None:
        """Append text; a full or unwritable disk is noted in `problem`, and nothing is raised."""
        if self._file is None:
            return
        data = text.encode("utf-8", "replace")
        if self._written + len(data) > self._largest:
            self._close(f"the file ends after {self._written:,} bytes")
            return
        self._written += len(data)
        try:
            self._file.write(data)
        except OSError as error:
            self._fail(error)

    def flush(self) -> None:
        """Make what was written readable to others."""
        if self._file is not None:
            try:
                self._file.flush()
            except OSError as error:
                self._fail(error)

    def close(self) -> None:
        """End the file."""
        self.flush()
        self._close(None)

    def discard(self) -> None:
        """Remove the file; called when its text was cleared."""
        if self._file is not None:
            self._close(None)
            with contextlib.suppress(OSError):
                self.path.unlink()
        self.problem = None
        self._written = 0

    def _fail(self, error: OSError) -> None:
        self._close(f"not written: {error.strerror or error}")

    def _close(self, problem: str | None) -> None:
        file, self._file = self._file, None
        self.problem = problem if problem is not None else self.problem
        if file is not None:
            # Closing writes what is buffered, which fails once more on a full disk.
            with contextlib.suppress(OSError):
                file.close()


_CHECKPOINT = 256
_CHECKPOINTS = 512
"""The distance between two checkpoints at first, and the most checkpoints before it doubles."""


class HashPoint(NamedTuple):
    """Hash of the first `position` entries after the head, and the time when the last of them came."""

    position: int
    digest: bytes
    time: float


class KeptEntries:
    """Entries that no longer change, in order: a head and, if more came, a bounded tail.

    Attributes:
      head: The first entries, as many as the limits allow.
      tail: The last entries, once the head is full.
      total: The number of all entries so far, including those that were cut.
      checkpoints: Hashes at intervals after the head, used to compare floods. To keep their number bounded, the
        interval doubles.
    """

    def __init__(self, limits: Limits, spool: Spool) -> None:
        self.head: list[Entry] = []
        self.tail: deque[Entry] = deque()
        self.total = 0
        self.checkpoints: list[HashPoint] = []
        self.spool = spool
        self._room = OutputRoom(limits)
        self._tail_room = OutputRoom(limits.tail)
        self._full = False
        self._spacing = _CHECKPOINT
        self._hash = hashlib.blake2b(digest_size=16)
        self._cut_bytes = 0
        self._cut_displays = 0

    @property
    def cut(self) -> bool:
        """Return whether something between head and tail is no longer in memory."""
        return self._cut_bytes + self._cut_displays > 0

    @property
    def count(self) -> int:
        """The number of entries after the head."""
        return self.total - len(self.head)

    @property
    def digest(self) -> bytes:
        """The hash of all entries after the head."""
        return self._hash.digest()

    def add(self, entry: Entry) -> None:
        """Append one entry."""
        if not self._full:
            self._room.take(entry)
            self._full = self._room.exceeded
        self.total += 1
        if not self._full:
            self.head.append(entry)
            self._write(entry)
            return
        self.keep_all()
        self._hash.update(_hashed(entry))
        self._check(entry.time)
        self._write(entry)
        self.tail.append(entry)
        self._tail_room.take(entry)
        while self._tail_room.exceeded and len(self.tail) > 1:
            self._cut_first()

    def add_lines(self, stream: Stream, texts: Sequence[str], time: float) -> None:
        """Append many complete lines; lines that would be cut at once are only hashed."""
        at = 0
        while at < len(texts) and not self._full:
            self.add(line(stream, texts[at], time))
            at += 1
        last = max(at, len(texts) - self._tail_room.limits.lines)
        if last > at:
            self._skip(stream, texts[at:last], time)
        for text in texts[last:]:
            self.add(line(stream, text, time))

    def gap(self, key: str) -> Gap:
        """Return the entry that stands for what is not in memory."""
        parts = [bytes_text(self._cut_bytes)] if self._cut_bytes else []
        if self._cut_displays:
            parts.append(count_text(self._cut_displays, "display"))
        where = f"all of it in {self.spool.path}"
        if self.spool.problem is not None:
            where = f"{self.spool.path} has a part ({self.spool.problem})"
        return Gap(key, f"… {' and '.join(parts)} more, {where}", self.tail[0].time)

    def keep_all(self) -> None:
        """Start the file, and write all entries so far into it."""
        if not self.spool.started:
            self.spool.start()
            for entry in self.head:
                self._write(entry)

    def _skip(self, stream: Stream, texts: Sequence[str], time: float) -> None:
        at = 0
        while at < len(texts):
            part = texts[at : at + self._spacing - self.count % self._spacing]
            text = "\n".join(part) + "\n"
            data = text.encode("utf-8", "replace")
            if may_differ_from_key(stream, text):
                self._hash.update(b"".join(_hashed(line(stream, one, time)) for one in part))
            else:
                self._hash.update(data)
            self.total += len(part)
            self._check(time)
            self.spool.write(text)
            self._cut_bytes += len(data)
            at += len(part)

    def _cut_first(self) -> None:
        entry = self.tail.popleft()
        self._tail_room.release(entry)
        if isinstance(entry, Display):
            self._cut_displays += 1
        else:
            self._cut_bytes += len(_written(entry).encode("utf-8", "replace"))

    def _check(self, time: float) -> None:
        if self.count % self._spacing:
            return
        self.checkpoints.append(HashPoint(self.count, self.digest, time))
        if len(self.checkpoints) > _CHECKPOINTS:
            self._spacing *= 2
            self.checkpoints = [
                one for one in self.checkpoints if one.position % self._spacing == 0
            ]

    def _write(self, entry: Entry) -> None:
        if self.spool.started:
            self.spool.write(_written(entry))


def _hashed(entry: Entry) -> bytes:
    text = entry.digest if isinstance(entry, Display) else entry.key
    return f"{text}\n".encode("utf-8", "replace")


def _written(entry: Entry) -> str:
    wrapped = isinstance(entry, Line) and entry.wrapped
    return entry.text if wrapped else f"{entry.text}\n"


class Item(NamedTuple):
    """An entry, and the time when it was complete."""

    entry: Entry
    time: float


class Queue:
    """Complete entries that a terminal has not printed yet; if there are too many, the oldest are cut.

    The tail's limits apply to the entries between two calls of `take`, so that a terminal stays usable with four
    processes that print 1 MB/s each.
    """

    def __init__(self, limits: Limits) -> None:
        self._items: deque[Item] = deque()
        self._room = OutputRoom(limits.tail)
        self._cut_bytes = 0
        self._cuts = 0

    def add(self, entry: Entry, time: float) -> None:
        """Append an entry."""
        self._items.append(Item(entry, time))
        self._room.take(entry)
        while self._room.exceeded and len(self._items) > 1:
            first = self._items.popleft().entry
            self._room.release(first)
            self._cut_bytes += _size(first)

    def add_lines(self, stream: Stream, texts: Sequence[str], time: float) -> None:
        """Append many lines; lines that would be cut at once are only counted."""
        last = max(0, len(texts) - self._room.limits.lines)
        if last:
            self._cut_bytes += sum(_size(item.entry) for item in self._items)
            self._cut_bytes += sum(len(text) + 1 for text in texts[:last])
            self._items.clear()
            self._room = OutputRoom(self._room.limits)
        for text in texts[last:]:
            self.add(line(stream, text, time), time)

    @property
    def cut(self) -> bool:
        """Return whether an entry was cut since the last call of `take`."""
        return self._cut_bytes > 0

    def take(self, where: str) -> list[Item]:
        """Remove and return all entries. `where` says in which file the cut entries are."""
        items = list(self._items)
        if self._cut_bytes:
            self._cuts += 1
            text = f"… {bytes_text(self._cut_bytes)} more, all of it in {where}"
            items.insert(0, Item(Gap(f"{where} {self._cuts}", text, items[0].time), items[0].time))
        self._items.clear()
        self._cut_bytes = 0
        self._room = OutputRoom(self._room.limits)
        return items


def _size(entry: Entry) -> int:
    return entry.size if isinstance(entry, Display) else len(entry.text) + 1
