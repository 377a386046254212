"""By which names of the user's namespace objects that still refer to old ones are reached."""

from __future__ import annotations

import gc
import types
from collections.abc import Callable, Iterable
from typing import Any

STEPS = 8
"""So many references back are followed from a stale object to a name."""


def reached_from(holder: Any, namespace: dict[str, object]) -> str | None:
    """The name through which a user's program reaches an object; None when no name does, within `STEPS`."""
    seen = {id(holder)}
    frontier: list[Any] = [holder]
    for _ in range(STEPS):
        referrers = gc.get_referrers(*frontier)
        for referrer in referrers:
            if referrer is namespace:
                return _name(frontier, namespace)
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
    hidden: Callable[[str], bool] = lambda name: name.startswith("_")  # noqa: E731
    names = [name for name, value in list(namespace.items()) if id(value) in ids]
    return next((name for name in names if not hidden(name)), None)
