"""Heap of this process as a repair sees it: old objects, their twins, what refers to them, and tables to refill.

Finding all that refers to an object takes a walk over the whole heap, up to some tenths of a second, so a repair
makes as few walks as it can. Twins are the new objects that replace old ones; `become` re-points the references.
"""

from __future__ import annotations

import collections
import contextlib
import contextvars
import gc
import types
from collections.abc import Callable, Iterable, Iterator, KeysView, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

CHUNK = 300
"""Number of objects looked at in one step.

The objects that they refer to are then still in the processor's cache when their classes are read: 130 ms for a
million references; 200 ms in chunks of 30,000, or all at once.
"""


@dataclass(slots=True)
class Survey:
    """The objects that one walk over the heap has found.

    Attributes:
      wanted: Objects of the wanted classes.
      arrays: NumPy arrays of objects, for example of devices, which the garbage collector does not know.
    """

    wanted: list[Any] = field(default_factory=list)
    arrays: list[Any] = field(default_factory=list)


def survey(wanted: Callable[[type], bool]) -> Survey:
    """Find all objects of wanted classes, and all NumPy arrays of objects; `wanted` is called once for each class.

    The arrays are found through the objects that refer to them. Such an object may be a dict or a tuple with
    nothing but arrays, which the garbage collector does not know either.
    """
    found = Survey()
    asked: dict[int, bool] = {}
    seen: set[int] = set()
    unknown: list[Any] = []
    for chunk in objects():
        found.wanted += _of(chunk, wanted, asked)
        unknown += _unknown(gc.get_referents(*chunk), seen)
    while unknown:
        arrays = _arrays(unknown)
        found.arrays += arrays
        inside = [*gc.get_referents(*unknown), *(value for one in arrays for value in one.flat)]
        unknown = _unknown(inside, seen)
    return found


def objects() -> Iterator[list[Any]]:
    """Yield all objects that the garbage collector knows, in chunks, the newest first.

    Callers keep a chunk for a moment only: if another thread is filling a tuple while the chunk refers to it,
    Python raises SystemError in that thread.
    """
    for generation in range(len(gc.get_count())):
        every = gc.get_objects(generation)
        for at in range(0, len(every), CHUNK):
            yield every[at : at + CHUNK]


def _of(objects: list[Any], wanted: Callable[[type], bool], asked: dict[int, bool]) -> list[Any]:
    """Return the objects of wanted classes; `asked` has the answers, by id as a metaclass may define `__eq__`."""
    found = []
    for one in objects:
        kind = type(one)
        known = asked.get(id(kind))
        if known is None:
            known = asked[id(kind)] = wanted(kind)
        if known:
            found.append(one)
    return found


def _unknown(values: list[Any], seen: set[int]) -> list[Any]:
    """Return the values that the garbage collector does not know and that may hold further objects, each once."""
    import numpy

    # This runs for a million references: the cheapest test comes first.
    array, tracked = numpy.ndarray, gc.is_tracked
    found = []
    for value in values:
        kind = type(value)
        if (
            (kind is tuple or kind is dict or kind is array)
            and not tracked(value)
            and id(value) not in seen
        ):
            seen.add(id(value))
            found.append(value)
    return found


def _arrays(values: list[Any]) -> list[Any]:
    import numpy

    return [one for one in values if type(one) is numpy.ndarray and one.dtype == object]


