"""Dataclasses of `nbdist.contract` as plain data that JSON carries unchanged, and their bases: requests, unions.

The type hints of the dataclasses are the only description of the format: a tuple becomes a list, a dataclass a
dict of all its fields, a `Mapping` from texts or whole numbers a dict, whose keys are texts. Members of a union of
dataclasses are distinguished by their tag: an entry beside their fields (`Tagged`), or the literal in their field
`kind`. A value declared as `Any` is plain data, taken as it is.

Source: imports nothing outside the standard library, since engines import it too.
"""

from __future__ import annotations

import math
import re
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import cache, partial
from typing import (
    Any,
    ClassVar,
    Generic,
    Literal,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from nbdist.errors import WireError

T = TypeVar("T")
A = TypeVar("A", covariant=True)
Plain = Any
"""None, bool, int, float, str, and lists and dicts with str keys of these."""
Read = Callable[[Plain], Any]

KIND = "kind"


class Tagged:
    """Base of classes that are members of a union; on the wire an entry beside the fields says which one it is.

    Attributes:
      TAG: The name of the entry, the same in all members of a union.
      NAME: The value of this entry; by default the words of the class's name in small letters, such as
        `stop_listening`.
    """

    __slots__ = ()
    TAG: ClassVar[str] = KIND
    NAME: ClassVar[str]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "NAME" not in vars(cls):
            cls.NAME = in_small_letters(cls)


def in_small_letters(cls: type) -> str:
    """Return the words of a class's name: `stop_listening` for `StopListening`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()


class Request(Generic[A]):
    """The arguments of a question to a process or an agent; a dataclass, derived with the type of its answer.

    The type is None where nothing comes back. A `Call` (`nbdist.contract.calls`) goes to a process's main thread,
    in line with cells. An `Aside` (`nbdist.contract.asides`) goes past it, also in the middle of a cell. An order
    (`nbdist.contract.orders`) goes to the agent of a host, whatever the processes do.
    """

    __slots__ = ()


def answer_type(request: type[Request[Any]]) -> Any:
    """Return the type of the answer to a request; None if nothing comes back."""
    (base,) = request.__dict__["__orig_bases__"]
    (found,) = get_args(base)
    return None if found is type(None) else found


_SCALARS = frozenset({str, int, float, bool, type(None)})


def encode(value: object) -> Plain:
    """Return a dataclass of `nbdist.contract` as plain data, every field included.

    Raises:
      WireError: The dataclass holds something JSON has no form for, such as a NumPy integer; the text names
        the path to it.
    """
    try:
        return _write(value)
    except _Mismatch as mismatch:
        raise mismatch.error(type(value).__name__) from None


def decode(cls: type[T], data: Plain) -> T:
    """Read plain data back into the dataclass `cls`, or a union of dataclasses, checking every value.

    Fields that have a default may be missing. A float may come as an int, since JSON writers
    shorten 3.0 to 3.

    Raises:
      WireError: A value is not what `cls` declares; the text names its path, such as
        `Report.arrays[3].shape`, the value and what is allowed.
    """
    hint: Any = cls
    try:
        value: T = _reader(hint)(data)
    except _Mismatch as mismatch:
        raise mismatch.error(getattr(cls, "__name__", "message")) from None
    return value


class _Mismatch(Exception):
    """A value that does not fit, and the path to it, collected from the inside out."""

    def __init__(self, value: object, allowed: str) -> None:
        super().__init__()
        self.value = value
        self.allowed = allowed
        self.path: list[str] = []

    def inside(self, step: str) -> _Mismatch:
        self.path.append(step)
        return self

    def error(self, root: str) -> WireError:
        shown = repr(self.value)
        if len(shown) > 80:
            shown = f"{shown[:77]}…"
        path = root + "".join(reversed(self.path))
        return WireError(f"{path} is {shown}; allowed: {self.allowed}.")


def _write(value: Any) -> Plain:
    kind = type(value)
    if kind in _SCALARS:
        if kind is float and not math.isfinite(value):
            raise _Mismatch(value, "a finite number")
        return value
    if kind in (tuple, list):
        return _write_items(value)
    if kind is dict:
        return _write_entries(value)
    if not is_dataclass(kind):
        allowed = "None, bool, int, float, str, and tuples, lists, dicts and dataclasses of these"
        raise _Mismatch(value, allowed)
    data: dict[str, Plain] = {}
    name = ""
    names, tag = _shape(kind)
    try:
        for name in names:
            entry = getattr(value, name)
            data[name] = entry if type(entry) is str else _write(entry)
    except _Mismatch as mismatch:
        raise mismatch.inside(f".{name}") from None
    data.update(tag)
    return data


def _write_entries(entries: dict[Any, Any]) -> dict[str, Plain]:
    data: dict[str, Plain] = {}
    key: Any = None
    try:
        for key, entry in entries.items():
            if type(key) not in (str, int):
                raise _Mismatch(key, "a text or a whole number as key")
            data[str(key)] = _write(entry)
    except _Mismatch as mismatch:
        raise mismatch.inside(f"[{key!r}]") from None
    return data


def _write_items(items: Sequence[Any]) -> list[Plain]:
    data: list[Plain] = []
    try:
        for item in items:
            data.append(item if type(item) is str else _write(item))
    except _Mismatch as mismatch:
        raise mismatch.inside(f"[{len(data)}]") from None
    return data


@cache
def _shape(cls: Any) -> tuple[tuple[str, ...], Mapping[str, str]]:
    """Return the names of the fields of a dataclass, and the entry beside them."""
    tag = {cls.TAG: cls.NAME} if issubclass(cls, Tagged) else {}
    return tuple(field.name for field in fields(cls)), tag


@cache
def _reader(hint: Any) -> Read:
    """Return the function that checks and reads a value declared as `hint`.

    Raises:
      TypeError: The contract uses a type this format has no form for.
    """
    origin, args = get_origin(hint), get_args(hint)
    if hint in _SCALARS:
        return _scalar_reader(hint)
    if hint is Any:
        return _as_it_is
    if origin is Literal:
        return _literal_reader(args)
    if origin in (Union, types.UnionType):
        return _union_reader(args)
    if origin is tuple:
        return _list_reader(args[0]) if args[1:] == (...,) else _fixed_reader(args)
    if origin is Mapping and args[0] in _KEYS:
        return _mapping_reader(_KEYS[args[0]], args[1])
    if isinstance(hint, type) and is_dataclass(hint):
        return _record_reader(hint)
    raise TypeError(f"{hint!r} has no form on the wire")


def _scalar_reader(kind: type) -> Read:
    def read_float(data: Plain) -> float:
        if type(data) not in (float, int) or not math.isfinite(data):
            raise _Mismatch(data, "a finite number")
        return float(data)

    def read(data: Plain) -> Any:
        # An exact type: True is an int in Python, but no size.
        if type(data) is not kind:
            raise _Mismatch(data, names[kind])
        return data

    names = {str: "a text", int: "a whole number", bool: "true or false", type(None): "null"}
    return read_float if kind is float else read


def _literal_reader(values: tuple[Any, ...]) -> Read:
    allowed = frozenset(values)

    def read(data: Plain) -> Any:
        if type(data) is not str or data not in allowed:
            raise _Mismatch(data, " | ".join(repr(value) for value in values))
        return data

    return read


def _union_reader(members: tuple[Any, ...]) -> Read:
    """Return a reader of `X | None`, of dataclasses, told apart by their tag field, or of a text or a list."""
    optional = type(None) in members
    others = tuple(member for member in members if member is not type(None))
    if len(others) == 1:
        read = _reader(others[0])
    elif all(map(is_dataclass, others)):
        read = _kind_reader(others)
    elif len(others) == 2 and others[0] is str and get_origin(others[1]) is tuple:
        read = partial(_read_either, *map(_reader, others))
    else:
        raise TypeError(f"{members!r} has no form on the wire")
    if not optional:
        return read

    def read_optional(data: Plain) -> Any:
        if data is None:
            return None
        try:
            return read(data)
        except _Mismatch as mismatch:
            if not mismatch.path:
                mismatch.allowed += " or null"
            raise

    return read_optional


def _read_either(text: Read, items: Read, data: Plain) -> Any:
    return (items if isinstance(data, list) else text)(data)


def _kind_reader(members: tuple[Any, ...]) -> Read:
    first = members[0]
    tag = first.TAG if issubclass(first, Tagged) else KIND
    reads = {
        cls.NAME if issubclass(cls, Tagged) else get_args(get_type_hints(cls)[KIND])[0]: _reader(
            cls
        )
        for cls in members
    }
    allowed = " | ".join(repr(kind) for kind in reads)

    def read(data: Plain) -> Any:
        if not isinstance(data, dict):
            raise _Mismatch(data, f"an object with {tag} {allowed}")
        kind = data.get(tag)
        if not isinstance(kind, str) or kind not in reads:
            raise _Mismatch(kind, allowed).inside(f".{tag}")
        return reads[kind](data)

    return read


def _as_it_is(data: Plain) -> Any:
    return data


def _number_key(key: str) -> int:
    """Read a key that was a whole number, which JSON has as text."""
    if not _NUMBER.fullmatch(key):
        raise _Mismatch(key, "a whole number as key")
    return int(key)


_NUMBER = re.compile(r"0|-?[1-9][0-9]*")
_KEYS: Mapping[Any, Read] = {str: _as_it_is, int: _number_key}


def _mapping_reader(read_key: Read, hint: Any) -> Read:
    read_item = _reader(hint)

    def read(data: Plain) -> dict[Any, Any]:
        if not isinstance(data, dict):
            raise _Mismatch(data, "an object")
        values = {}
        key = None
        try:
            for key, item in data.items():
                values[read_key(key)] = read_item(item)
        except _Mismatch as mismatch:
            raise mismatch.inside(f"[{key!r}]") from None
        return values

    return read


def _list_reader(hint: Any) -> Read:
    read_item = _reader(hint)

    def read(data: Plain) -> tuple[Any, ...]:
        if not isinstance(data, list):
            raise _Mismatch(data, "a list")
        items: list[Any] = []
        try:
            for item in data:
                items.append(read_item(item))
        except _Mismatch as mismatch:
            raise mismatch.inside(f"[{len(items)}]") from None
        return tuple(items)

    return read


def _fixed_reader(hints: tuple[Any, ...]) -> Read:
    reads = tuple(map(_reader, hints))

    def read(data: Plain) -> tuple[Any, ...]:
        if not isinstance(data, list) or len(data) != len(reads):
            raise _Mismatch(data, f"a list of {len(reads)}")
        items: list[Any] = []
        try:
            for read_item, item in zip(reads, data, strict=True):
                items.append(read_item(item))
        except _Mismatch as mismatch:
            raise mismatch.inside(f"[{len(items)}]") from None
        return tuple(items)

    return read


def _record_reader(cls: type) -> Read:
    hints = get_type_hints(cls)
    names, tag = _shape(cls)
    reads = {name: _reader(hints[name]) for name in names}
    reads |= {name: _literal_reader((said,)) for name, said in tag.items()}
    required = {
        field.name
        for field in fields(cls)
        if field.default is MISSING and field.default_factory is MISSING
    }

    def read(data: Plain) -> Any:
        if not isinstance(data, dict):
            raise _Mismatch(data, f"an object with the fields of {cls.__name__}")
        missing = required - data.keys()
        if missing:
            raise _Mismatch(None, "a value, but the field is missing").inside(f".{min(missing)}")
        values = {}
        name = ""
        try:
            for name, item in data.items():
                if name not in reads:
                    raise _Mismatch(item, f"no such field; {cls.__name__} has {', '.join(reads)}")
                values[name] = reads[name](item)
        except _Mismatch as mismatch:
            raise mismatch.inside(f".{name}") from None
        for name in tag:
            values.pop(name, None)
        try:
            return cls(**values)
        except ValueError as error:
            raise _Mismatch(data, f"fields that belong together: {error}") from None

    return read
