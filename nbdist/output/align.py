"""Where several sequences say the same, and where each its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import NamedTuple

_WINDOWS = (8, 64, 512)
_DROPS = 4

Keys = Sequence[Hashable]


class Section(NamedTuple):
    """A piece of the aligned sequences: one half-open `(start, stop)` for each.

    In a `common` section all spans that are not empty hold the same keys. `members` are the
    sequences the section is about; the others' spans in it are empty.
    """

    common: bool
    spans: tuple[tuple[int, int], ...]
    members: tuple[int, ...]


def align(columns: Sequence[Keys]) -> list[Section]:
    """Cuts sequences into sections, so that what they share stands in common ones.

    The sections of a sequence, one after the other, are the whole sequence. Sequences meet again
    at the nearest key that all have, within 512 entries. Where there is none, those that have
    least in common with the others are set apart and aligned among themselves.
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
    """Number of next keys that are the same in all live columns."""
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
    """Positions up to which the live columns differ, and those of them to be set apart there."""
    meeting = list(live)
    apart: list[int] = []
    while len(meeting) > 1 and len(apart) <= _DROPS:
        offsets = _nearest(columns, at, meeting)
        if offsets is not None:
            # What stands apart has as many of its entries beside those before the meeting.
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
    """Offsets of a key that all live columns have, with the least sum; None without one."""
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
        # Empty lines are everywhere; to meet at one would tear apart what belongs together.
        if not (isinstance(key, str) and not key.strip()):
            places.setdefault(key, offset)
    return places


def _loner(columns: Sequence[Keys], at: Sequence[int], live: Sequence[int]) -> int:
    """The column with the fewest keys that another one has too; of several the shortest."""
    keys = {index: set(columns[index][at[index] : at[index] + _WINDOWS[-1]]) for index in live}
    holders = Counter(key for held in keys.values() for key in held)

    def shared(index: int) -> tuple[int, int]:
        return sum(holders[key] > 1 for key in keys[index]), len(columns[index]) - at[index]

    return min(live, key=shared)
