"""Short texts of what the user's names hold: values that are equal on two processes have equal texts.

When a process has ended, these texts are the only record of its values. No user code runs: objects are read
without calling methods of their classes.
"""

from __future__ import annotations

import array
import datetime
import decimal
import functools
import hashlib
import marshal
import math
import operator
import pathlib
import random
import re
import sys
import time
import types
import warnings
import weakref
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, NamedTuple

from nbdist.engine.probe.classes import (
    NOTEBOOK,
    WRAPPERS,
    attributes,
    captured,
    class_dict,
    code_digest,
    has_more,
)
from nbdist.engine.probe.walk import IPYTHON_NAMES

OPEN = "?"
"""Ends the text of a value that was not read completely: the values may differ although such texts are equal."""

READ = "/"
"""Divides a text in two: the first part is made without reading arrays on devices, the second part with their
values. If another process has not read its arrays, the first parts can still be compared."""

PLAIN = frozenset((bool, int, float, complex, str, bytes, type(None), type(...)))
ROWS = frozenset((list, tuple))

MOST_NAMES = 1000
MOST_INSIDE = 20_000
"""How many objects of one name are read in passing."""

MOST_BYTES = 8 << 20
"""Of a larger NumPy array only some elements are read in passing."""

LOOKED_AT = 64
"""How many elements are read of a value that is too large: evenly spread ones, with the first and the last."""

DEEPEST = 60

Values = Callable[[Any], str | None]
"""Returns a digest of the values of an array on devices; empty for an array that is not read, None for one that
may be read later."""


@dataclass(frozen=True, slots=True)
class SeenArray:
    """A framework's array: its text, whether the text is complete, and whether one process alone has the array."""

    text: str
    whole: bool
    own: bool


@dataclass(frozen=True, slots=True)
class Sample:
    """The content of one name.

    Attributes:
      text: Equal where the values are; see `OPEN`.
      own: Whether the value holds data that may differ between processes: not for code, nor for arrays that lie on
        several processes.
    """

    text: str
    own: bool


class _Parts(NamedTuple):
    """A value split into its own description and the values inside it, which may be in any order."""

    name: tuple[object, ...]
    inside: Sequence[Any] = ()
    unordered: bool = False


def samples_of(
    namespace: Mapping[str, Any],
    *,
    seen: Callable[[Any], SeenArray | None] | None = None,
    values: Values | None = None,
    within_s: float = math.inf,
) -> dict[str, str] | None:
    """Return a short text for each of the user's names; read nothing from a device except through `values`.

    Args:
      namespace: All that cells see; it may change meanwhile.
      seen: Describes arrays and models; by default arrays of JAX.
      values: Reads arrays of JAX.
      within_s: Seconds of this thread's processor time after which to give up; checked between names and arrays.

    Returns:
      None if this takes longer.
    """
    until = time.thread_time() + within_s
    names = [*namespace.items()]
    mine = ((n, v) for n, v in names if not n.startswith("_") and n not in IPYTHON_NAMES)
    found: dict[str, str] = {}
    for name, value in islice(mine, MOST_NAMES):
        found[name] = _text(value, seen or glance, values, until)
        if time.thread_time() > until:
            return None
    return found


def _text(
    value: Any, seen: Callable[[Any], SeenArray | None], values: Values | None, until: float
) -> str:
    """Return the text of one name; with `READ` if values of arrays count and none is left for later."""
    arrays: dict[int, tuple[Any, SeenArray]] = {}

    def noted(one: Any) -> SeenArray | None:
        found = seen(one)
        if found is not None:
            arrays[id(one)] = one, found
        return found

    text = Sampler(noted).of(value).text
    read = {}
    if values is not None:
        for key, (one, _) in arrays.items():
            found = values(one)
            if found is None or time.thread_time() > until:
                return text
            read[key] = found
    if not any(read.values()):
        return text

    def with_values(one: Any) -> SeenArray | None:
        if not read.get(id(one)):
            return seen(one)
        known = arrays[id(one)][1]
        return SeenArray(known.text + read[id(one)], whole=True, own=known.own)

    return f"{text.removesuffix(OPEN)}{READ}{Sampler(with_values).of(value).text}"