FEW = 300
"""Number of objects up to which `gc.get_referrers` is faster than a walk over the heap, although it compares every
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


# Read through `type` itself: a metaclass may return something else, or raise.
mro: Callable[[type], tuple[type, ...]] = type.__dict__["__mro__"].__get__
vars_of: Callable[[type], types.MappingProxyType[str, Any]] = type.__dict__["__dict__"].__get__


@dataclass(frozen=True)
class Table:
    """Functions that read and fill one kind of table (dict or set), without calling methods of a user's class.

    Tables are refilled so that keys are found again after a key or its hash has changed.
    """

    make: Callable[[Iterable[Any]], Any]
    clear: Callable[[Any], None]
    put: Callable[[Any, Any, Any], None]
    items: Callable[[Any], list[tuple[Any, Any]]]

    def refill(self, table: Any, items: list[tuple[Any, Any]]) -> bool:
        """Replace a table's items, in this order; return False, and change nothing, if two keys are equal now.

        Raises:
          Exception: A `__hash__` or `__eq__` has raised it; nothing is changed.
        """
        trial: Any = self.make(())
        for key, value in items:
            self.put(trial, key, value)
        if len(trial) != len(items):
            return False
        self.clear(table)
        for key, value in items:
            self.put(table, key, value)
        return True


_ORDERED = Table(  # an OrderedDict keeps an order of its own beside that of a dict
    make=collections.OrderedDict,
    clear=collections.OrderedDict.clear,
    put=collections.OrderedDict.__setitem__,
    items=lambda table: list(dict.items(table)),
)
_DICT = Table(
    make=dict,
    clear=dict.clear,
    put=dict.__setitem__,
    items=lambda table: list(dict.items(table)),
)
_SET = Table(
    make=set,
    clear=set.clear,
    put=lambda table, key, _: set.add(table, key),
    items=lambda table: [(key, None) for key in set.__iter__(table)],
)


def table_of(holder: Any) -> Table:
    """Return the kind of table that a dict or a set is."""
    if issubclass(type(holder), set):
        return _SET
    return _ORDERED if issubclass(type(holder), collections.OrderedDict) else _DICT


def rehash(changed: Mapping[int, Any], computing: Iterable[Any], twins: Twins) -> bool:
    """Refill tables with keys whose hashes depend on objects that were changed in place.

    Args:
      changed: The changed objects, by id.
      computing: All objects whose hash is computed in Python.
      twins: Gets twins of frozen sets, which cannot be refilled.

    Returns:
      Whether `twins` got any.
    """
    stale, holders = _stale(changed, computing, twins)
    for table in {id(one): one for one in holders}.values():
        if issubclass(type(table), (dict, set)):
            _refill(table, stale)
    made = [_new_frozenset(holder, stale, twins) for holder in stale.values()]
    return any(made)


def _stale(
    changed: Mapping[int, Any], computing: Iterable[Any], twins: Twins
) -> tuple[dict[int, Any], list[Any]]:
    """Return objects whose hash depends on changed ones, by id, and all objects that refer to any of them."""
    by_part: dict[int, list[Any]] = {}
    for holder in computing:
        for part in gc.get_referents(holder):
            if type(part) is dict or id(part) in changed:  # a dict is mostly the `__dict__`
                by_part.setdefault(id(part), []).append(holder)
    found = {id(one): one for one in changed.values() if _hashes_by_content(type(one))}
    found |= {id(holder): holder for number in changed for holder in by_part.get(number, ())}
    front = list(found.values())
    every: list[Any] = []
    while front:
        reached: dict[int, Any] = {}
        holders = twins.referrers(front, changed, by_part, found, every)
        every += holders
        for holder in holders:
            if _hashes_by_content(type(holder)):
                reached[id(holder)] = holder
            elif type(holder) is dict:
                reached |= {id(owner): owner for owner in by_part.get(id(holder), ())}
        front = [holder for number, holder in reached.items() if number not in found]
        found |= reached
    return found, every


def _refill(table: Any, stale: Mapping[int, Any]) -> None:
    kind = table_of(table)
    items = kind.items(table)
    if not stale.keys().isdisjoint(id(key) for key, _ in items):
        with contextlib.suppress(Exception):  # a user's `__hash__` raised: the table stays as it is
            kind.refill(table, items)


def _new_frozenset(holder: Any, stale: dict[int, Any], twins: Twins) -> bool:
    kind = type(holder)
    if not issubclass(kind, frozenset) or holder in twins:
        return False
    inside = list(frozenset.__iter__(holder))
    if stale.keys().isdisjoint(map(id, inside)):
        return False
    try:
        twins.add(holder, frozenset.__new__(kind, inside))
    except Exception:  # noqa: BLE001 - a user's `__hash__` raised: the set stays as it is
        return False
    return True


def _hashes_by_content(kind: type) -> bool:
    return issubclass(kind, (tuple, frozenset)) or computes_hash(kind)


def matters(kind: type) -> bool:
    """Return whether objects of a class are classes, contexts, or have a hash that is computed in Python."""
    return issubclass(kind, type) or kind is contextvars.Context or computes_hash(kind)


def computes_hash(kind: type) -> bool:
    """Return whether a function in Python computes the hash of objects of a class."""
    found = next((vars_of(c)["__hash__"] for c in mro(kind) if "__hash__" in vars_of(c)), None)
    return type(found) is types.FunctionType
