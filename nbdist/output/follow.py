"""Output for a terminal: each output of many processes once, in an order that never changes."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

from nbdist.output.agree import whole_tracebacks
from nbdist.output.align import Section, align
from nbdist.output.blocks import Block, Builder
from nbdist.output.entries import Display
from nbdist.output.fold import Compared, groups
from nbdist.output.patience import HOLD_S
from nbdist.output.queue import Item
from nbdist.output.record import Record


class Note(NamedTuple):
    """A note of nbdist's own, and when it came."""

    text: str
    time: float


class Follower:
    """Takes complete entries from the records, and returns those that need not wait."""

    def __init__(self, records: Sequence[Record]) -> None:
        self._records = records
        self._pending: dict[int, list[Item]] = {record.process_id: [] for record in records}
        self._noted = 0

    def take(self, notes: Sequence[Note], now: float, *, final: bool) -> tuple[Block, ...]:
        """Return the next blocks. Entries that came before a note come before it."""
        for record in self._records:
            self._pending[record.process_id] += record.take()
        builder = Builder()
        for note in notes[self._noted :]:
            self._give(builder, before=note.time, ripe=note.time)
            builder.note(note.text)
        self._noted = len(notes)
        self._give(builder, before=now, ripe=now if final else now - HOLD_S)
        return builder.blocks()

    def _give(self, builder: Builder, *, before: float, ripe: float) -> None:
        """Give entries up to the time `before`; those that others may still bring, only up to `ripe`."""
        compared = [self._compared(record, before) for record in self._records]
        given = [0] * len(compared)
        sections = align([one.keys for one in compared])
        complete = self._complete(sections, compared)
        for number, section in enumerate(sections):
            part = section if number < complete else self._ripe(section, ripe)
            for group in groups(part, compared, ripe, set()):
                builder.add(group.processes, group.entries)
            given = [stop for _, stop in part.spans]
            if part != section:
                break
        for record, count in zip(self._records, given, strict=True):
            del self._pending[record.process_id][:count]

    def _compared(self, record: Record, before: float) -> Compared:
        pending = self._pending[record.process_id]
        entries = [item.entry for item in pending if item.time <= before]
        keys: list[Hashable] = [
            ("display", entry.digest) if isinstance(entry, Display) else entry.key
            for entry in entries
        ]
        keys = whole_tracebacks(entries, keys)
        # Printed text stays: no process counts as merely behind.
        return Compared(record.process_id, entries, keys, finished=True, settled=len(keys))

    def _complete(self, sections: Sequence[Section], compared: Sequence[Compared]) -> int:
        """Return the number of sections to which nothing can be added: up to the last line that all have."""
        for number in range(len(sections), 0, -1):
            section = sections[number - 1]
            each = zip(self._records, compared, section.spans, strict=True)
            if section.common and all(
                stop > start or (record.finished and stop == len(one.keys))
                for record, one, (start, stop) in each
            ):
                return number
        return 0

    def _ripe(self, section: Section, ripe: float) -> Section:
        """Return the first lines of a section: for each process as many as one has held long enough."""
        count = 0
        for record, (start, stop) in zip(self._records, section.spans, strict=True):
            items = self._pending[record.process_id][start:stop]
            old = (number for number, item in enumerate(items) if item.time > ripe)
            count = max(count, next(old, len(items)))
        spans = tuple((start, min(start + count, stop)) for start, stop in section.spans)
        return section._replace(spans=spans)
