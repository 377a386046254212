"""Things beside the user's names that make a process what it is: each can be read, compared and set."""

from __future__ import annotations

import enum
import functools
import hashlib
import re
import types
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from nbdist.engine.probe.code import NOTEBOOK, code_digest

PLAIN = (bool, int, float, complex, str, bytes, type(None))


@dataclass(frozen=True, slots=True)
class Fixed:
    """A thing that cannot be set on another process; where its `text` differs, the thing is named."""

    text: str


@dataclass(frozen=True, slots=True)
class Carried:
    """A thing of which `text` is compared, and `value` sent."""

    text: str
    value: Any


class Things(Protocol):
    """One kind of things, on one process."""

    def read(self) -> Mapping[str, Any]:
        """Return the things of this process by the names that a person reads."""

    def write(self, name: str, value: Any) -> object:
        """Set one of them to what it is on another process."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One thing that is always there.

    Attributes:
      name: As a person reads it.
      get: Returns its value; raises `LookupError` where this process has no such thing.
      set: Takes a value of another process.
    """

    name: str
    get: Callable[[], Any]
    set: Callable[[Any], object]

    def read(self) -> Mapping[str, Any]:
        """See `Things`."""
        try:
            return {self.name: self.get()}
        except LookupError:
            return {}

    def write(self, name: str, value: Any) -> object:
        """See `Things`."""
        return self.set(value)


class Mine:
    """Tells what the user has written from what libraries have.

    Args:
      modules: Names of the user's modules.
    """

    def __init__(self, modules: Collection[str]) -> None:
        self.modules = frozenset({NOTEBOOK, *modules})

    def __contains__(self, value: object) -> bool:
        """Whether a function or class, or the class of an object, comes from a cell or a module of theirs."""
        if isinstance(value, types.MethodType):
            value = value.__self__ if not isinstance(value.__self__, type) else value.__func__
        while isinstance(value, functools.partial):
            value = value.func
        inner = getattr(value, "__wrapped__", None)
        found = (value, inner, type(value)) if inner is not None else (value, type(value))
        return any(getattr(one, "__module__", None) in self.modules for one in found)

    def text(self, value: Any) -> str:
        """Return a text without addresses, equal where two values are, or where code does the same."""
        if isinstance(value, (Fixed, Carried)):
            return value.text
        kind = type(value)
        if kind in PLAIN:
            return repr(value)
        if kind in (list, tuple):
            return f"{kind.__name__}({', '.join(map(self.text, value))})"
        if kind in (set, frozenset):
            return f"{kind.__name__}({', '.join(sorted(map(self.text, value)))})"
        if isinstance(value, dict):
            pairs = sorted((self.text(key), self.text(one)) for key, one in value.items())
            return f"{{{', '.join(f'{key}: {one}' for key, one in pairs)}}}"
        if isinstance(value, enum.Enum):
            return str(value)
        if isinstance(value, re.Pattern):
            return f"re {value.pattern!r} {value.flags}"
        code = code_digest(value, self.modules)
        if code is not None:
            return f"{name_of(value)} {code}"
        if isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType)):
            return name_of(value)
        return f"a {name_of(kind)}"


def name_of(value: Any) -> str:
    """`module.qualname` of a function or class; of an object its type's."""
    name = getattr(value, "__qualname__", None)
    if not isinstance(name, str):
        value, name = type(value), type(value).__qualname__
    return f"{getattr(value, '__module__', None)}.{name}"


def digest(text: str, key: str) -> str:
    """A few bytes of a text, which may be a secret: nobody finds the text who does not know the key."""
    return hashlib.blake2b(
        text.encode(errors="replace"), key=key.encode()[:64], digest_size=9
    ).hexdigest()
