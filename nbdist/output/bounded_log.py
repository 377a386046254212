"""The part of a process's output that stays in memory: head, tail, and how much lies between."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from nbdist.output.entries import Display, Entry, Gap, Line, Stream, line, may_differ_from_key
from nbdist.output.limits import Limits, Room
from nbdist.output.spool import Spool
from nbdist.quantities import bytes_text, count_text

_CHECKPOINT = 256
_CHECKPOINTS = 512


class Checkpoint(NamedTuple):
    """The hash of the first `position` entries after the head, and when that was."""

    position: int
    digest: bytes
    time: float


class Kept:
    """Entries that no longer change, in their order: a head, and after a cut a bounded tail.

    Attributes:
      head: The first entries, as many as the limits allow.
      tail: The last entries, once the head is full.
      total: Number of all entries so far, those cut included.
      checkpoints: Hashes along what comes after the head, by which floods are compared. Their
        number is bounded; the distance between them doubles instead.
    """

    def __init__(self, limits: Limits, spool: Spool) -> None:
        self.head: list[Entry] = []
        self.tail: deque[Entry] = deque()
        self.total = 0
        self.checkpoints: list[Checkpoint] = []
        self.spool = spool
        self._room = Room(limits)
        self._tail_room = Room(limits.tail)
        self._full = False
        self._spacing = _CHECKPOINT
        self._hash = hashlib.blake2b(digest_size=16)
        self._cut_bytes = 0
        self._cut_displays = 0

    @property
    def cut(self) -> bool:
        """Whether something between head and tail is no longer in memory."""
        return self._cut_bytes + self._cut_displays > 0

    @property
    def count(self) -> int:
        """Number of entries after the head."""
        return self.total - len(self.head)

    @property
    def digest(self) -> bytes:
        """Hash of all entries after the head."""
        return self._hash.digest()

    def add(self, entry: Entry) -> None:
        """Appends one entry."""
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
        """Appends many complete lines; those of them that would be cut at once cost a hash only."""
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
        """The entry that stands for what is not in memory."""
        parts = [bytes_text(self._cut_bytes)] if self._cut_bytes else []
        if self._cut_displays:
            parts.append(count_text(self._cut_displays, "display"))
        where = f"all of it in {self.spool.path}"
        if self.spool.problem is not None:
            where = f"{self.spool.path} has a part ({self.spool.problem})"
        return Gap(key, f"… {' and '.join(parts)} more, {where}", self.tail[0].time)

    def keep_all(self) -> None:
        """Starts the file, with all there is so far."""
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
        self.checkpoints.append(Checkpoint(self.count, self.digest, time))
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
