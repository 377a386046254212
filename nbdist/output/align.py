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

    In a `common` section all spans that are not empty hold the same keys.
    """

    common: bool
    spans: tuple[tuple[int, int], ...]


def align(columns: Sequence[Keys]) -> list[Section]:
    """Cuts sequences into sections, so that what they share stands in common ones.

    The sections of a sequence, one after the other, are the whole sequence. Sequences that have
    ended take no part in later sections. Two sequences meet again at the pair of equal keys that
    is nearest, within 512 entries.
    """
    at = [0] * len(columns)
    sections: list[Section] = []
    while live := [index for index in range(len(columns)) if at[index] < len(columns[index])]:
        run = _run(columns, at, live)
        if run:
            stops = [at[index] + run if index in live else at[index] for index in range(len(at))]
        else:
            stops = _next_meeting(columns, at, live)
        sections.append(Section(run > 0, tuple(zip(at, stops, strict=True))))
        at = stops
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


def _next_meeting(columns: Sequence[Keys], at: Sequence[int], live: Sequence[int]) -> list[int]:
    """Positions up to which the live columns differ.

    Where they have nothing in common any more, the column that shares least with the others is
    taken to its end and the others are tried without it.
    """
    stops = list(at)
    meeting = list(live)
    for _ in range(_DROPS):
        if len(meeting) < 2:
            break
        offsets = _nearest(columns, at, meeting)
        if offsets is not None:
            for index, offset in zip(meeting, offsets, strict=True):
                stops[index] = at[index] + offset
            return stops
        loner = _loner(columns, at, meeting)
        meeting.remove(loner)
        stops[loner] = len(columns[loner])
    for index in live:
        stops[index] = len(columns[index])
    return stops


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
