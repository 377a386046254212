"""Access to the attributes and contents of Keras' objects without running code of their classes.

A user's model may define properties, `__getattribute__`, `__eq__` or `__hash__`; none of them is run.
"""

from __future__ import annotations

import itertools
from types import GetSetDescriptorType
from typing import Any

from nbdist.engine.probe.classes import bases_of, class_dict, package


def live(instance: Any) -> dict[str, Any]:
    """Return an instance's own `__dict__`, which may change at any time: read single keys, never iterate."""
    for base in bases_of(type(instance)):
        found = class_dict(base).get("__dict__")
        if type(found) is GetSetDescriptorType:
            keeps: dict[str, Any] = found.__get__(instance)
            return keeps
    return {}


def kept(instance: Any) -> dict[str, Any]:
    """Return a copy of an instance's `__dict__`; empty if it has none."""
    return dict(pairs(live(instance)))


def attribute(instance: Any, name: str) -> Any:
    """Return one entry of an instance's `__dict__`; None if missing. The class's descriptors are not called."""
    return live(instance).get(name)


def defining(cls: type, name: str) -> type | None:
    """Return the class in which objects of `cls` find an attribute; None if no class has it."""
    return next((base for base in bases_of(cls) if name in class_dict(base)), None)


def items(value: Any, limit: int = 4096) -> list[Any]:
    """Return the first `limit` items of a list or tuple; an empty list for anything else.

    TensorFlow replaces a list that is set as an attribute by one of its own class. That list is itself empty, and
    keeps the items under `_storage`.
    """
    # The class decides: a proxy's `__class__` only claims to be a list.
    bases = bases_of(type(value))
    if list in bases:
        storage = live(value).get("_storage") if package(type(value)) == "tensorflow" else None
        return list.__getitem__(storage if type(storage) is list else value, slice(limit))
    return list(tuple.__getitem__(value, slice(limit))) if tuple in bases else []


def pairs(value: Any, limit: int = 4096) -> list[tuple[Any, Any]]:
    """Return the first `limit` items of a dictionary; an empty list for anything else."""
    if dict not in bases_of(type(value)):
        return []
    # The main thread may add and remove keys meanwhile.
    for _ in range(3):
        try:
            return list(itertools.islice(dict.items(value), limit))
        except RuntimeError:
            continue
    return []
