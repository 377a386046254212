"""Widgets that several processes have displayed: which of them are the same, and what stands for those."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import NamedTuple

from nbdist.view.output.entries import Display, parse_bar, without_addresses
from nbdist.view.output.limits import FRESH_S
from nbdist.view.output.record import Column
from nbdist.view.widgets import LiveWidget
from nbdist.view.widgets.models import WidgetBar


class _Shown(NamedTuple):
    display: Display
    widget: LiveWidget
    finished: bool


def alike(columns: Sequence[Column], now: float) -> dict[int, Hashable]:
    """For each display of a widget, by its `id`, what it is compared by.

    Widgets are the same that were so when they were displayed, and are so now, or where one is about to become
    what the other is. Bars are the same, however far each is, as long as one of them goes on.
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
    """One display for those of several processes that are alike."""
    first = displays[0]
    text = without_addresses(first.text)
    one = Display({**first.data, "text/plain": text}, first.metadata, first.time)
    one.widgets = tuple(widget for display in displays for widget in display.widgets)
    return one


def slowest_bar(widgets: Sequence[LiveWidget]) -> WidgetBar | None:
    """Of bars the one that is furthest behind, which is open as long as one is; None of other widgets.

    Of those that are equally far it is the one that came there last.
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
    """Whether it is a bar at which a process still is."""
    bar = None if shown.finished else shown.widget.bar
    return bar is not None and bar.open
