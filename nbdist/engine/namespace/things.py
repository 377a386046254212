"""Things that make a process what it is beside the user's names: each can be read and compared, most set."""

from __future__ import annotations

import enum
import functools
import hashlib
import inspect
import re
import types
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from nbdist.engine.cell.code_owners import error_text
from nbdist.engine.probe.classes import NOTEBOOK, code_digest

PLAIN = (bool, int, float, complex, str, bytes, type(None))

LONG = 2000
"""Longest text in characters; a digest replaces a longer one: lists in lists in lists would fill memory."""

RING = "the container"
"""Stands for a container inside itself; its place among the containers around it follows."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """A thing that cannot be set on another process; a difference in `text` is only reported.

    Attributes:
      text: Equal where the thing is equal.
      why: For a person, why the thing cannot be set, where that is not plain.
    """

    text: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class Carried:
    """A thing whose `text` is compared and whose `value` is sent."""

    text: str
    value: Any


class ThingKind(Protocol):
    """One kind of things, on one process."""

    def read(self) -> Mapping[str, Any]:
        """Return the things of this process by the names that a person reads."""

    def write(self, name: str, value: Any) -> object:
        """Set one thing to the value that it has on another process."""


@dataclass(frozen=True, slots=True)
class SingleThing:
    """A kind with one thing only.

    Attributes:
      name: As a person reads it.
      get: Returns the value; raises `LookupError` where this process has no such thing.
      set: Takes a value of another process.
    """

    name: str
    get: Callable[[], Any]
    set: Callable[[Any], object]

    def read(self) -> Mapping[str, Any]:
        """Return the value by name; nothing where this process has no such thing."""
        try:
            return {self.name: self.get()}
        except LookupError:
            return {}

    def write(self, name: str, value: Any) -> object:
        """Set the value."""
        return self.set(value)


class Mine:
    """Test that tells the user's own code from that of libraries, given the names of the user's modules."""

    def __init__(self, modules: Collection[str]) -> None:
        self.modules = frozenset({NOTEBOOK, *modules})

    def __contains__(self, value: Any) -> bool:
        """Return whether a function or class, or an object's class, comes from a cell or module of the user's."""
        # Only types are asked: the object itself decides what `__class__` says, and may raise.
        if type(value) is types.MethodType:
            value = value.__func__ if issubclass(type(value.__self__), type) else value.__self__
        while issubclass(type(value), functools.partial):
            value = value.func
        # Without `__getattr__`, which would import a magic that IPython has not loaded yet.
        inner = inspect.getattr_static(value, "__wrapped__", None)
        found = (value, inner, type(value)) if inner is not None else (value, type(value))
        return any(self._is_one(got(one, "__module__")) for one in found)

    def _is_one(self, name: object) -> bool:
        return isinstance(name, str) and name in self.modules

    def text(self, value: Any) -> str:
        """Return a text without addresses, equal where two values are, or where code does the same.

        Where reading a part raises, the text has the error.
        """
        return self._text(value, (), {})

    def _text(self, value: Any, above: tuple[int, ...], known: dict[int, tuple[Any, str]]) -> str:
        """Return the text of a value. `above` are the ids of the containers around it, since one may be in itself.

        `known` are other values with their texts, by id: one may be in many containers, and each of these in more.
        """
        if id(value) in above:
            return f"{RING} {above.index(id(value))}"
        if id(value) in known:
            return known[id(value)][1]
        try:
            text = self._read(value, lambda one: self._text(one, (*above, id(value)), known))
        except Exception as error:  # noqa: BLE001 - any object's own
            return f"a {name_of(type(value))} that raised {error_text(error)}"
        short = text if len(text) < LONG else digest(text, "")
        if RING not in text:
            known[id(value)] = value, short
        return short

    def _read(self, value: Any, text: Callable[[Any], str]) -> str:
        kind = type(value)
        if kind in (Fixed, Carried):
            return str(value.text)
        if kind is int:
            return hex(value)  # Python refuses to write more than some thousand digits in decimal
        if kind in PLAIN:
            return repr(value)
        if kind in (list, tuple):
            return f"{kind.__name__}({', '.join(map(text, value))})"
        if kind in (set, frozenset):
            return f"{kind.__name__}({', '.join(sorted(map(text, value)))})"
        if isinstance(value, dict):
            pairs = sorted((text(key), text(one)) for key, one in value.items())
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


def got(value: Any, name: str) -> Any:
    """Return an attribute; None where there is none, or where looking for it raises."""
    try:
        return getattr(value, name, None)
    except Exception:  # noqa: BLE001 - any object's own
        return None


def name_of(value: Any) -> str:
    """Return `module.qualname` of a function or class, or of the type of an object."""
    name = got(value, "__qualname__")
    if not isinstance(name, str):
        value, name = type(value), type(value).__qualname__
    return f"{got(value, '__module__')}.{name}"


def digest(text: str, key: str) -> str:
    """Return 9 bytes, as hex, of a text that may be secret: nobody finds the text without the key."""
    return hashlib.blake2b(
        text.encode(errors="replace"), key=key.encode()[:64], digest_size=9
    ).hexdigest()
