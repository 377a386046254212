"""Which objects stand for which, and who refers to those that are to be replaced."""

from __future__ import annotations

import gc
import itertools
from collections.abc import Callable, Iterable, KeysView, Sequence
from typing import Any

FEW = 300
"""The referrers of so many objects are found faster by the garbage collector itself, which compares every
reference in the heap with each of them (20 ms for a few among 150,000 objects, where the other way takes 200)."""


class Twins:
    """Which new object stands for which old one; keeps the old ones alive, so that their ids stay theirs."""

    def __init__(self) -> None:
        self._new: dict[int, Any] = {}
        self._old: list[Any] = []
        self._hidden: list[Any] | None = None

    def __len__(self) -> int:
        return len(self._new)

    def __contains__(self, old: Any) -> bool:
        return id(old) in self._new

    def add(self, old: Any, new: Any) -> None:
        """`new` will stand for `old`."""
        self._new[id(old)] = new
        self._old.append(old)

    def of(self, value: Any) -> Any:
        """The twin of a value, or the value itself."""
        return self._new.get(id(value), value)

    @property
    def ids(self) -> KeysView[int]:
        """Of all that have a twin."""
        return self._new.keys()

    def any_in(self, values: Iterable[Any]) -> bool:
        """Whether one of the values has a twin."""
        return not self._new.keys().isdisjoint(map(id, values))

    def holders(self) -> list[Any]:
        """The objects that refer to an old one, but for what this module itself keeps."""
        hidden = self.hidden_holders()
        return [*referrers(self._old, self._new, self._hidden, self), *hidden]

    def hidden_holders(self) -> list[Any]:
        """Those of which the garbage collector knows nothing."""
        if self._hidden is None:
            self._hidden = hidden_arrays()
        return [array for array in self._hidden if self.any_in(array.flat)]


def referrers(values: Sequence[Any], *own: Any) -> list[Any]:
    """What refers to any of these values, as far as the garbage collector knows.

    `values` itself is left out, and so is what else the caller keeps them in: its `own`.
    """
    kept = {id(values), *map(id, own)}
    if len(values) <= FEW:
        arguments = tuple(values)  # itself a referrer
        referring = gc.get_referrers(*arguments)
        return [found for found in referring if found is not arguments and id(found) not in kept]
    ids = frozenset(map(id, values))
    return [
        found
        for found in gc.get_objects()
        if not ids.isdisjoint(map(id, gc.get_referents(found))) and id(found) not in kept
    ]


def objects_of(wanted: Callable[[type], bool]) -> list[Any]:
    """All objects that the garbage collector knows and whose class is wanted; each class is asked about once."""
    found = []
    asked: dict[int, bool] = {}  # by id, since a metaclass may define `__hash__` and `__eq__`
    for one in gc.get_objects():
        kind = type(one)
        known = asked.get(id(kind))
        if known is None:
            known = asked[id(kind)] = wanted(kind)
        if known:
            found.append(one)
    return found


def hidden_arrays() -> list[Any]:
    """Arrays of objects, such as of devices: the garbage collector knows none of them.

    They are found as what others refer to, which may be a dict or a tuple of nothing but arrays: it knows nothing
    of these either.
    """
    import numpy

    kinds = frozenset(map(id, (numpy.ndarray, dict, tuple)))
    seen: set[int] = set()
    found: list[Any] = []
    inside = gc.get_referents(*gc.get_objects())
    while inside:
        unknown = []
        # A million references: as little of a loop of Python's as can be.
        for value in itertools.filterfalse(gc.is_tracked, inside):
            # By id, since a metaclass may define `__hash__` and `__eq__`.
            if id(type(value)) in kinds and id(value) not in seen:
                seen.add(id(value))
                unknown.append(value)
        arrays = [one for one in unknown if type(one) is numpy.ndarray and one.dtype == object]
        found += arrays
        inside = [*gc.get_referents(*unknown), *(value for one in arrays for value in one.flat)]
    return found
