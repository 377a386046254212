"""Entries that a process has completed and a terminal has not printed yet, in bounded memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from nbdist.output.entries import Display, Entry, Gap, Stream, line
from nbdist.output.limits import Limits, Room
from nbdist.quantities import bytes_text


class Item(NamedTuple):
    """An entry, and when it was complete."""

    entry: Entry
    time: float


class Queue:
    """Entries in their order. If more come than are taken, the oldest are cut.

    The tail's limits bound the entries between two takings, so that four processes at 1 MB/s leave a terminal
    usable.
    """

    def __init__(self, limits: Limits) -> None:
        self._items: deque[Item] = deque()
        self._room = Room(limits.tail)
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
        """Append many lines; those that would be cut at once are only counted."""
        last = max(0, len(texts) - self._room.limits.lines)
        if last:
            self._cut_bytes += sum(_size(item.entry) for item in self._items)
            self._cut_bytes += sum(len(text) + 1 for text in texts[:last])
            self._items.clear()
            self._room = Room(self._room.limits)
        for text in texts[last:]:
            self.add(line(stream, text, time), time)

    @property
    def cut(self) -> bool:
        """Return whether something was cut since the last taking."""
        return self._cut_bytes > 0

    def take(self, where: str) -> list[Item]:
        """Empty the queue. `where` says in which file the cut entries are."""
        items = list(self._items)
        if self._cut_bytes:
            self._cuts += 1
            text = f"… {bytes_text(self._cut_bytes)} more, all of it in {where}"
            items.insert(0, Item(Gap(f"{where} {self._cuts}", text, items[0].time), items[0].time))
        self._items.clear()
        self._cut_bytes = 0
        self._room = Room(self._room.limits)
        return items


def _size(entry: Entry) -> int:
    return entry.size if isinstance(entry, Display) else len(entry.text) + 1
