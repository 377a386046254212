"""Origins of arrays on several processes, by which all processes can identify an array.

An array has no name that all processes know. By its origin two processes see whether the arrays that they have
under one name are one array, or two that only look alike.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from typing import Any

from nbdist.contract.calls.stepping import Origin

UNKNOWN: Origin = (0, 0, "")
"""Origin of an array that no program computed, and no path led to."""

_Table = dict[int, tuple[weakref.ref[Any], Origin]]
"""Arrays and their origins, by the `id` of the array."""

FRESH = 64
"""Number of programs whose outputs are kept as they come, before outputs that no longer exist are dropped."""

MANY = 10_000
"""Number of arrays from which on those that no longer exist are dropped, whenever the number has doubled."""


class Origins:
    """The known origins of living arrays; no array is kept alive.

    A training step gives a thousand arrays an origin, and the next step drops them all. So a program adds only one
    list of weak references, and nothing is called when an array ends.
    """

    def __init__(self) -> None:
        self._known: _Table = {}
        self._made: _Table = {}
        self._made_limit = MANY
        self._fresh: list[tuple[int, int, str, list[weakref.ref[Any] | None]]] = []
        self._limit = MANY

    def computed(
        self, outputs: Sequence[Any], generation: int, serial: int, within: str = ""
    ) -> None:
        """Note the program that has computed these arrays; the first origin of an array stays.

        Args:
          outputs: The arrays.
          generation: The number of the back end.
          serial: The serial of the newest program on all devices.
          within: Identifies a program that ran on some devices alone.
        """
        self._fresh.append((generation, serial, within, list(map(weakref.ref, outputs))))
        if len(self._fresh) >= FRESH:
            alive = [(*one[:3], [_alive(reference) for reference in one[3]]) for one in self._fresh]
            self._fresh = [one for one in alive if any(one[3])]
            if len(self._fresh) >= FRESH // 2:
                self._settle()

    def made(self, array: Any, origin: Origin) -> None:
        """Note the origin of an array made of values on the host; a path that is noted later takes precedence."""
        self._made[id(array)] = weakref.ref(array), origin
        if len(self._made) > self._made_limit:
            self._made = _living(self._made)
            self._made_limit = max(MANY, 2 * len(self._made))

    def paths_noted(self) -> None:
        """Drop the origins of `made`, since every living array has another one by now."""
        self._made.clear()

    def note(self, array: Any, origin: Origin) -> None:
        """Note the origin of an array; its first origin stays."""
        if array not in self:
            self._known[id(array)] = (weakref.ref(array), origin)

    def move(self, old: Any, new: Any) -> None:
        """Give `new` the origin of `old`, which it replaces."""
        origin = self.of(old)
        if origin != UNKNOWN or old in self:
            self.note(new, origin)

    def forget(self, generation: int, after: int) -> None:
        """Forget the origins of arrays computed in this generation by programs with a serial above `after`."""
        self._settle()
        for table in (self._known, self._made):
            for key, (_, origin) in list(table.items()):
                if origin[0] == generation and origin[1] > after:
                    del table[key]

    def of(self, array: Any) -> Origin:
        """Return the origin of an array; for a typed PRNG key without one, the origin of the array it holds."""
        self._settle()
        for table in (self._known, self._made):
            for one in (array, getattr(array, "_base_array", array)):
                if (origin := _found(table, one)) is not None:
                    return origin
        return UNKNOWN

    def __contains__(self, array: Any) -> bool:
        """Return whether an array's origin stays: a program has computed the array, or a path to it was noted."""
        self._settle()
        return _found(self._known, array) is not None

    def __iter__(self) -> Iterator[tuple[Any, Origin]]:
        """Yield living arrays with their origins; those of `made` with serial 0, as by threads, are left out."""
        self._settle()
        made = [one for one in self._made.values() if one[1][1] > 0]
        for reference, origin in [*self._known.values(), *made]:
            array = reference()
            if array is not None:
                yield array, origin

    def _settle(self) -> None:
        """Give an origin to the outputs noted since the last call."""
        if not self._fresh:
            return
        fresh, self._fresh = self._fresh, []
        for generation, serial, within, references in fresh:
            for number, reference in enumerate(references):
                array = reference() if reference is not None else None
                if (
                    reference is not None
                    and _found(self._known, array) is None
                    and array is not None
                ):
                    self._known[id(array)] = reference, (generation, serial, f"{within}{number}")
        if len(self._known) > self._limit:
            self._known = _living(self._known)
            self._limit = max(MANY, 2 * len(self._known))


def _found(table: _Table, array: Any) -> Origin | None:
    reference, origin = table.get(id(array), (None, None))
    # Another array may have had the same id before.
    return origin if reference is not None and reference() is array else None


def _living(table: _Table) -> _Table:
    return {key: one for key, one in table.items() if one[0]() is not None}


def _alive(reference: weakref.ref[Any] | None) -> weakref.ref[Any] | None:
    return reference if reference is not None and reference() is not None else None