def glance(value: Any) -> SeenArray | None:
    """Return the description of a JAX array without its values; None for anything else."""
    if _package(type(value)) not in ("jax", "jaxlib") or not hasattr(value, "dtype"):
        return None
    alone = getattr(value, "is_fully_addressable", None)
    if not isinstance(alone, bool):
        return None
    if value.is_deleted():
        return gone(value)
    own = alone or is_key(value)
    return SeenArray(f"array {value.dtype} {value.shape} {alone}", whole=not own, own=own)


def gone(array: Any) -> SeenArray:
    """Return the description of a JAX array that has no values any more, such as a lost one."""
    return SeenArray(f"array {array.dtype} {array.shape} deleted", whole=True, own=False)


def is_key(value: Any) -> bool:
    """Return whether an array may be a key of random numbers, which differ between processes on purpose."""
    name = str(value.dtype)
    return name.startswith("key<") or (name == "uint32" and value.shape[-1:] in ((2,), (4,)))


def digest_of(value: object) -> str:
    """Return the text of a plain value."""
    return Sampler().of(value).text


class Sampler:
    """A look at one value.

    Args:
      seen: Describes arrays of frameworks, and other objects that frameworks look at themselves.
      passing: Whether the look must be short, on any thread: then the text of a value stays open (`OPEN`) if the
        value is large, or can only be read by pickling it.
    """

    def __init__(
        self, seen: Callable[[Any], SeenArray | None] = glance, *, passing: bool = True
    ) -> None:
        self._seen = seen
        self._passing = passing
        self._left = MOST_INSIDE if passing else sys.maxsize
        self._open = self._own = False
        # By `id`. The object is kept beside its text, so that no other object gets its `id`. None: the object is
        # being read.
        self._known: dict[int, tuple[Any, bytes | None]] = {}

    def of(self, value: Any) -> Sample:
        """Return the sample of a value."""
        try:
            found = self._token(value, 0)
        except Exception:  # noqa: BLE001 - it may change while it is looked at
            self._open = self._own = True
            found = _name(type(value)).encode()
        return Sample(_hashed(found).hex() + (OPEN if self._open else ""), self._own)

    def _token(self, value: Any, depth: int) -> bytes:
        kind = type(value)
        if kind in PLAIN:
            self._own = True
            return _hashed(_plain(value))
        self._left -= 1
        if depth > DEEPEST or self._left < 0:
            self._open = self._own = True
            return _hashed(_name(kind).encode())
        known = self._known.get(id(value))
        if known is not None:
            return known[1] or b"itself"
        self._known[id(value)] = value, None
        found = self._joined(self._parts(value, kind), depth)
        self._known[id(value)] = value, found
        return found

    def _joined(self, parts: _Parts, depth: int) -> bytes:
        inside = parts.inside
        if len(inside) // LOOKED_AT > self._left:
            self._open = self._own = True
            inside = [*inside[:: len(inside) // LOOKED_AT], inside[-1]]
        begin = _plain((parts.name, len(parts.inside)))
        if set(map(type, inside)) <= PLAIN and not parts.unordered:
            # Much faster than element by element.
            self._left -= len(inside) // LOOKED_AT
            self._own = self._own or bool(inside)
            return _hashed(begin, _plain([*inside]))
        if not parts.unordered and self._are_rows(inside):
            return _hashed(begin, _plain([*inside]))
        if _are_devices_of_several(inside):
            tokens = [_hashed(_plain((one.platform, one.id))) for one in inside]
        else:
            tokens = [self._token(one, depth + 1) for one in inside]
        return _hashed(begin, *(sorted(tokens) if parts.unordered else tokens))

    def _are_rows(self, inside: Sequence[Any]) -> bool:
        """Return whether these are lists of plain data, not too many: they are read as fast as plain data."""
        if not set(map(type, inside)) <= ROWS:
            return False
        count = sum(map(len, inside))
        if (
            count // LOOKED_AT > self._left
            or not set(map(type, chain.from_iterable(inside))) <= PLAIN
        ):
            return False
        self._left -= count // LOOKED_AT
        self._own = self._own or count > 0
        return True

    def _parts(self, value: Any, kind: type) -> _Parts:
        if kind in (list, tuple):
            return _Parts((kind.__name__,), value)
        if kind is dict:
            return _mapping(value, kind)
        seen = self._seen(value)
        if seen is not None:
            self._own, self._open = self._own or seen.own, self._open or not seen.whole
            return _Parts((seen.text,))
        numpy: Any = sys.modules.get("numpy")
        if numpy is not None and issubclass(kind, (numpy.ndarray, numpy.generic)):
            return self._numpy(numpy, value, kind)
        if issubclass(kind, (types.ModuleType, weakref.ref)):
            return _Parts((_name(kind), getattr(value, "__name__", "")))
        code = _code(value, kind)
        if code is not None:
            return code
        if kind in _READ:
            return _Parts((_name(kind),), _READ[kind](value))
        return self._place(value, kind) or self._object(value, kind)

    def _numpy(self, numpy: Any, value: Any, kind: type) -> _Parts:
        """Return the parts of an array or a scalar; attributes that a subclass adds count as well."""
        plain = (
            numpy.asarray(value) if issubclass(kind, numpy.generic) else value.view(numpy.ndarray)
        )
        name = _name(kind), str(plain.dtype), plain.shape
        self._own = True
        more = [] if kind is numpy.ndarray else [attributes(value)]
        if plain.dtype.hasobject:
            return _Parts(name, [*plain.flat[: self._left].tolist(), *more])
        if self._passing and plain.nbytes > MOST_BYTES:
            self._open = True
            plain = plain.flat[numpy.linspace(0, plain.size - 1, LOOKED_AT).astype(int)]
        data = numpy.ascontiguousarray(plain).reshape(-1).view(numpy.uint8) if plain.size else b""
        return _Parts((*name, _hashed(data)), more)

    def _place(self, value: Any, kind: type) -> _Parts | None:
        """Return the parts of JAX devices, meshes and shardings; a process's own devices count by place."""
        if _package(kind) not in ("jax", "jaxlib"):
            return None
        if kind.__name__ == "Device":
            return _Parts((_name(kind), _which(value)))
        if kind.__name__ == "SingleDeviceSharding":
            return _Parts((_name(kind), *map(_which, value.device_set)))
        if kind.__name__ == "Mesh":
            alone = "" if value.is_multi_process else _which(value.devices.flat[0])
            return _Parts((_name(kind), value.axis_names, value.devices.shape, alone))
        if kind.__name__ == "NamedSharding":
            return _Parts((_name(kind), repr(value.spec)), [value.mesh])
        if kind.__name__ == "PyTreeDef":  # classes of the user's would make its text
            return _Parts((_name(kind), value.num_nodes, value.num_leaves))
        if kind.__name__ == "PartitionSpec":
            return _Parts((_name(kind), repr(value)))
        is_place = kind.__name__ == "AbstractMesh" or kind.__name__.endswith("Sharding")
        return _Parts((_name(kind),)) if is_place else None

    def _object(self, value: Any, kind: type) -> _Parts:
        """Return an object's attributes, and its contents as a container that its class is derived from."""
        inside: list[Any] = [attributes(value)]
        if kind.__module__ == NOTEBOOK:
            inside.append(kind)
        base = next(one for one in kind.__mro__ if one in _BASES)
        if has_more(kind, base):
            return self._written_in_c(value, kind, inside)
        parts = _BASES[base](value)
        return parts._replace(
            name=(_name(kind), *parts.name),
            inside=[*inside, *parts.inside],
            unordered=parts.unordered,
        )

    def _written_in_c(self, value: Any, kind: type, inside: list[Any]) -> _Parts:
        """Return the parts of an object that does not list its contents."""
        known = _random_of_numpy(value)
        if known is not None:
            inside = known
        elif _package(kind) in ("jax", "jaxlib"):
            self._open = True
        elif self._passing:
            self._open = self._own = True
            inside += _suspended(value, kind)
        else:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    proxy = kind is types.MappingProxyType
                    inside.append({**value} if proxy else value.__reduce_ex__(4))
            except Exception:  # noqa: BLE001 - any object's own
                self._open = self._own = True
        return _Parts((_name(kind),), inside)


def _code(value: Any, kind: type) -> _Parts | None:
    """Return code and captured values of a function, a class or a wrapper of them; None for anything else."""
    if issubclass(kind, type):
        return _class(value)
    if kind is types.FunctionType:
        name = _name(kind), f"{value.__module__}.{value.__qualname__}", code_digest(value)
        cells = [captured(cell) for cell in value.__closure__ or ()]
        keywords = value.__kwdefaults__
        return _Parts(name, [value.__defaults__ or (), keywords or (), value.__dict__, *cells])
    if kind is types.MethodType:
        return _Parts((_name(kind),), [value.__func__, value.__self__])
    if kind in (types.BuiltinFunctionType, types.MethodWrapperType):
        of = value.__self__
        inside = [] if of is None or issubclass(type(of), types.ModuleType) else [of]
        return _Parts((_name(kind), value.__qualname__), inside)
    if issubclass(kind, functools.partial):
        return _Parts((_name(kind),), [value.func, value.args, value.keywords])
    if kind is property:
        return _Parts((_name(kind),), [value.fget, value.fset, value.fdel])
    if kind in (staticmethod, classmethod):
        return _Parts((_name(kind),), [value.__func__])
    wrapped = attributes(value).get("__wrapped__") if _package(kind) in WRAPPERS else None
    # A wrapper's other contents, such as compiled programs, are each process's own.
    return None if wrapped is None else _Parts((_name(kind),), [wrapped])


def _class(cls: type) -> _Parts:
    if cls.__module__ != NOTEBOOK:
        return _Parts(("class", _name(cls)))
    members = class_dict(cls)
    own = {n: v for n, v in members.items() if not (n.startswith("__") and n.endswith("__"))}
    described = {n: v for n, v in own.items() if type(v) not in _OF_CLASSES}
    # A class that came from another process has its members in another order.
    ordered = dict(sorted(described.items()))
    return _Parts(("class", cls.__name__, code_digest(cls)), [ordered, *cls.__bases__])


_OF_CLASSES = (
    *(types.MemberDescriptorType, types.GetSetDescriptorType),
    *(type(vars(_Parts)["inside"]), type(vars(Sequence)["_abc_impl"])),
)
"""Members that Python adds to a class: slots, fields of a named tuple, and the cache of an abstract class."""


def _mapping(value: Any, kind: type) -> _Parts:
    keys, values = [*dict.keys(value)], [*dict.values(value)]
    if set(map(type, keys)) <= PLAIN:
        return _Parts((_name(kind), tuple(keys)), values)
    return _Parts((_name(kind),), [*keys, *values])


def _reduced(value: Any) -> list[Any]:
    return [*value.__reduce__()]


def _random_of_numpy(value: Any) -> list[Any] | None:
    """Return the state of a NumPy generator of random numbers; None for anything else."""
    if _package(type(value)) != "numpy":
        return None
    if hasattr(value, "get_state"):
        return [value.get_state(legacy=False)]
    of = getattr(value, "bit_generator", value)
    return [of.state, getattr(of, "seed_seq", None)] if hasattr(of, "state") else None


def _suspended(value: Any, kind: type) -> list[Any]:
    """Return where a generator is, and its variables; its position in what it iterates over is unknown."""
    frame = value.gi_frame if kind is types.GeneratorType else None
    return [] if frame is None else [value.__qualname__, frame.f_lasti, dict(frame.f_locals)]


_arguments = BaseException.__dict__["args"].__get__

_BASES: Mapping[type, Callable[[Any], _Parts]] = {
    object: lambda value: _Parts(()),
    list: lambda value: _Parts((), [*list.__iter__(value)]),
    tuple: lambda value: _Parts((), [*tuple.__iter__(value)]),
    set: lambda value: _Parts((), [*set.__iter__(value)], unordered=True),
    frozenset: lambda value: _Parts((), [*frozenset.__iter__(value)], unordered=True),
    dict: lambda value: _mapping(value, dict),
    OrderedDict: lambda value: _mapping(value, dict),
    defaultdict: lambda value: _mapping(value, dict),
    deque: lambda value: _Parts((value.maxlen,), [*deque.__iter__(value)]),
    bytearray: lambda value: _Parts((), [bytes(value)]),
    int: lambda value: _Parts((), [int.__index__(value)]),
    float: lambda value: _Parts((), [float.__float__(value)]),
    str: lambda value: _Parts((), [str.__str__(value)]),
    bytes: lambda value: _Parts((), [bytes.__bytes__(value)]),
    BaseException: lambda value: _Parts((), [_arguments(value)]),
    random.Random.__base__: lambda value: _Parts((), [random.Random.__base__.getstate(value)]),  # type: ignore
}
"""How to read the contents of Python's own classes, also in objects of derived classes."""

_READ: Mapping[type, Callable[[Any], list[Any]]] = {
    **dict.fromkeys(
        (
            *(range, slice, enumerate, zip, reversed, decimal.Decimal, operator.itemgetter),
            *(operator.attrgetter, operator.methodcaller, datetime.date),
            *(datetime.datetime, datetime.time, datetime.timedelta, datetime.timezone),
            *map(type, (iter([]), iter(()), iter(range(0)), iter(""), iter(b""), reversed([]))),
        ),
        _reduced,
    ),
    **dict.fromkeys(
        (pathlib.PosixPath, pathlib.PurePosixPath, pathlib.WindowsPath), lambda value: [str(value)]
    ),
    re.Pattern: lambda value: [value.pattern, value.flags],
    memoryview: lambda value: [value.format, value.tobytes()],
    types.SimpleNamespace: lambda value: [value.__dict__],
    array.array: lambda value: [value.typecode, value.tobytes()],
}
"""How to read the contents of objects of exactly these classes."""


def _package(kind: type) -> str:
    module = type.__getattribute__(kind, "__module__")
    return module.partition(".")[0] if isinstance(module, str) else ""


def _name(kind: type) -> str:
    """Return a class's name without the enclosing function's, which a class from another process does not have."""
    read = type.__getattribute__
    return f"{read(kind, '__module__')}.{read(kind, '__name__')}"


def _plain(value: Any) -> bytes:
    """Return the bytes of plain data; version 2 of the format does not depend on other references to the data."""
    return marshal.dumps(value, 2)


def _hashed(*parts: Any) -> bytes:
    found = hashlib.blake2b(digest_size=9)
    for part in parts:
        found.update(b"%d:" % len(part))
        found.update(part)
    return found.digest()


def _are_devices_of_several(values: Sequence[Any]) -> bool:
    """Return whether these are JAX devices of several processes; then each counts by its global number."""
    kinds = set(map(type, values))
    return (
        len(kinds) == 1
        and (kind := kinds.pop()).__name__ == "Device"
        and _package(kind) in ("jax", "jaxlib")
        and len({one.process_index for one in values}) > 1
    )


def _which(device: Any) -> str:
    """Return a device of this process by its place among those; any other by its number among all."""
    own = sys.modules["jax"].local_devices(backend=device.platform)
    return f"own {own.index(device)}" if device in own else f"{device.platform} {device.id}"
