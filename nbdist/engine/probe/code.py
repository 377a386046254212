"""A digest of a function or class of the notebook, equal wherever the same code was defined."""

from __future__ import annotations

import functools
import hashlib
import types
from collections.abc import Collection
from typing import Any

NOTEBOOK = "__main__"
WRAPPERS = frozenset({"equinox", "flax", "functools", "jax", "jaxlib"})
"""Packages whose wrappers, such as `jax.jit`, have the function in `__wrapped__`; reading that runs nothing."""

DEEPEST = 8


def code_digest(value: Any, modules: Collection[str] = (NOTEBOOK,)) -> str | None:
    """Return a digest of the code of a function, a class or an instance that cells have defined; None for others.

    Byte code, names and constants count, and those of functions inside; line numbers, files, default values
    and what a closure has captured do not.

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
    members = sorted(_class_dict(cls).items(), key=lambda member: str(member[0]))
    found = [(name, _parts(one, depth - 1, modules)) for name, one in members if _is_code(one)]
    own = [(name, parts) for name, parts in found if parts]
    bases = [_class(base, depth - 1, modules) for base in _bases(cls)[1:] if depth > 1]
    return (cls.__name__, tuple(own), tuple(bases))


def _is_code(member: Any) -> bool:
    return type(member) in (types.FunctionType, staticmethod, classmethod, property)


def _module(cls: type) -> str:
    found = _class_dict(cls).get("__module__")
    return found if isinstance(found, str) else ""


_class_dict = type.__dict__["__dict__"].__get__
_bases = type.__dict__["__mro__"].__get__
