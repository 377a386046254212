"""`Data`, the base of every type that crosses a border; to plain data, which JSON carries unchanged, and back.

The type hints of a class are the only description of the format: a tuple becomes a list, an instance a dict of all
its fields, a `Mapping` from texts or whole numbers a dict, whose keys are texts. Members of a union are told apart
by an entry beside their fields (`Tagged`). A value declared as `Any` is plain data, taken as it is.
"""

from __future__ import annotations

import json
import re
from typing import Any, Generic, TypeVar, dataclass_transform, get_args

import msgspec
from msgspec import Struct, StructMeta, field

from nbdist.errors import WireError

T = TypeVar("T")
A = TypeVar("A", covariant=True)
Plain = Any
"""None, bool, int, float, str, and lists and dicts with str keys of these."""


class _DataMeta(StructMeta):
    def __new__(
        mcls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any
    ) -> Any:
        options.setdefault("kw_only", True)  # the only option that subclasses do not inherit
        if "kind" in namespace:
            options.setdefault("tag", namespace["kind"])
        return super().__new__(mcls, name, bases, namespace, **options)


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
class Data(Struct, frozen=True, forbid_unknown_fields=True, metaclass=_DataMeta):
    """Base of every type that crosses a border: immutable, with keyword arguments only.

    `decode` refuses a field that the class does not have. `msgspec.structs.replace` makes a changed copy;
    `dataclasses.replace` passes mypy, and raises `TypeError`.
    """


def in_small_letters(name: str) -> str:
    """Return the words of a class's name: `stop_listening` for `StopListening`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name.rpartition(".")[2]).lower()


class Tagged(Data, tag_field="kind", tag=in_small_letters):
    """Base of classes that are members of a union; on the wire an entry beside the fields says which one it is.

    The entry's name is `tag_field`, the same in all members of a union; its value is `tag`, by default the words
    of the class's name in small letters, such as `stop_listening`. A class variable `kind` is the tag as well, for
    code that tells members apart by it.
    """


class Request(Data, Generic[A]):
    """The arguments of a question to a process or an agent; a class, derived with the type of its answer.

    The type is None where nothing comes back. A `Call` (`nbdist.contract.calls`) goes to a process's main thread,
    in line with cells. An `Aside` (`nbdist.contract.asides`) goes past it, also in the middle of a cell. An order
    (`nbdist.contract.orders`) goes to the agent of a host, whatever the processes do.
    """


def answer_type(request: type[Request[Any]]) -> Any:
    """Return the type of the answer to a request; None if nothing comes back."""
    (base,) = request.__dict__["__orig_bases__"]
    (found,) = get_args(base)
    return None if found is type(None) else found


def to_json(value: object) -> str:
    """Return an instance of `Data`, or of a dataclass, as JSON, every field included.

    Raises:
      WireError: It holds something JSON has no form for: a NumPy integer, a number that is not finite.
    """
    try:
        return json.dumps(msgspec.to_builtins(value, str_keys=True), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise WireError(f"{type(value).__name__} cannot be sent: {error}.") from error


def encode(value: object) -> Plain:
    """Return what `to_json` writes as plain data; where JSON is wanted, `to_json` is half the work.

    Raises:
      WireError: As `to_json`.
    """
    return json.loads(to_json(value))


def from_json(cls: type[T], text: str | bytes) -> T:
    """Read what `to_json` has written; see `decode`.

    Raises:
      WireError: It is no JSON, or of another shape.
    """
    try:
        data = json.loads(text)
    except ValueError as error:
        raise WireError(f"What should be JSON cannot be read: {error}.") from error
    return decode(cls, data)


def decode(cls: type[T], data: Plain) -> T:
    """Read plain data back into the class `cls`, or a union of such classes, checking every value.

    Fields that have a default may be missing. A float may come as an int, since JSON writers
    shorten 3.0 to 3.

    Raises:
      WireError: A value is not what `cls` declares; the text names what is allowed, and the path of the value,
        such as `Report.arrays[3].shape`.
    """
    try:
        return msgspec.convert(data, cls, str_keys=True)
    except msgspec.ValidationError as error:
        what, _, where = str(error).replace("`", "").rpartition(" - at ")
        what, where = (what, where) if what else (where, "$")
        where = where.replace("$", getattr(cls, "__name__", "message"), 1)
        raise WireError(f"{where}: {what[0].lower()}{what[1:]}.") from error
