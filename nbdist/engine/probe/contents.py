"""The contents of one object of the user's namespace, and the expressions that reach them.

No user code is run: no property, `__getattr__`, `__iter__` or `__len__` of a user's class is called.
Instances are read through the descriptors of their classes, and classes through `type`'s own.
"""

from __future__ import annotations

import functools
import itertools
import keyword
import math
import sys
import types
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from nbdist.engine.probe.classes import (
    bases_of,
    class_dict,
    gives_what_it_keeps,
    lookup,
    package,
)
from nbdist.engine.probe.lent import Lent
from nbdist.engine.probe.library import Library

NOT_LOOKED_INTO = sys.stdlib_module_names | {
    *("IPython", "PIL", "absl", "grain", "ipykernel", "ipyparallel", "jupyter_client"),
    *("matplotlib", "nbdist", "numpy", "orbax", "pandas", "pyarrow"),
    *("scipy", "sklearn", "torch", "tornado", "tqdm", "traitlets", "zmq"),
}
"""Packages, besides those of frameworks, whose plain objects hold no named arrays and can be large."""


class Leaf(Enum):
    """Kinds of objects that are not looked into."""

    ARRAY = "array"
    MESH = "mesh"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Container:
    """How to look into the objects of one class.

    `look` lists pairs of a key and a value, up to a given number; `step` returns the expression that reaches a
    value, or None if there is none. `plain` marks objects that are not known to hold arrays, `model` objects
    whose variables are shown together.
    """

    look: Callable[[Any, int], Iterable[tuple[Any, Any]]]
    step: Callable[[str, Any], str | None]
    plain: bool = False
    model: bool = False


Kind = Leaf | Container


@dataclass(frozen=True, slots=True)
class Known:
    """The arrays, meshes and containers of the frameworks that have been imported.

    `packages` are the frameworks' own: only their classes count as arrays and meshes, since a user's derived class
    may run anything; and their other objects hold no named arrays.
    """

    arrays: tuple[type, ...]
    meshes: tuple[type, ...]
    packages: frozenset[str]
    libraries: tuple[Library, ...]


def kind_of(cls: type, known: Known) -> Kind:
    """Return how objects of exactly this class are treated."""
    bases = bases_of(cls)
    if package(cls) in known.packages:
        if _has_any(bases, known.arrays):
            return Leaf.ARRAY
        if _has_any(bases, known.meshes):
            return Leaf.MESH
    if cls is Lent:
        return Leaf.ARRAY
    for base, container in _BUILT_IN.items():
        if any(b is base for b in bases):
            return container(cls)
    for library in known.libraries:
        look = library.look_into(bases)
        if look is not None:
            return Container(_all(look), _suffix, model=library.is_model(bases))
    return _object(cls, bases, known)


def _all(
    look: Callable[[Any], Iterable[tuple[Any, Any]]],
) -> Callable[[Any, int], Iterable[tuple[Any, Any]]]:
    """Ignore the limit on pairs: a framework keeps few values in one of its own containers."""
    return lambda value, _: look(value)


def _has_any(bases: tuple[type, ...], wanted: tuple[type, ...]) -> bool:
    return any(base is one for one in wanted for base in bases)


def _suffix(path: str, rest: Any) -> str | None:
    return f"{path}{rest}"


def _item(path: str, key: Any) -> str | None:
    return f"{path}[{key!r}]" if _is_plain(key) else None


def _is_plain(key: Any) -> bool:
    """Return whether the `repr` of a key is an expression for it and runs nobody's code."""
    if type(key) is tuple:
        return all(map(_is_plain, key))
    if type(key) is float:
        return math.isfinite(key)
    return key is None or type(key) in (str, int, bool, bytes)


def _dict(cls: type) -> Kind:
    if lookup(cls, "__getitem__") is not dict.__dict__["__getitem__"]:
        return Leaf.NOTHING
    return Container(_dict_items, _item)


def _dict_items(mapping: dict[Any, Any], most: int) -> list[tuple[Any, Any]]:
    # The main thread may add and remove keys meanwhile.
    for _ in range(3):
        try:
            return list(itertools.islice(dict.items(mapping), most))
        except RuntimeError:
            continue
    return []


def _list(cls: type) -> Kind:
    if lookup(cls, "__getitem__") is not list.__dict__["__getitem__"]:
        return Leaf.NOTHING
    return Container(lambda items, most: enumerate(list.__getitem__(items, slice(most))), _item)


def _tuple(cls: type) -> Kind:
    if lookup(cls, "__getitem__") is not tuple.__dict__["__getitem__"]:
        return Leaf.NOTHING
    fields = lookup(cls, "_fields")
    if type(fields) is tuple and all(_is_field(cls, name) for name in fields):
        return Container(
            lambda items, _: zip(fields, tuple.__iter__(items), strict=False), _attribute
        )
    return Container(lambda items, most: enumerate(tuple.__getitem__(items, slice(most))), _item)


_BUILT_IN: dict[type, Callable[[type], Kind]] = {
    dict: _dict,
    list: _list,
    tuple: _tuple,
    type: lambda cls: Leaf.NOTHING,
}


def _is_field(cls: type, name: object) -> bool:
    # The C type of the fields that `collections.namedtuple` makes.
    getter = lookup(cls, name) if type(name) is str else None
    return type(getter).__name__ == "_tuplegetter"


def _attribute(path: str, name: Any) -> str | None:
    return f"{path}.{name}"


def _object(cls: type, bases: tuple[type, ...], known: Known) -> Kind:
    dataclass_ = "__dataclass_fields__" in itertools.chain.from_iterable(map(class_dict, bases))
    holds = any(library.holds_arrays(cls, bases) for library in known.libraries)
    foreign = package(cls) in NOT_LOOKED_INTO | known.packages and cls is not types.SimpleNamespace
    if foreign and not holds:
        return Leaf.NOTHING
    if not gives_what_it_keeps(bases):
        return Leaf.NOTHING
    look = _attributes(cls)
    plain = not (dataclass_ or holds)
    return Container(look, _attribute, plain=plain) if look else Leaf.NOTHING


def _attributes(cls: type) -> Callable[[Any, int], Iterable[tuple[str, Any]]] | None:
    """Return a function that lists the public attributes kept in a class's instances; None if they keep none."""
    instance_dict = lookup(cls, "__dict__")
    keeps_dict = type(instance_dict) in (types.GetSetDescriptorType, types.MemberDescriptorType)
    slots = {
        name: member
        for base in reversed(bases_of(cls))
        for name, member in class_dict(base).items()
        if type(member) is types.MemberDescriptorType and not name.startswith("_")
    }
    if not keeps_dict and not slots:
        return None

    @functools.cache
    def reachable(name: Any) -> bool:
        if type(name) is not str or name.startswith("_") or not name.isidentifier():
            return False
        # A property of this name would answer in place of what the instance keeps.
        return not keyword.iskeyword(name) and not _is_data_descriptor(lookup(cls, name))

    def look(instance: Any, most: int) -> Iterable[tuple[str, Any]]:
        if keeps_dict:
            for name, value in _dict_items(instance_dict.__get__(instance), most):
                if reachable(name):
                    yield name, value
        for name, member in slots.items():
            try:
                yield name, member.__get__(instance)
            except AttributeError:
                continue

    return look


def _is_data_descriptor(found: Any) -> bool:
    bases = bases_of(type(found))
    return any("__set__" in class_dict(b) or "__delete__" in class_dict(b) for b in bases)
