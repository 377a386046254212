"""Comparison of several processes' outputs: which entries are equal, and where the sequences match.

While a cell runs, processes are never at exactly the same place. Where one is only a little ahead of another,
their output must not flicker between one block and many.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from nbdist import summary
from nbdist.view.output.bounded_log import FRESH_S
from nbdist.view.output.entries import (
    Display,
    Entry,
    Line,
    digest_of_lines,
    parse_bar,
    without_addresses,
)
from nbdist.view.output.record import Column
from nbdist.view.widget_models import WidgetBar
from nbdist.view.widgets import LiveWidget

_NEAR = 64
"""The last entries of another process among which an unfinished line is looked for."""

_TRACEBACK = "Traceback (most recent call last):"


def settle_for(columns: Sequence[Column], now: float) -> list[Column]:
    """Return the columns to compare: a process that is a little ahead is shown as the others are."""
    columns = [_before_clear(column, columns, now) for column in columns]
    columns = _share_floods(columns, now)
    return [_without_partial(column, columns, now) for column in columns]


def keys(columns: Sequence[Column], now: float) -> list[list[Hashable]]:
    """Return for each column a list of keys, one for each entry, by which entries are compared.

    A progress bar is compared by its place among the bars of the same kind while a process is still at it, a
    display by its place while it is being updated, and everything else by content.
    """
    unfinished = [column for column in columns if not column.finished]
    open_bars = {key for column in unfinished for entry, key in _bars(column.entries) if entry.open}
    updating = _updating(columns) if unfinished else set()
    widgets = alike(columns, now)
    return [
        whole_tracebacks(column.entries, list(_keys(column, open_bars, updating, widgets)))
        for column in columns
    ]


def whole_tracebacks(entries: Sequence[Entry], keys: Sequence[Hashable]) -> list[Hashable]:
    """Return the entries' keys, changed so that printed tracebacks are equal only as a whole."""
    whole = list(keys)
    for begin, entry in enumerate(entries):
        if isinstance(entry, Line) and entry.text == _TRACEBACK:
            inside = itertools.takewhile(_is_indented, entries[begin + 1 :])
            end = begin + 1 + sum(1 for _ in inside) + 1  # and the line that names the error
            digest = digest_of_lines("\n".join(map(str, keys[begin:end])))
            whole[begin:end] = [(key, digest) for key in keys[begin:end]]
    return whole


def _is_indented(entry: Entry) -> bool:
    return isinstance(entry, Line) and entry.text.startswith(" ")


def choose(entries: Sequence[Entry]) -> Entry:
    """Return the entry to show for equal entries; if they change, the slowest process's entry."""
    first = entries[0]
    if isinstance(first, Display):
        displays = [entry for entry in entries if isinstance(entry, Display)]
        if first.widgets:
            return joined(displays)
        parts = [display.part for display in displays if display.part is not None]
        if len(parts) == len(displays):
            return Display({"text/plain": summary.text(parts)}, {}, first.time)
        return min(displays, key=lambda display: display.updates)
    if not isinstance(first, Line) or len(entries) == 1:
        return first
    if first.bar is not None:
        bars = [entry for entry in entries if isinstance(entry, Line) and entry.bar is not None]
        # Of bars that are equally far, take the one that got there last, with its own timings.
        return min(bars, key=lambda one: (one.bar.progress if one.bar else 0.0, -one.last))
    if any(entry.text != first.text for entry in entries if isinstance(entry, Line)):
        # The key leaves out nothing but the addresses in results.
        return first._replace(text=without_addresses(first.text))
    return first


def _bars(entries: Sequence[Entry]) -> Iterator[tuple[Line, Hashable]]:
    seen: Counter[str] = Counter()
    for entry in entries:
        if isinstance(entry, Line) and entry.bar is not None:
            skeleton = entry.bar.skeleton
            yield entry, ("bar", skeleton, seen[skeleton])
            seen[skeleton] += 1


def _updating(columns: Sequence[Column]) -> set[int]:
    """Return the numbers of the displays that some processes have changed more often than others."""
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


def _before_clear(column: Column, columns: Sequence[Column], now: float) -> Column:
    """Return what a process showed before it cleared its output, while others have not cleared theirs yet."""
    behind = min((other.generation for other in columns if not other.finished), default=None)
    cleared_more = 0 if behind is None else column.generation - behind
    if not 0 < cleared_more <= len(column.clears) or now - column.clears[-cleared_more] > FRESH_S:
        return column
    past = next((one for one in column.past if one.generation == behind), None)
    if past is None:
        return column
    end = (len(past.entries),) * (len(column.marks) - len(past.marks))
    return replace(past, marks=(*past.marks, *end))


