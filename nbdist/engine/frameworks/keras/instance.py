"""What Keras' objects keep, read without calling anything of their classes.

A user's model may define properties, `__getattribute__`, `__eq__` or `__hash__`; none of them is run.
"""

from __future__ import annotations

import itertools
from types import GetSetDescriptorType
from typing import Any

from nbdist.engine.probe.classes import bases_of, class_dict, package


def live(instance: Any) -> dict[str, Any]:
    """What an instance keeps by name, as it is and changes: to be read, never to be walked."""
    for base in bases_of(type(instance)):
        found = class_dict(base).get("__dict__")
        if type(found) is GetSetDescriptorType:
            keeps: dict[str, Any] = found.__get__(instance)
            return keeps
    return {}


def kept(instance: Any) -> dict[str, Any]:
    """What an instance keeps by name: a copy; empty where it keeps nothing so."""
    return dict(pairs(live(instance)))


def attribute(instance: Any, name: str) -> Any:
    """One thing an instance keeps; None where it does not. A class's descriptors are not called."""
    return live(instance).get(name)


def defining(cls: type, name: str) -> type | None:
    """The class in which objects of `cls` find an attribute; None where no class has it."""
    return next((base for base in bases_of(cls) if name in class_dict(base)), None)


def items(value: Any, limit: int = 4096) -> list[Any]:
    """What a list or tuple holds, up to a limit; nothing of anything else.

    TensorFlow puts lists that are set as attributes into a list of its own class, which is itself empty and keeps
    them under `_storage`.
    """
    # By its class: a proxy only says that it is a list.
    bases = bases_of(type(value))
    if list in bases:
        storage = live(value).get("_storage") if package(type(value)) == "tensorflow" else None
        return list.__getitem__(storage if type(storage) is list else value, slice(limit))
    return list(tuple.__getitem__(value, slice(limit))) if tuple in bases else []


def pairs(value: Any, limit: int = 4096) -> list[tuple[Any, Any]]:
    """What a dictionary holds, up to a limit; nothing of anything else."""
    if dict not in bases_of(type(value)):
        return []
    # The main thread may add and remove keys meanwhile.
    for _ in range(3):
        try:
            return list(itertools.islice(dict.items(value), limit))
        except RuntimeError:
            continue
    return []
