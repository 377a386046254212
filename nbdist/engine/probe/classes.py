"""Facts about classes and their code, read without calling anything that users wrote.

The probe looks at a process while its cell runs, so a look must not run a property or a method of the user's:
classes are read through `type`'s own descriptors, and objects through those of their classes. A framework says
through `Library` which of its objects hold arrays; `code_digest` shows whether two processes have the same code.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import types
from collections.abc import Callable, Collection, Iterable
from typing import Any, Protocol

bases_of: Callable[[type], tuple[type, ...]] = type.__dict__["__mro__"].__get__
class_dict: Callable[[type], dict[str, Any]] = type.__dict__["__dict__"].__get__

OWN_GETATTRIBUTE_IS_HARMLESS = {"equinox", "flax"}
"""Packages whose `__getattribute__` returns the arrays that lie in the instance."""


def package(cls: type) -> str:
    """Return the first part of the name of the module in which a class was made."""
    module = class_dict(cls).get("__module__")
    return module.partition(".")[0] if isinstance(module, str) else ""


def dict_items(mapping: dict[Any, Any], most: int) -> list[tuple[Any, Any]]:
    """Return the first `most` items of a dictionary, to which the main thread may add keys meanwhile."""
    for _ in range(3):
        try:
            return list(itertools.islice(dict.items(mapping), most))
        except RuntimeError:
            continue
    return []


def lookup(cls: type, name: str) -> Any:
    """Return the attribute of a class under a name, without calling descriptors; None if there is none."""
    for base in bases_of(cls):
        found = class_dict(base).get(name)
        if found is not None:
            return found
    return None


def gives_what_it_keeps(bases: tuple[type, ...]) -> bool:
    """Return whether instances look attributes up in the usual way, without a user's `__getattribute__`."""
    for base in bases:
        if "__getattribute__" in class_dict(base):
            harmless = package(base) in OWN_GETATTRIBUTE_IS_HARMLESS
            return base is object or base is types.SimpleNamespace or harmless
    return False


def attributes(value: Any) -> dict[str, Any]:
    """Return an object's attributes, from its dictionary and slots, without calling code of its class."""
    found: dict[str, Any] = {}
    for cls in type(value).__mro__:
        members = class_dict(cls)
        own = members.get("__dict__")
        if isinstance(own, types.GetSetDescriptorType):
            found.update(own.__get__(value))
        for name in _slots(cls):
            try:
                found[name] = members[name].__get__(value)
            except AttributeError:
                continue
    return dict(sorted(found.items()))


def _slots(cls: type) -> list[str]:
    members = class_dict(cls)
    if "__slots__" not in members:
        return []
    return [name for name, one in members.items() if type(one) is types.MemberDescriptorType]


def has_more(kind: type, base: type) -> bool:
    """Return whether objects of a class have memory beside that of a base, slots, dictionary and references."""
    slots = sum(len(_slots(cls)) for cls in kind.__mro__[: kind.__mro__.index(base)])
    known = slots + (kind.__dictoffset__ != 0) + (kind.__weakrefoffset__ > 0)
    # A tuple has no memory of a fixed size.
    return base is not tuple and kind.__basicsize__ > base.__basicsize__ + 8 * known


Look = Callable[[Any], Iterable[tuple[str, Any]]]
"""Function that lists what an object holds: pairs of (the rest of the expression that reaches it, the value)."""


class Library(Protocol):
    """Questions of a walk over a namespace to a framework, about its modules, models and containers.

    Nothing that users wrote is run.
    """

    def look_into(self, bases: tuple[type, ...]) -> Look | None:
        """Return a function that lists what objects of a class hold; None if it is no container of the framework.

        Args:
          bases: The class and its bases, in order of resolution.
        """
        ...

    def is_model(self, bases: tuple[type, ...]) -> bool:
        """Return whether objects of a class are models, whose variables are shown together."""
        return False

    def has_layout(self, bases: tuple[type, ...]) -> bool:
        """Return whether objects of a class are models or layers, whose variables have layouts to show."""
        return False

    def holds_arrays(self, cls: type, bases: tuple[type, ...]) -> bool:
        """Return whether objects of a class are known to hold arrays in attributes, as pytrees and modules do."""
        return False


