"""Which objects stand for which, and who refers to those that are to be replaced."""

from __future__ import annotations

import gc
from collections.abc import Iterable, KeysView, Sequence
from typing import Any

from nbdist.engine.frameworks.jax.repair.survey import Survey, objects

FEW = 300
"""The referrers of so many objects are found faster by the garbage collector itself, which compares every
reference in the heap with each of them (20 ms for a few among 150,000 objects, where the other way takes 200)."""


class Twins:
    """Which new object stands for which old one; keeps the old ones alive, so that their ids stay theirs.

    Attributes:
      survey: What a walk over the heap has found.
      new: What stands for others, oldest first.
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
        """`new` will stand for `old`."""
        self._new[id(old)] = new
        self._old.append(old)
        self.new.append(new)

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
        return [*self.referrers(self._old), *hidden]

    def hidden_holders(self) -> list[Any]:
        """Those of which the garbage collector knows nothing."""
        return [array for array in self.survey.arrays if self.any_in(array.flat)]

    def referrers(self, values: Sequence[Any], *own: Any) -> list[Any]:
        """What refers to any of these values, as far as the garbage collector knows.

        `values` itself is left out, and so is what else the caller keeps them in: its `own`.
        """
        lists = (self._new, self._old, self.new, self.survey.arrays, self.survey.wanted)
        kept = {id(values), id(self), *map(id, lists), *map(id, own)}
        if len(values) <= FEW:
            arguments = tuple(values)  # itself a referrer
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
