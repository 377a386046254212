"""Conversion of plans, rendezvous and records to and from plain data that JSON carries.

The type hints of the dataclasses describe the format, as in `nbdist.contract.wire`; here, keys of mappings may
also be numbers. Nothing that is read here comes from another machine.
"""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")


def to_plain(value: Any) -> Any:
    """Return dataclasses and mappings as dicts, tuples and sets as lists, paths as text."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): to_plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [to_plain(item) for item in value]
    return str(value) if isinstance(value, Path) else value


def from_plain(kind: type[T], data: Any) -> T:
    """Read a value of this dataclass back from the result of `to_plain`.

    Missing fields get their defaults; fields that the class does not have are ignored.

    Raises:
      ValueError: The data are not of this form.
    """
    try:
        return _read(kind, data)  # type: ignore[no-any-return]
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"This is no {kind.__name__}: {error}") from error


def _read(hint: Any, data: Any) -> Any:
    origin, arguments = get_origin(hint), get_args(hint)
    if is_dataclass(hint) and isinstance(hint, type):
        return _read_record(hint, data)
    if origin in (Union, types.UnionType):
        kinds = [kind for kind in arguments if kind is not type(None)]
        return None if data is None else _read(kinds[0], data)
    if origin is tuple:
        if arguments[1:] == (...,):
            return tuple(_read(arguments[0], item) for item in data)
        return tuple(_read(kind, item) for kind, item in zip(arguments, data, strict=True))
    if origin is not None and issubclass_of(origin, Mapping):
        return {_read(arguments[0], key): _read(arguments[1], item) for key, item in data.items()}
    if origin is not None and origin is not Literal and issubclass_of(origin, Sequence):
        return [_read(arguments[0], item) for item in data]
    if hint in (int, float) and data is not None:
        return hint(data)
    return data


def issubclass_of(kind: Any, base: type) -> bool:
    """Return the result of `issubclass`, and False for a `kind` that is no class."""
    return isinstance(kind, type) and issubclass(kind, base)


def _read_record(kind: type, data: Mapping[str, Any]) -> Any:
    hints = get_type_hints(kind)
    names = {field.name for field in fields(kind)}
    return kind(**{name: _read(hints[name], data[name]) for name in data if name in names})
