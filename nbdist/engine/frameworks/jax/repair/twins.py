"""Twins: the new objects that replace old ones, and the objects that refer to the old ones."""

from __future__ import annotations

import gc
from collections.abc import Iterable, KeysView, Sequence
from typing import Any

from nbdist.engine.frameworks.jax.repair.survey import Survey, objects

FEW = 300
"""Up to this number of objects, `gc.get_referrers` is faster than a walk over the heap, although it compares every
reference in the heap with each object (20 ms for a few among 150,000 objects, where the walk takes 200 ms)."""


class Twins:
    """Map from old objects to the new ones that replace them; keeps the old ones alive, so that ids stay unique.

    Attributes:
      survey: The result of a walk over the heap.
      new: The new objects, in the order in which they were added.
    """

    def __init__(self) -> None:
        self.survey = Survey()
        self.new: list[Any] = []
        self._new: dict[int, Any] = {}
        self._old: list[Any] = []

    def __len__(self) -> int:
        return len(self._new)

    def __contains__(self, old: Any) -> bool:
        return id(old) in self._new

    def add(self, old: Any, new: Any) -> None:
        """Make `new` the twin that replaces `old`."""
        self._new[id(old)] = new
        self._old.append(old)
        self.new.append(new)

    def of(self, value: Any) -> Any:
        """Return the twin of a value; the value itself if it has none."""
        return self._new.get(id(value), value)

    @property
    def ids(self) -> KeysView[int]:
        """The ids of all objects that have a twin."""
        return self._new.keys()

    def any_in(self, values: Iterable[Any]) -> bool:
        """Return whether one of the values has a twin."""
        return not self._new.keys().isdisjoint(map(id, values))

    def holders(self) -> list[Any]:
        """Return the objects that refer to an old one, except the containers of this object."""
        hidden = self.hidden_holders()
        return [*self.referrers(self._old), *hidden]

    def hidden_holders(self) -> list[Any]:
        """Return the arrays of objects that refer to an old one; the garbage collector does not know these."""
        return [array for array in self.survey.arrays if self.any_in(array.flat)]

    def referrers(self, values: Sequence[Any], *own: Any) -> list[Any]:
        """Return the objects known to the garbage collector that refer to any of these values.

        `values` itself is left out, and so are `own`, the other containers in which the caller keeps the values.
        """
        lists = (self._new, self._old, self.new, self.survey.arrays, self.survey.wanted)
        kept = {id(values), id(self), *map(id, lists), *map(id, own)}
        if len(values) <= FEW:
            arguments = tuple(values)  # is a referrer itself, and left out below
            referring = gc.get_referrers(*arguments)
            return [
                found for found in referring if found is not arguments and id(found) not in kept
            ]
        ids = frozenset(map(id, values))
        return [
            found
            for chunk in objects()
            for found in chunk
            if not ids.isdisjoint(map(id, gc.get_referents(found))) and id(found) not in kept
        ]
