"""The columns of many processes as one sequence of blocks."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import NamedTuple

from nbdist.output.agree import choose, is_behind, keys, settle_for
from nbdist.output.align import Section, align
from nbdist.output.blocks import Block, Builder
from nbdist.output.entries import Entry
from nbdist.output.record import Column


class Group(NamedTuple):
    """Processes and the entries they have in common in one section."""

    processes: tuple[int, ...]
    entries: list[Entry]


class Compared(NamedTuple):
    """One process's entries, what each is compared by, and whether more may come."""

    process_id: int
    entries: list[Entry]
    keys: list[Hashable]
    finished: bool


def fold(columns: Sequence[Column], notes: Sequence[str], now: float) -> tuple[Block, ...]:
    """What all processes have put out, each line and each display once for those that agree.

    Lines that differ stand by process, between those that are the same. The order of each
    process's entries is kept; `notes` stand where they came. Costs time in proportion to what
    the columns hold.
    """
    settled = settle_for(columns, now)
    compared = [
        Compared(column.process_id, column.entries, its_keys, column.finished)
        for column, its_keys in zip(settled, keys(settled), strict=True)
    ]
    sections = align([one.keys for one in compared])
    marks = [[column.marks[number] for column in settled] for number in range(len(notes))]
    builder = Builder()
    for piece in _with_notes(sections, marks):
        if isinstance(piece, int):
            builder.note(notes[piece])
        else:
            for group in groups(piece, compared, now):
                builder.add(group.processes, group.entries)
    return builder.blocks()


def groups(section: Section, compared: Sequence[Compared], now: float) -> list[Group]:
    """The groups of a section, that of the lowest process first.

    A process that may still put out the same, its entries so far being the first of a group's,
    belongs to that group.
    """
    alike: dict[tuple[Hashable, ...], list[int]] = {}
    waiting: list[int] = []
    for index, (start, stop) in enumerate(section.spans):
        one = compared[index]
        if stop == len(one.keys) and not one.finished:
            waiting.append(index)
        if stop > start:
            alike.setdefault(tuple(one.keys[start:stop]), []).append(index)
    parts = [
        one.entries[start:stop] for one, (start, stop) in zip(compared, section.spans, strict=True)
    ]
    _join_those_behind(alike, parts, waiting, now)
    found = []
    for members in alike.values():
        members.sort(key=lambda index: compared[index].process_id)
        entries = _chosen([parts[index] for index in members])
        found.append(Group(tuple(compared[index].process_id for index in members), entries))
    return sorted(found, key=lambda group: group.processes)


def _join_those_behind(
    alike: dict[tuple[Hashable, ...], list[int]],
    parts: Sequence[list[Entry]],
    waiting: Sequence[int],
    now: float,
) -> None:
    for index in waiting:
        own = next((keys for keys, members in alike.items() if index in members), ())
        longer = [keys for keys in alike if len(keys) > len(own) and keys[: len(own)] == own]
        if len(longer) != 1:
            # Of several that go on differently nobody knows which it will follow.
            continue
        if not is_behind(parts[index], parts[alike[longer[0]][0]], now):
            continue
        alike[longer[0]].append(index)
        if own:
            alike[own].remove(index)
            if not alike[own]:
                del alike[own]


def _chosen(parts: Sequence[list[Entry]]) -> list[Entry]:
    longest = max(parts, key=len)
    if len(parts) == 1:
        return longest
    return [
        choose([part[offset] for part in parts if offset < len(part)])
        for offset in range(len(longest))
    ]


def _with_notes(
    sections: Sequence[Section], marks: Sequence[Sequence[int]]
) -> Iterator[Section | int]:
    """The sections, cut where notes stand, and the numbers of the notes between them."""
    note = 0
    for section in sections:
        rest = section
        while note < len(marks) and (cut := _cut(rest, marks[note])) is not None:
            first, rest = cut
            if any(stop > start for start, stop in first.spans):
                yield first
            yield note
            note += 1
        yield rest
    yield from range(note, len(marks))


def _cut(section: Section, mark: Sequence[int]) -> tuple[Section, Section] | None:
    """The section before and after a note; None where the note comes after all of it.

    In a common section the process that was furthest decides.
    """
    spans = section.spans
    if section.common:
        done = max(min(at, stop) - start for at, (start, stop) in zip(mark, spans, strict=True))
        cuts = [min(start + max(0, done), stop) for start, stop in spans]
    else:
        cuts = [min(max(at, start), stop) for at, (start, stop) in zip(mark, spans, strict=True)]
    if all(cut == stop for cut, (_, stop) in zip(cuts, spans, strict=True)):
        return None
    before = tuple((start, cut) for cut, (start, _) in zip(cuts, spans, strict=True))
    after = tuple((cut, stop) for cut, (_, stop) in zip(cuts, spans, strict=True))
    return Section(section.common, before), Section(section.common, after)
