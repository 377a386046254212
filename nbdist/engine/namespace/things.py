"""Interfaces for all that other processes can take over beside values: settings, and a framework's own objects.

A thing is one piece of a process's state, such as a setting. Things can be read and compared; most can be set.
Another process has devices of its own, and lacks what a framework keeps for a process. So a framework says through
`Placements` how another process makes arrays and devices like those here, and through `Objects` how it makes other
objects. One object of each exists for each transfer of a namespace.
"""

from __future__ import annotations

import enum
import functools
import hashlib
import inspect
import re
import types
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

from nbdist.contract.calls.namespace import NamespaceArray
from nbdist.contract.calls.stepping import Origin
from nbdist.contract.calls.values import Box
from nbdist.engine.probe.classes import NOTEBOOK, code_digest
from nbdist.engine.values.arrays import ReadablePiece
from nbdist.errors import error_text

PLAIN = (bool, int, float, complex, str, bytes, type(None))

LONG = 2000
"""Longest text in characters; a digest replaces a longer one, since deeply nested lists would fill memory."""

RING = "the container"
"""Stands for a container inside itself; the container's place among those around it follows."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """A thing that cannot be set on another process; a difference in `text` is only reported.

    Attributes:
      text: Equal on two processes if the thing is.
      why: The reason why the thing cannot be set, for a person; empty if it is obvious.
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
    """A kind that has one thing only.

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


def attribute(name: str, owner: Any, attribute: str) -> SingleThing:
    """Return the thing that is an attribute of an object, by the name that a person reads."""
    return SingleThing(
        name, lambda: getattr(owner, attribute), lambda value: setattr(owner, attribute, value)
    )


@dataclass(frozen=True, slots=True)
class ThingFamily:
    """A kind with several things whose names begin alike.

    Attributes:
      name: The beginning of their names, as a person reads them.
      get: Returns the values by the rest of their names.
      set: Takes the rest of a name and a value of another process.
    """

    name: str
    get: Callable[[], Mapping[str, Any]]
    set: Callable[[str, Any], object]

    def read(self) -> Mapping[str, Any]:
        """Return the values by whole names."""
        return {self.name + rest: value for rest, value in self.get().items()}

    def write(self, name: str, value: Any) -> object:
        """Set one of the things."""
        return self.set(name.removeprefix(self.name), value)


class Mine:
    """Test that tells the user's own code from that of libraries, given the names of the user's modules."""

    def __init__(self, modules: Collection[str]) -> None:
        self.modules = frozenset({NOTEBOOK, *modules})

    def __contains__(self, value: Any) -> bool:
        """Return whether a function or class, or an object's class, comes from a cell or module of the user's."""
        # Only types are asked: an object may define its own `__class__`, which may raise.
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
        """Return a text without addresses, equal for two values that are equal and for code that does the same.

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
    """Return a keyed digest of a text, 9 bytes as hex; it tells nothing of a secret text without the key."""
    return hashlib.blake2b(
        text.encode(errors="replace"), key=key.encode()[:64], digest_size=9
    ).hexdigest()


Parts = list[Any] | None
"""Pieces of an array, in the order in which they were wanted; None where it has no values any more."""


class Placements(Protocol):
    """How another process can make arrays and devices of its own like those of a framework here."""

    def is_array(self, value: Any) -> bool:
        """Return whether a value is an array of the framework, which is sent apart from its holder."""

    def describe(self, array: Any, number: int) -> NamespaceArray:
        """Return a description of an array for other processes; `number` is its number in the pickles."""

    def placement(self, array: Any) -> Any:
        """Return how an array lies on devices, in a form that can be pickled with `reference`."""

    def pieces(self, array: Any) -> Sequence[ReadablePiece]:
        """Return the parts that this process has, in the description's order; none of an array without values."""

    def find(self, keys: Collection[str]) -> Mapping[str, Any]:
        """Return the arrays of this process that have these keys."""

    def spanning(self) -> Mapping[str, Any]:
        """Return arrays on several processes that have values and a known origin, by path."""

    def own(self) -> Mapping[str, Any]:
        """Return arrays of this process alone that have values, by path."""

    def whole(self, array: Any) -> ReadablePiece:
        """Return all of an array of this process alone."""

    def now(self, arrays: Mapping[str, NamespaceArray]) -> Mapping[str, Origin]:
        """Return the origins of arrays now at these paths, if of the same type; also of those without values."""

    def wanted(self, arrays: Mapping[str, NamespaceArray]) -> Mapping[str, Sequence[Box]]:
        """Return the parts that belong here of the arrays now at these paths, if of the same type."""

    def go_back(
        self, arrays: Mapping[str, NamespaceArray], parts: Mapping[str, Mapping[Box, Any]]
    ) -> list[str]:
        """Make arrays of these parts, laid out as those now at their paths; re-point references to the new arrays.

        Returns:
          All paths that lead to the new arrays.
        """

    def origins(self) -> frozenset[Origin]:
        """Return the origins of all arrays on several processes that have values, also of those without a path."""

    def newer(self, there: Collection[Origin]) -> list[str]:
        """Return what leads to arrays on several processes of other origins: paths, or objects that hold them."""

    def reference(self, value: Any) -> Any | None:
        """Return the stand-in for a device, a mesh or a sharding in a pickle; None for anything else."""

    def referent(self, reference: Any) -> Any:
        """Return this process's own object for a stand-in that `reference` has returned on another."""

    def place(
        self, described: NamespaceArray, placement: Any
    ) -> tuple[list[Box], Callable[[Parts], Any]]:
        """Return the parts of an array that belong here, and a function that makes the array of them."""

    def changes(self) -> Sequence[str]:
        """Return a sentence for each object described that will be different on the other process."""

    def settings(self) -> Any:
        """Return what the framework keeps for the process beside objects with names; pickled with `reference`."""

    def set(self, settings: Any) -> None:
        """Set what `settings` has returned on another process."""

    def begin(self, generation: int) -> None:
        """Note that this process is new, and that the back end of all processes has this number."""

    def came_from(self, array: Any, origin: Origin) -> None:
        """Note the origin that an array made here has on the processes that have lived on."""


class Objects(Protocol):
    """Objects of a framework that are not pickled in their own way, and the framework's settings.

    Attributes:
      modules: Library modules that a new process imports first, where the other process has imported them.
    """

    modules: tuple[str, ...] = ()

    def reduce(self, value: Any) -> Any | None:
        """Return how to pickle an object, as `object.__reduce_ex__` does; None for the object's own way."""
        return None

    def settings(self) -> Any:
        """Return what the framework keeps for the process beside objects with names; pickled as it is."""
        return None

    def set(self, settings: Any) -> None:
        """Set what `settings` has returned on another process, once all objects have come from there."""
        return

    def things(self, mine: Mine) -> Sequence[ThingKind]:
        """Return the user's registrations and settings in the framework that are compared one by one."""
        return ()

    def unpickling(self) -> AbstractContextManager[object]:
        """Return a context that is open while classes of the user's come from another process."""
        return nullcontext()