def _share_floods(columns: Sequence[Column], now: float) -> list[Column]:
    """Give equal floods one gap and, while they run, the end of the flood that is furthest behind."""
    together: list[tuple[dict[int, bytes], list[Column]]] = []
    for column in sorted(columns, key=lambda column: column.count, reverse=True):
        if column.gap is None:
            continue
        followed = (flood for flood in together if _follows(column, flood[1][0], flood[0], now))
        flood = next(followed, None)
        if flood is None:
            digests = {check.position: check.digest for check in column.checkpoints}
            together.append((digests, [column]))
        else:
            flood[1].append(column)
    shared = {}
    for _, members in together:
        running = [column for column in members if not column.finished]
        last = min(running or members, key=lambda column: column.count)
        gap = last.gap and last.gap._replace(key=f"gap {members[0].process_id}")
        for column in members:
            shared[column.process_id] = (
                replace(column, gap=gap)
                if column.finished
                else replace(column, gap=gap, rest=last.rest, floating=last.floating)
            )
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
    """Leave out a partly written line if, so far, it agrees with the other processes' line."""
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


_WINDOWS = (8, 64, 512)
"""The numbers of next entries among which a meeting is looked for, one after the other."""

_DROPS = 4
"""The most sequences that are set apart for one meeting."""

Keys = Sequence[Hashable]


class Section(NamedTuple):
    """A piece of the aligned sequences: one half-open `(start, stop)` for each.

    In a `common` section all spans that are not empty hold the same keys. `members` are the sequences that the
    section is about; the spans of others are empty in it.
    """

    common: bool
    spans: tuple[tuple[int, int], ...]
    members: tuple[int, ...]


def align(columns: Sequence[Keys]) -> list[Section]:
    """Cut sequences into sections, so that shared keys are in `common` sections.

    The sections of a sequence, joined in order, are the whole sequence. After a difference, sequences meet again
    at the nearest key that all have, within 512 entries. If there is no such key, the sequences that share least
    with the others are set apart and aligned among themselves.
    """
    at = [0] * len(columns)
    clusters = [list(range(len(columns)))]
    sections: list[Section] = []
    while clusters:
        cluster = clusters.pop()
        live = [index for index in cluster if at[index] < len(columns[index])]
        if not live:
            continue
        run = _run(columns, at, live)
        stops = {index: at[index] + run for index in live}
        apart: list[int] = []
        if not run:
            stops, apart = _next_meeting(columns, at, live)
        spans = tuple((start, stops.get(index, start)) for index, start in enumerate(at))
        if any(start < stop for start, stop in spans):
            sections.append(Section(run > 0, spans, tuple(cluster)))
        at = [stop for _, stop in spans]
        others = [index for index in cluster if index not in apart]
        clusters += sorted((part for part in (others, apart) if part), reverse=True)
    return sections


def _run(columns: Sequence[Keys], at: Sequence[int], live: Sequence[int]) -> int:
    """Return how many of the next keys are equal in all live columns."""
    first, *others = live
    most = min(len(columns[index]) - at[index] for index in live)
    part = columns[first][at[first] : at[first] + most]
    for index in others:
        other = columns[index][at[index] : at[index] + len(part)]
        if other != part:
            pairs = enumerate(zip(part, other, strict=True))
            part = part[: next(offset for offset, (a, b) in pairs if a != b)]
    return len(part)


def _next_meeting(
    columns: Sequence[Keys], at: Sequence[int], live: Sequence[int]
) -> tuple[dict[int, int], list[int]]:
    """Return the positions up to which the live columns differ, and the columns to be set apart there."""
    meeting = list(live)
    apart: list[int] = []
    while len(meeting) > 1 and len(apart) <= _DROPS:
        offsets = _nearest(columns, at, meeting)
        if offsets is not None:
            # A column that is set apart has as many of its entries beside those before the meeting.
            aside = max(offsets)
            stops = {index: min(at[index] + aside, len(columns[index])) for index in apart}
            for index, offset in zip(meeting, offsets, strict=True):
                stops[index] = at[index] + offset
            return stops, apart
        loner = _loner(columns, at, meeting)
        meeting.remove(loner)
        apart.append(loner)
    return {index: len(columns[index]) for index in live}, []


