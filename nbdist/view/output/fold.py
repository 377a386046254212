"""Folding of many processes' outputs into one sequence of blocks: anew for each look, or once for a terminal.

A terminal cannot change what it has printed, so a `Follower` gives each output once, in an order that never
changes.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import NamedTuple

from nbdist.view.output.agree import Section, align, choose, keys, settle_for, whole_tracebacks
from nbdist.view.output.blocks import Block, Builder
from nbdist.view.output.bounded_log import HOLD_S, Item
from nbdist.view.output.entries import Display, Entry
from nbdist.view.output.record import Column, ProcessOutput


class Group(NamedTuple):
    """Processes and the entries they have in common in one section."""

    processes: tuple[int, ...]
    entries: list[Entry]


class ComparedEntries(NamedTuple):
    """One process's entries, the key of each, and whether more may come.

    More comes after the first `settled` entries: bars that are being redrawn stay below what comes.
    """

    process_id: int
    entries: list[Entry]
    keys: list[Hashable]
    finished: bool
    settled: int


def fold(columns: Sequence[Column], notes: Sequence[str], now: float) -> tuple[Block, ...]:
    """Return the output of all processes; each line and display stands once for the processes that agree on it.

    Lines that differ are listed by process, between those that are the same. The order of each process's entries
    is kept; `notes` are placed where they came. The time taken is in proportion to what the columns hold.
    """
    settled = settle_for(columns, now)
    compared = [
        ComparedEntries(
            column.process_id,
            column.entries,
            its_keys,
            column.finished,
            settled=len(its_keys) - column.floating,
        )
        for column, its_keys in zip(settled, keys(settled, now), strict=True)
    ]
    builder = Builder()
    start = [0] * len(compared)
    held: set[int] = set()
    for note, stop in enumerate([*_cuts(settled, compared), None]):
        if note:
            builder.note(notes[note - 1])
        ends = [len(one.keys) for one in compared] if stop is None else stop
        for section in _between(compared, start, ends):
            for group in groups(section, compared, now, held):
                builder.add(group.processes, group.entries)
        start = ends
    return builder.blocks()


def groups(
    section: Section, compared: Sequence[ComparedEntries], now: float, held: set[int]
) -> list[Group]:
    """Return the groups of a section, that of the lowest process first.

    Some processes may have entries that others may still bring, since the others' entries so far are the first of
    these. Such entries are held back for `HOLD_S` and then shown for the processes that have them: no process is
    said to have put out what it has not.

    Args:
      section: The place of each process's entries.
      compared: The entries.
      now: The time in seconds, by the clock of the entries.
      held: Processes with something held back above, of which only bars are shown; more are added here.
    """
    spans = [
        (max(start, compared[index].settled) if index in held else start, stop)
        for index, (start, stop) in enumerate(section.spans)
    ]
    parts = [one.entries[slice(*span)] for one, span in zip(compared, spans, strict=True)]
    alike: dict[tuple[Hashable, ...], list[int]] = {}
    waiting: list[int] = []
    for index in section.members:
        one, (start, stop) = compared[index], spans[index]
        if stop >= one.settled and not one.finished:
            waiting.append(index)
        if stop > start:
            alike.setdefault(tuple(one.keys[start:stop]), []).append(index)
    _join_those_behind(alike, waiting)
    found = [list(_steps(members, parts, compared, now, held)) for members in alike.values()]
    return [group for steps in sorted(filter(None, found)) for group in steps]


def _join_those_behind(
    alike: dict[tuple[Hashable, ...], list[int]], waiting: Sequence[int]
) -> None:
    """Add processes that may still bring the same as others to these."""
    owner = {index: keys for keys, members in alike.items() for index in members}
    for index in waiting:
        own = owner.get(index, ())
        longer = [keys for keys in alike if len(keys) > len(own) and keys[: len(own)] == own]
        if len(longer) != 1:
            # If several go on differently, nobody knows which of them this process will follow.
            continue
        alike[longer[0]].append(index)
        if own:
            alike[own].remove(index)
            if not alike[own]:
                del alike[own]


def _steps(
    members: Sequence[int],
    parts: Sequence[list[Entry]],
    compared: Sequence[ComparedEntries],
    now: float,
    held: set[int],
) -> Iterator[Group]:
    """Yield what all members have put out, then what all but the slowest have, and so on."""
    begin = 0
    for end in sorted({len(parts[index]) for index in members} - {0}):
        those = sorted(
            (index for index in members if len(parts[index]) >= end),
            key=lambda index: compared[index].process_id,
        )
        stop = end
        if len(those) < len(members):
            rows = zip(*(parts[index][begin:end] for index in those), strict=True)
            fresh = (n for n, row in enumerate(rows) if now - min(e.time for e in row) < HOLD_S)
            stop = begin + next(fresh, end - begin)
        if stop > begin:
            entries = _chosen([parts[index][begin:stop] for index in those])
            yield Group(tuple(compared[index].process_id for index in those), entries)
        if stop < end:
            held.update(index for index in members if len(parts[index]) >= end)
            return
        begin = end


def _chosen(parts: Sequence[list[Entry]]) -> list[Entry]:
    return [choose(row) for row in zip(*parts, strict=True)]


def _cuts(columns: Sequence[Column], compared: Sequence[ComparedEntries]) -> list[list[int]]:
    """Return for each note how many entries of each process stand above it.

    These are the entries that were there when the note came; of entries that several processes have in common, as
    many as the process furthest ahead had.
    """
    cuts = [list(cut) for cut in zip(*(column.marks for column in columns), strict=True)]
    if not cuts:
        return []
    for section in align([one.keys for one in compared]):
        if not section.common:
            continue
        members = [index for index, (start, stop) in enumerate(section.spans) if stop > start]
        for cut in cuts:
            spans = [(cut[index], *section.spans[index]) for index in members]
            done = max(min(at, stop) - start for at, start, stop in spans)
            for index in members if done > 0 else ():
                cut[index] = max(cut[index], section.spans[index][0] + done)
    return cuts


def _between(
    compared: Sequence[ComparedEntries], starts: Sequence[int], stops: Sequence[int]
) -> Iterator[Section]:
    """Yield the sections of a part of each column."""
    parts = [one.keys[start:stop] for one, start, stop in zip(compared, starts, stops, strict=True)]
    for section in align(parts):
        spans = zip(starts, section.spans, strict=True)
        moved = tuple((first + start, first + stop) for first, (start, stop) in spans)
        yield section._replace(spans=moved)


class Note(NamedTuple):
    """A note of nbdist's own, and when it came."""

    text: str
    time: float


class Follower:
    """Output for a terminal: takes complete entries from the records, and returns those that need not wait."""

    def __init__(self, records: Sequence[ProcessOutput]) -> None:
        self._records = records
        self._pending: dict[int, list[Item]] = {record.process_id: [] for record in records}
        self._noted = 0

    def take(self, notes: Sequence[Note], now: float, *, final: bool) -> tuple[Block, ...]:
        """Return the next blocks; entries that came before a note are before it."""
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

    def _compared(self, record: ProcessOutput, before: float) -> ComparedEntries:
        pending = self._pending[record.process_id]
        entries = [item.entry for item in pending if item.time <= before]
        keys: list[Hashable] = [
            ("display", entry.digest) if isinstance(entry, Display) else entry.key
            for entry in entries
        ]
        keys = whole_tracebacks(entries, keys)
        # Printed text stays: no process counts as merely behind.
        return ComparedEntries(record.process_id, entries, keys, finished=True, settled=len(keys))

    def _complete(self, sections: Sequence[Section], compared: Sequence[ComparedEntries]) -> int:
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
