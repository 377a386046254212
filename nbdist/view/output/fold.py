"""Folding of many processes' outputs into one sequence of blocks, from top to bottom, and its lines of text.

For a notebook the sequence is made anew at each refresh. A terminal cannot change what it has printed, so a
`Follower` returns each output once, in an order that never changes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, NamedTuple

from nbdist.notation import processes_text
from nbdist.view.output.agree import Section, align, choose, keys, settle_for, whole_tracebacks
from nbdist.view.output.bounded_log import HOLD_S, Item
from nbdist.view.output.entries import Display, Entry, Line
from nbdist.view.output.record import Column, ProcessOutput
from nbdist.view.widgets import LiveWidget


@dataclass(frozen=True, slots=True, kw_only=True)
class TextBlock:
    """Lines that are equal on all of `processes`, without line ends, with their ANSI colors.

    A `continued` block follows one of the same processes and needs no label of its own.
    """

    processes: tuple[int, ...]
    lines: tuple[str, ...]
    continued: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RichBlock:
    """A MIME bundle that is equal on all of `processes`. Equal bundles have one `digest`.

    `widgets` are the widgets of the processes for which it stands, if any.
    """

    processes: tuple[int, ...]
    data: Mapping[str, Any]
    metadata: Mapping[str, Any]
    digest: str
    continued: bool = False
    widgets: tuple[LiveWidget, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteBlock:
    """A line of nbdist's own between the outputs."""

    text: str


Block = TextBlock | RichBlock | NoteBlock


class Builder:
    """Builder of blocks from entries; consecutive lines of the same processes make one block."""

    def __init__(self) -> None:
        self._blocks: list[Block | _Text] = []

    def add(self, processes: tuple[int, ...], entries: Sequence[Entry]) -> None:
        """Append entries that these processes have in common."""
        wrapped = ""
        for entry, following in zip_longest(entries, entries[1:]):
            if isinstance(entry, Display):
                if not entry.taken_away:
                    self._blocks.append(self._rich(processes, entry))
                continue
            wrapped += entry.text
            if not (isinstance(entry, Line) and entry.wrapped and isinstance(following, Line)):
                self._text(processes).lines.append(wrapped)
                wrapped = ""

    def note(self, text: str) -> None:
        """Append a note."""
        self._blocks.append(NoteBlock(text=text))

    def blocks(self) -> tuple[Block, ...]:
        """Return the blocks so far."""
        return tuple(one.block() if isinstance(one, _Text) else one for one in self._blocks)

    def _text(self, processes: tuple[int, ...]) -> _Text:
        last = self._blocks[-1] if self._blocks else None
        if isinstance(last, _Text) and last.processes == processes:
            return last
        text = _Text(processes, [], self._continues(processes))
        self._blocks.append(text)
        return text

    def _rich(self, processes: tuple[int, ...], display: Display) -> RichBlock:
        return RichBlock(
            processes=processes,
            data=display.data,
            metadata=display.metadata,
            digest=display.digest,
            continued=self._continues(processes),
            widgets=display.widgets,
        )

    def _continues(self, processes: tuple[int, ...]) -> bool:
        last = self._blocks[-1] if self._blocks else None
        return isinstance(last, _Text | RichBlock) and last.processes == processes


@dataclass(slots=True)
class _Text:
    processes: tuple[int, ...]
    lines: list[str]
    continued: bool

    def block(self) -> TextBlock:
        return TextBlock(
            processes=self.processes, lines=tuple(self.lines), continued=self.continued
        )


Name = Callable[[Sequence[int]], str]
"""A function that words the label of some processes' output, such as `processes 0–3`."""

_WIDEST = 40
"""The most characters to which labels are padded."""

_SPACE = "   "


class LabelledLines(NamedTuple):
    """Lines, and the processes named by the label above the last line, if there is one."""

    lines: list[str]
    label: tuple[int, ...] | None


