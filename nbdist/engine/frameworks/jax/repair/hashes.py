"""Tables (dicts and sets), refilled so that keys are found again after a key or its hash has changed."""

from __future__ import annotations

import collections
import contextlib
import contextvars
import gc
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from nbdist.engine.frameworks.jax.repair.twins import Twins

# Read through `type` itself: a metaclass may return something else, or raise.
mro: Callable[[type], tuple[type, ...]] = type.__dict__["__mro__"].__get__
vars_of: Callable[[type], types.MappingProxyType[str, Any]] = type.__dict__["__dict__"].__get__


@dataclass(frozen=True)
class Table:
    """Functions that read and fill one kind of table, without calling methods of a user's class."""

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
