"""By which names of the user's namespace objects are reached that no path leads to."""

from __future__ import annotations

import gc
import re
import types
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from nbdist.engine.frameworks.jax.repair.become import instance_dict
from nbdist.engine.probe.walk import IPYTHON_NAMES

STEPS = 8
"""The number of references that are followed back from an object to a name."""

MOST_NAMED = 20
"""Objects that are looked up by name; each costs a walk back through the heap."""

_OF_IPYTHON = re.compile(r"_+|_i+|_i?\d+|_[dio]h|_exit_code|__\w+__")


def names_of(holders: Sequence[Any], namespace: dict[str, object]) -> list[str]:
    """Return those of these objects that a user's program reaches by a name, each as a few words."""
    found = set()
    for holder in holders[:MOST_NAMED]:
        name = reached_from(holder, namespace)
        if name is not None:
            found.add(f"{name} (through a {type(holder).__name__})")
    return sorted(found)


def names_of_arrays(arrays: Collection[Any], namespace: dict[str, object]) -> list[str]:
    """By which names a user's program reaches arrays that no path leads to, each as a few words.

    The variables of functions that have ended, which an exception keeps, count as nothing.
    """
    if not arrays:
        return []
    wanted = tuple(arrays)
    ids = {id(array) for array in wanted}
    found, holders = set(), []
    for holder in gc.get_referrers(*wanted):
        if holder is wanted or holder is arrays or type(holder) is types.FrameType:
            continue
        if holder is namespace:
            found |= {n for n, v in [*namespace.items()] if id(v) in ids and _is_users(n)}
        elif _is_module(holder):
            found |= {f"{holder['__name__']}.{n}" for n, v in [*holder.items()] if id(v) in ids}
        else:
            holders.append(holder)
    return sorted({*found, *names_of(holders, namespace)})


def names_by_id(ids: Collection[int], namespace: dict[str, object]) -> list[str]:
    """The names of dicts and sets, or of objects with such attributes, with the `id` of one of these as a key."""
    found = set()
    for name, value in filter(lambda item: _is_users(item[0]), [*namespace.items()]):
        own = () if _is_module(value) else (instance_dict(value) or {}).values()
        if any(_has_key(table, ids) for table in (value, *own)):
            found.add(f"{name} (through id())")
    return sorted(found)


def _has_key(table: Any, ids: Collection[int]) -> bool:
    """Whether one of these is a key; where the first key is no number all others are taken for none either."""
    kind = next((k for k in (dict, set, frozenset) if issubclass(type(table), k)), None)
    if kind is None or type(next(kind.__iter__(table), None)) is not int:
        return False
    return any(type(key) is int and key in ids for key in [*kind.__iter__(table)])


def reached_from(holder: Any, namespace: dict[str, object]) -> str | None:
    """The name through which a user's program reaches an object; None when no name does, within `STEPS`."""
    seen = {id(holder)}
    frontier: list[Any] = [holder]
    for _ in range(STEPS):
        referrers = gc.get_referrers(*frontier)
        if any(referrer is namespace for referrer in referrers):
            name = _name(frontier, namespace)
            if name is not None:
                return name
            seen.add(id(namespace))
        following = []
        for referrer in referrers:
            if id(referrer) not in seen and referrer is not frontier and not _is_module(referrer):
                seen.add(id(referrer))
                following.append(referrer)
        if not following or len(following) > 2000:
            return None
        frontier = following
    return None


def _is_module(value: Any) -> bool:
    """Whether it is a module or its dictionary: nobody makes a library again."""
    return type(value) is types.ModuleType or (type(value) is dict and "__spec__" in value)


def _name(values: Iterable[Any], namespace: dict[str, object]) -> str | None:
    ids = {id(value) for value in values}
    names = [name for name, value in list(namespace.items()) if id(value) in ids]
    # One that the user means to be seen comes first.
    return min(filter(_is_users, names), key=lambda name: name.startswith("_"), default=None)


def _is_users(name: str) -> bool:
    return name not in IPYTHON_NAMES and not _OF_IPYTHON.fullmatch(name)