def lay_out(
    blocks: Sequence[Block],
    *,
    muted: Callable[[str], str],
    label: tuple[int, ...] | None = None,
    name: Name = processes_text,
) -> LabelledLines:
    """Return the lines of blocks; of a rich block, only its label.

    A single line follows its label on the same line; several lines are below theirs. Labels of neighboring single
    lines are padded to one width, up to 40 characters. `label` is the label of the lines before these, and is not
    repeated. `name` returns the text of a label, and `muted` colors it.
    """
    lines: list[str] = []
    for index, block in enumerate(blocks):
        if isinstance(block, NoteBlock):
            lines += block.text.split("\n")
            label = None
            continue
        own = list(block.lines) if isinstance(block, TextBlock) else []
        if block.continued or block.processes == label:
            lines += own
        elif len(own) == 1:
            width = _width(blocks, index, name)
            text = name(block.processes)
            lines.append(f"{muted(text)}{' ' * (width - len(text))}{_SPACE}{own[0]}")
            label = None
        else:
            lines += [muted(name(block.processes)), *own]
            label = block.processes
    return LabelledLines(lines, label)


def _width(blocks: Sequence[Block], index: int, name: Name) -> int:
    """Return the label width shared by all single lines next to this block."""
    first = last = index
    while first > 0 and _single(blocks[first - 1]):
        first -= 1
    while last + 1 < len(blocks) and _single(blocks[last + 1]):
        last += 1
    own = len(_label(blocks[index], name))
    widths = [len(_label(block, name)) for block in blocks[first : last + 1]]
    return max(own, *(width for width in widths if width <= _WIDEST), 0)


def _single(block: Block) -> bool:
    return isinstance(block, TextBlock) and len(block.lines) == 1 and not block.continued


def _label(block: Block, name: Name) -> str:
    return "" if isinstance(block, NoteBlock) else name(block.processes)


class Group(NamedTuple):
    """Processes and the entries they have in common in one section."""

    processes: tuple[int, ...]
    entries: list[Entry]


class ComparedEntries(NamedTuple):
    """One process's entries, the key of each, and whether more may come.

    New entries come after the first `settled` ones: bars that are being redrawn stay below them.
    """

    process_id: int
    entries: list[Entry]
    keys: list[Hashable]
    finished: bool
    settled: int


def fold(columns: Sequence[Column], notes: Sequence[str], now: float) -> tuple[Block, ...]:
    """Return the output of all processes; each line and display stands once for the processes that agree on it.

    Lines that differ are listed by process, between those that are the same. The order of each process's entries
    is kept; `notes` are placed where they came. Takes time proportional to the size of the columns.
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
    """Return the groups of a section; the group with the lowest process comes first.

    If one process's entries are a prefix of another's, the rest may still come from the first process too. That
    rest is held back for `HOLD_S`, then shown for the processes that have it, so that no label names a process
    that has not put out the line.

    Args:
      section: The place of each process's entries.
      compared: The entries.
      now: The time in seconds, by the clock of the entries.
      held: Processes with entries held back further up, of which only bars are shown here; this call adds to it.
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
    """Add each process that may still produce the same entries as a group to that group."""
    owner = {index: keys for keys, members in alike.items() for index in members}
    for index in waiting:
        own = owner.get(index, ())
        longer = [keys for keys in alike if len(keys) > len(own) and keys[: len(own)] == own]
        if len(longer) != 1:
            # If several groups go on differently, it is not known which of them this process will follow.
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
    """Yield the entries that all members have, then those that all but the slowest have, and so on."""
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

    An entry stands above the note if it was there when the note came. Entries that several processes share count
    as soon as the process furthest ahead had them.
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
    """Yield the sections of the part of each column between `starts` and `stops`."""
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
    """Output for a terminal: takes complete entries from the records, and returns those that can be printed."""

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
        """Give entries up to the time `before`; entries that others may still produce, only up to `ripe`."""
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
        # Printed text cannot be changed, so no process is treated as merely behind.
        return ComparedEntries(record.process_id, entries, keys, finished=True, settled=len(keys))

    def _complete(self, sections: Sequence[Section], compared: Sequence[ComparedEntries]) -> int:
        """Return the number of sections that cannot grow: up to the last line that all processes have."""
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
