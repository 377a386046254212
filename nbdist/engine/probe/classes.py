"""Facts about classes, read without calling anything that users wrote."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

bases_of: Callable[[type], tuple[type, ...]] = type.__dict__["__mro__"].__get__
class_dict: Callable[[type], dict[str, Any]] = type.__dict__["__dict__"].__get__

OWN_GETATTRIBUTE_IS_HARMLESS = {"equinox", "flax"}
"""Packages whose `__getattribute__` returns the arrays that lie in the instance."""


def package(cls: type) -> str:
    """Return the first part of the name of the module in which a class was made."""
    module = class_dict(cls).get("__module__")
    return module.partition(".")[0] if isinstance(module, str) else ""


def lookup(cls: type, name: str) -> Any:
    """Return the attribute of a class under a name, without calling descriptors; None if there is none."""
    for base in bases_of(cls):
        found = class_dict(base).get(name)
        if found is not None:
            return found
    return None


def gives_what_it_keeps(bases: tuple[type, ...]) -> bool:
    """Return whether `instance.name` gives what the instance keeps under that name."""
    for base in bases:
        if "__getattribute__" in class_dict(base):
            harmless = package(base) in OWN_GETATTRIBUTE_IS_HARMLESS
            return base is object or base is types.SimpleNamespace or harmless
    return False