def _nearest(
    columns: Sequence[Keys], at: Sequence[int], live: Sequence[int]
) -> tuple[int, ...] | None:
    """Return the offsets of a key that all live columns have, those with the least sum; None if there is none."""
    for window in _WINDOWS:
        places = [_first_places(columns[index], at[index], window) for index in live]
        shared = set(places[0]).intersection(*places[1:])
        if shared:
            meetings = (tuple(place[key] for place in places) for key in shared)
            return min(meetings, key=lambda offsets: (sum(offsets), offsets))
    return None


def _first_places(keys: Keys, start: int, window: int) -> dict[Hashable, int]:
    places: dict[Hashable, int] = {}
    for offset, key in enumerate(keys[start : start + window]):
        # Empty lines are everywhere: meeting at one would split output that belongs together.
        if not (isinstance(key, str) and not key.strip()):
            places.setdefault(key, offset)
    return places


def _loner(columns: Sequence[Keys], at: Sequence[int], live: Sequence[int]) -> int:
    """Return the column that shares the fewest keys with any other; of several, the shortest."""
    keys = {index: set(columns[index][at[index] : at[index] + _WINDOWS[-1]]) for index in live}
    holders = Counter(key for held in keys.values() for key in held)

    def shared(index: int) -> tuple[int, int]:
        return sum(holders[key] > 1 for key in keys[index]), len(columns[index]) - at[index]

    return min(live, key=shared)


class _Shown(NamedTuple):
    display: Display
    widget: LiveWidget
    finished: bool


def alike(columns: Sequence[Column], now: float) -> dict[int, Hashable]:
    """Return, by the `id` of each display of a widget, the key by which the display is compared.

    Widgets share a key if they were equal when displayed and are equal now, or if one is about to become equal to
    the other. Bars share a key, however far each is, as long as one of them is still running.
    """
    found: dict[int, Hashable] = {}
    for key, together in _born_alike(columns).items():
        going_on = any(_goes_on(shown) for shown in together)
        groups: list[list[LiveWidget]] = []
        for shown in together:
            same = (
                index
                for index, group in enumerate(groups)
                if going_on or all(_same(shown.widget, one, now) for one in group)
            )
            index = next(same, len(groups))
            if index == len(groups):
                groups.append([])
            groups[index].append(shown.widget)
            found[id(shown.display)] = ("widget", key, index)
    return found


def joined(displays: Sequence[Display]) -> Display:
    """Return one display that stands for equal displays of several processes."""
    first = displays[0]
    text = without_addresses(first.text)
    one = Display({**first.data, "text/plain": text}, first.metadata, first.time)
    one.widgets = tuple(widget for display in displays for widget in display.widgets)
    return one


def slowest_bar(widgets: Sequence[LiveWidget]) -> WidgetBar | None:
    """Return the bar that is furthest behind, open as long as any of them is; None for other widgets.

    Of bars that are equally far, it is the one that got there last.
    """
    bars = [(bar, widget.changed_at) for widget in widgets if (bar := widget.bar) is not None]
    if not bars:
        return None
    slowest, _ = min(bars, key=lambda one: (one[0].value, -one[1]))
    return slowest._replace(open=any(bar.open for bar, _ in bars))


def _born_alike(columns: Sequence[Column]) -> dict[Hashable, list[_Shown]]:
    found: dict[Hashable, list[_Shown]] = {}
    for column in columns:
        seen: Counter[bytes] = Counter()
        for entry in column.entries:
            if isinstance(entry, Display) and entry.widgets:
                widget = entry.widgets[0]
                key = widget.born, seen[widget.born]
                seen[widget.born] += 1
                found.setdefault(key, []).append(_Shown(entry, widget, column.finished))
    return found


def _same(one: LiveWidget, other: LiveWidget, now: float) -> bool:
    bars = one.bar, other.bar
    if bars[0] is not None and bars[1] is not None:
        return _without_timings(bars[0]) == _without_timings(bars[1])
    return one.agrees(other, now, FRESH_S)


def _without_timings(bar: WidgetBar) -> WidgetBar:
    found = parse_bar(bar.text)
    return bar if found is None else bar._replace(text=found.key)


def _goes_on(shown: _Shown) -> bool:
    """Return whether a display is a bar at which its process still works."""
    bar = None if shown.finished else shown.widget.bar
    return bar is not None and bar.open
