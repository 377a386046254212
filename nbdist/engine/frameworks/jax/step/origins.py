"""Where each array on several processes comes from: what it is the same by on all of them.

An array has no name that all processes know. By its origin two processes see whether what they have under one name
is one array, or two that only look alike.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from typing import Any

from nbdist.contract.calls.stepping import Origin

UNKNOWN: Origin = (0, 0, "")
"""Of an array that no program computed, and no path led to."""


FRESH = 64
"""Outputs of so many programs are kept as they come, before those that no longer exist are dropped."""

MANY = 10_000
"""From so many arrays on, those that no longer exist are looked for whenever their number has doubled."""


class Origins:
    """The origin of every living array that is known; keeps none of them alive.

    A training step gives a thousand arrays an origin, and its next turn drops them all: what is written at each
    program is one list of weak references, and nothing is called when an array ends.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[Any], Origin]] = {}
        self._fresh: list[tuple[int, int, list[weakref.ref[Any] | None]]] = []
        self._limit = MANY

    def computed(self, outputs: Sequence[Any], generation: int, serial: int) -> None:
        """A program has computed these arrays; the first origin of an array stays."""
        self._fresh.append((generation, serial, list(map(weakref.ref, outputs))))
        if len(self._fresh) >= FRESH:
            alive = [(g, s, [_alive(r) for r in references]) for g, s, references in self._fresh]
            self._fresh = [one for one in alive if any(one[2])]
            if len(self._fresh) >= FRESH // 2:
                self._settle()

    def note(self, array: Any, origin: Origin) -> None:
        """An array comes from there; the first origin of an array stays."""
        if array not in self:
            self._known[id(array)] = (weakref.ref(array), origin)

    def move(self, old: Any, new: Any) -> None:
        """`new` stands for `old`."""
        if old in self:
            self.note(new, self._known[id(old)][1])

    def forget(self, generation: int, after: int) -> None:
        """Nothing is known any more of what later programs of this generation have computed."""
        self._settle()
        self._known = {
            key: one
            for key, one in self._known.items()
            if not (one[1][0] == generation and one[1][1] > after)
        }

    def of(self, array: Any) -> Origin:
        """Where an array comes from; of a typed PRNG key that is not known, where what it holds comes from."""
        if array not in self:
            array = getattr(array, "_base_array", array)
        return self._known[id(array)][1] if array in self else UNKNOWN

    def __contains__(self, array: Any) -> bool:
        self._settle()
        known = self._known.get(id(array))
        return known is not None and known[0]() is array

    def __iter__(self) -> Iterator[tuple[Any, Origin]]:
        """Living arrays, each with its origin."""
        self._settle()
        for reference, origin in list(self._known.values()):
            array = reference()
            if array is not None:
                yield array, origin

    def _settle(self) -> None:
        """Gives what was computed since the last time its place."""
        if not self._fresh:
            return
        fresh, self._fresh = self._fresh, []
        for generation, serial, references in fresh:
            for number, reference in enumerate(references):
                array = reference() if reference is not None else None
                if reference is None or array is None:
                    continue
                known = self._known.get(id(array))
                # Another array may have had its place in memory.
                if known is None or known[0]() is not array:
                    self._known[id(array)] = (reference, (generation, serial, str(number)))
        if len(self._known) > self._limit:
            self._known = {key: one for key, one in self._known.items() if one[0]() is not None}
            self._limit = max(MANY, 2 * len(self._known))


def _alive(reference: weakref.ref[Any] | None) -> weakref.ref[Any] | None:
    return reference if reference is not None and reference() is not None else None
