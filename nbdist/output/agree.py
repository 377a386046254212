"""Entries of different processes that count as the same while a cell still runs.

Processes are never at exactly the same place. What only says that one is a little ahead of
another must not make their output flicker between one and many.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace

from nbdist import summary
from nbdist.output.entries import Display, Entry, Line, without_addresses
from nbdist.output.record import Column
from nbdist.output.widgets import alike, joined

FRESH_S = 2.0
"""For so long a process that lacks a line is taken to be merely behind."""

_NEAR = 64


def settle_for(columns: Sequence[Column], now: float) -> list[Column]:
    """The columns as they are compared: a process merely behind shows what those ahead show."""
    columns = [_without_cleared(column, columns, now) for column in columns]
    columns = _share_floods(columns, now)
    return [_without_partial(column, columns, now) for column in columns]


def keys(columns: Sequence[Column], now: float) -> list[list[Hashable]]:
    """For each entry what it is compared by; for each column a list of them.

    Bars are compared by the place they have among the bars of the same kind as long as one
    process is still at it, displays likewise while they are being updated, and all else by content.
    """
    unfinished = [column for column in columns if not column.finished]
    open_bars = {key for column in unfinished for entry, key in _bars(column.entries) if entry.open}
    updating = _updating(columns) if unfinished else set()
    widgets = alike(columns, now)
    return [list(_keys(column, open_bars, updating, widgets)) for column in columns]


def choose(entries: Sequence[Entry]) -> Entry:
    """Of entries that count as the same, the one to show: of bars that of the slowest process."""
    first = entries[0]
    if isinstance(first, Display):
        displays = [entry for entry in entries if isinstance(entry, Display)]
        if first.widgets:
            return joined(displays)
        parts = [display.part for display in displays if display.part is not None]
        if len(parts) == len(displays):
            return Display({"text/plain": summary.text(parts)}, {}, first.time)
        return max(displays, key=lambda display: display.updates)
    if not isinstance(first, Line) or len(entries) == 1:
        return first
    if first.bar is not None:
        bars = [entry for entry in entries if isinstance(entry, Line) and entry.bar is not None]
        return min(bars, key=lambda entry: entry.bar.progress if entry.bar else 0.0)
    if any(entry.text != first.text for entry in entries if isinstance(entry, Line)):
        # Only the addresses of results are outside the key.
        return first._replace(text=without_addresses(first.text))
    return first


def is_behind(short: Sequence[Entry], long: Sequence[Entry], now: float) -> bool:
    """Whether a process that has less, all of it equal, may still be about to put out the rest."""
    return len(short) >= len(long) or now - long[len(short)].time < FRESH_S


def _bars(entries: Sequence[Entry]) -> Iterator[tuple[Line, Hashable]]:
    seen: Counter[str] = Counter()
    for entry in entries:
        if isinstance(entry, Line) and entry.bar is not None:
            skeleton = entry.bar.skeleton
            yield entry, ("bar", skeleton, seen[skeleton])
            seen[skeleton] += 1


def _updating(columns: Sequence[Column]) -> set[int]:
    """Numbers of the displays that some processes have changed more often than others."""
    updates: dict[int, set[int]] = {}
    for column in columns:
        displays = [entry for entry in column.entries if isinstance(entry, Display)]
        for number, display in enumerate(displays):
            updates.setdefault(number, set()).add(display.updates)
    return {number for number, counts in updates.items() if len(counts) > 1}


def _keys(
    column: Column,
    open_bars: set[Hashable],
    updating: set[int],
    widgets: Mapping[int, Hashable],
) -> Iterator[Hashable]:
    entries = column.entries
    bars = {id(entry): key for entry, key in _bars(entries)} if open_bars else {}
    displays = 0
    for entry in entries:
        if isinstance(entry, Display):
            content = displays if displays in updating else entry.digest
            yield widgets.get(id(entry)) or ("display", content)
            displays += 1
        elif bars.get(id(entry)) in open_bars:
            yield bars[id(entry)]
        else:
            yield entry.key


def _without_cleared(column: Column, columns: Sequence[Column], now: float) -> Column:
    """Empties the column of a process that is about to clear its output, as others just did."""
    ahead = max(columns, key=lambda other: other.generation)
    cleared_more = ahead.generation - column.generation
    if column.finished or not cleared_more or cleared_more > len(ahead.clears):
        return column
    if now - ahead.clears[-cleared_more] > FRESH_S:
        return column
    return replace(column, head=(), gap=None, rest=(), marks=(0,) * len(column.marks), floating=0)


def _share_floods(columns: Sequence[Column], now: float) -> list[Column]:
    """Gives floods that say the same one gap, and while they run one tail."""
    leaders: list[tuple[Column, dict[int, bytes]]] = []
    shared = {}
    for column in sorted(columns, key=lambda column: column.count, reverse=True):
        if column.gap is None:
            continue
        followed = (one for one, digests in leaders if _follows(column, one, digests, now))
        leader = next(followed, None)
        if leader is None:
            gap = column.gap._replace(key=f"gap {column.process_id}")
            leader = replace(column, gap=gap)
            digests = {check.position: check.digest for check in column.checkpoints}
            leaders.append((leader, digests))
        rest = column.rest if column.finished else leader.rest
        floating = column.floating if column.finished else leader.floating
        shared[column.process_id] = replace(column, gap=leader.gap, rest=rest, floating=floating)
    return [shared.get(column.process_id, column) for column in columns]


def _follows(column: Column, leader: Column, digests: dict[int, bytes], now: float) -> bool:
    if len(column.head) != len(leader.head):
        return False
    if column.finished:
        return (column.count, column.digest) == (leader.count, leader.digest)
    known = (check for check in reversed(column.checkpoints) if check.position in digests)
    newest = next(known, None)
    if newest is not None and newest.digest != digests[newest.position]:
        return False
    old = [check.position for check in leader.checkpoints if now - check.time > FRESH_S]
    return not old or column.count >= old[-1]


def _without_partial(column: Column, columns: Sequence[Column], now: float) -> Column:
    """Leaves out a line that is being written and so far is as far as others have it."""
    last = column.rest[-1] if column.rest else None
    if column.finished or not isinstance(last, Line) or not last.open or last.bar is not None:
        return column
    if now - last.time > FRESH_S:
        return column
    for other in columns:
        if other is not column and any(
            isinstance(entry, Line) and entry.key.startswith(last.text) and entry.key != last.text
            for entry in other.entries[-_NEAR:]
        ):
            return replace(column, rest=column.rest[:-1])
    return column