class Lent:
    """The value of a variable that a training step of a running `fit` has taken out.

    The value's memory may have been given away (donated) already.

    Args:
      array: The value as the last step returned it; None if it is out of reach.
      shape: The variable's shape.
    """

    __slots__ = ("array", "shape")

    def __init__(self, array: Any | None, shape: tuple[int, ...]) -> None:
        self.array = array
        self.shape = shape


NOTEBOOK = "__main__"
WRAPPERS = frozenset({"equinox", "flax", "functools", "jax", "jaxlib"})
"""Packages whose wrappers, such as `jax.jit`, have the function in `__wrapped__`; reading that runs nothing."""

DEEPEST = 8


def code_digest(value: Any, modules: Collection[str] = (NOTEBOOK,)) -> str | None:
    """Return a digest of the code of a function, a class or an instance that cells have defined; None for others.

    Digests are equal wherever the same code was defined. The digest covers byte code, names and constants, also
    those of functions inside. It does not cover line numbers, files, default values, or the variables that a
    closure has captured.

    Args:
      value: Any object.
      modules: The modules whose functions and classes count.
    """
    found = _parts(value, DEEPEST, modules)
    return hashlib.sha256(repr(found).encode()).hexdigest()[:12] if found else None


def _parts(value: Any, depth: int, modules: Collection[str]) -> tuple[Any, ...]:
    cls = type(value)
    if depth == 0:
        return ()
    if cls is types.FunctionType:
        return _function(value, depth, modules)
    if cls is types.MethodType:
        return _parts(value.__func__, depth - 1, modules)
    if cls is functools.partial:
        return _parts(value.func, depth - 1, modules)
    if cls in (staticmethod, classmethod):
        return _parts(value.__func__, depth - 1, modules)
    if cls is property:
        return tuple(
            _parts(one, depth - 1, modules) for one in (value.fget, value.fset, value.fdel)
        )
    if issubclass(cls, type):
        return _class(value, depth, modules)
    if _module(cls).partition(".")[0] in WRAPPERS:
        return _parts(getattr(value, "__wrapped__", None), depth - 1, modules)
    return _class(cls, depth, modules)


def _function(
    function: types.FunctionType, depth: int, modules: Collection[str]
) -> tuple[Any, ...]:
    inner = function.__dict__.get("__wrapped__")
    wrapped = _parts(inner, depth - 1, modules) if inner is not None else ()
    if function.__globals__.get("__name__") not in modules:
        return wrapped
    return (_code(function.__code__), wrapped)


def _code(code: types.CodeType) -> tuple[Any, ...]:
    return (
        code.co_name,
        code.co_code.hex(),
        code.co_names,
        code.co_varnames,
        code.co_freevars,
        code.co_argcount,
        code.co_posonlyargcount,
        code.co_kwonlyargcount,
        code.co_flags,
        tuple(map(_constant, code.co_consts)),
    )


def _constant(constant: Any) -> Any:
    if isinstance(constant, types.CodeType):
        return _code(constant)
    if isinstance(constant, tuple):
        return tuple(map(_constant, constant))
    if isinstance(constant, frozenset):  # its order differs between processes
        return ("frozenset", *sorted(repr(_constant(one)) for one in constant))
    return repr(constant)


def _class(cls: type, depth: int, modules: Collection[str]) -> tuple[Any, ...]:
    if _module(cls) not in modules:
        return ()
    members = sorted(class_dict(cls).items(), key=lambda member: str(member[0]))
    found = [(name, _parts(one, depth - 1, modules)) for name, one in members if _is_code(one)]
    own = [(name, parts) for name, parts in found if parts]
    bases = [_class(base, depth - 1, modules) for base in bases_of(cls)[1:] if depth > 1]
    return (cls.__name__, tuple(own), tuple(bases))


def captured(cell: Any) -> Any:
    """Return the variable that a function has captured; None for one that the enclosing function has not set."""
    try:
        return cell.cell_contents
    except ValueError:
        return None


def _is_code(member: Any) -> bool:
    return type(member) in (types.FunctionType, staticmethod, classmethod, property)


def _module(cls: type) -> str:
    found = class_dict(cls).get("__module__")
    return found if isinstance(found, str) else ""
