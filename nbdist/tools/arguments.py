"""The arguments of the tools: dataclasses, from which JSON schemas and options of commands are made.

The text beside a field's type says what the field is; a second text says it for the command, where that differs. A
field with a default is optional.
"""

from __future__ import annotations

import argparse
import math
import types
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

from nbdist.contract.wire import decode
from nbdist.errors import OptionError, WireError
from nbdist.spelling import flag

A = TypeVar("A")

MOST_ARRAYS = 100
"""How many arrays are listed where nothing else is asked for."""

MOST_CHARACTERS = 20_000
"""How many characters of a cell's output an answer has where nothing else is asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfSession:
    """The argument of every tool."""

    session: Annotated[str, "Id of the session, or its beginning; needed if several run."] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfArrays(OfSession):
    """Arguments of `arrays`."""

    find: Annotated[str, "List only arrays whose path contains this text."] = ""
    most: Annotated[int, "List at most this many arrays, the largest first."] = MOST_ARRAYS


@dataclass(frozen=True, slots=True, kw_only=True)
class OfStacks(OfSession):
    """Arguments of `stacks`."""

    on: Annotated[str, "Processes, such as 0,2-3: all their threads; default: main threads."] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfShards(OfSession):
    """Arguments of `shards`."""

    path: Annotated[str, "A name, or a path as `arrays` lists it, such as params['w']."]


@dataclass(frozen=True, slots=True, kw_only=True)
class OfExplain(OfSession):
    """Arguments of `explain`."""

    call: Annotated[str, "A call of a function made by jax.jit, such as step(params, batch)."]


@dataclass(frozen=True, slots=True, kw_only=True)
class OfFollowed(OfSession):
    """Arguments of the tools that wait for a cell."""

    wait: Annotated[
        bool,
        "Wait for the cell's end, as long as one call may; false: only until it has been sent.",
        "Return once the cell has been sent.",
    ] = True
    most_characters: Annotated[int, "The most characters of output in the answer."] = (
        MOST_CHARACTERS
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class OfRunCell(OfFollowed):
    """Arguments of `run_cell`."""

    code: Annotated[
        str,
        "The cell: statements, and what IPython runs, such as !ls.",
        "The cell: statements, and what IPython runs, such as !ls; - reads it from standard input.",
    ]
    on: Annotated[str, "Processes, such as 0,2-3 or host=h1; default: all."] = ""
    timeout_s: Annotated[float | None, "Interrupt the cell after this many seconds."] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OfFollowCell(OfFollowed):
    """Arguments of `follow_cell`."""

    cell: Annotated[int, "The number of the cell, as it was returned when the cell was sent."]


@dataclass(frozen=True, slots=True, kw_only=True)
class OfInterruptCell(OfSession):
    """Arguments of `interrupt_cell`."""

    cell: Annotated[int, "The number of the cell, as it was returned when the cell was sent."]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One field of a dataclass of arguments.

    `says` is for a tool, `command_says` for the option of a command. `default` is None where `required`, or where
    there is none.
    """

    name: str
    type: type
    says: str
    command_says: str
    required: bool
    default: Any

    @property
    def flag(self) -> str:
        """The option of the command; of what is true by default, the option that turns it off."""
        return f"--no-{self.name}" if self.default is True else flag(self.name)


def parameters(cls: type) -> tuple[Parameter, ...]:
    """Return the fields of a dataclass of arguments, the required ones first."""
    hints = get_type_hints(cls, include_extras=True)
    found = []
    for field in fields(cls):
        hint, *said = get_args(hints[field.name])
        if get_origin(hint) in (Union, types.UnionType):
            (hint,) = (one for one in get_args(hint) if one is not type(None))
        required = field.default is MISSING
        default = None if required else field.default
        found.append(
            Parameter(
                name=field.name,
                type=hint,
                says=said[0],
                command_says=said[-1],
                required=required,
                default=default,
            )
        )
    return tuple(sorted(found, key=lambda one: not one.required))


_JSON = {str: "string", int: "integer", float: "number", bool: "boolean"}


def schema(cls: type) -> dict[str, Any]:
    """Return the JSON schema of a dataclass of arguments."""
    properties = {}
    for one in parameters(cls):
        properties[one.name] = {"type": _JSON[one.type], "description": one.says}
        if one.default is not None:
            properties[one.name]["default"] = one.default
    return {
        "type": "object",
        "properties": properties,
        "required": [one.name for one in parameters(cls) if one.required],
        "additionalProperties": False,
    }


def read(cls: type[A], given: Mapping[str, Any]) -> A:
    """Return the arguments that plain data holds.

    Raises:
      OptionError: One is missing, unknown or of another type; the text names it and what is allowed.
    """
    known = {one.name: one for one in parameters(cls)}
    for name in given.keys() - known.keys():
        raise OptionError(f"there is no argument {name}; there are {', '.join(known)}.")
    for name in known.keys() - given.keys():
        if known[name].required:
            raise OptionError(f"argument {name} is missing: {known[name].says}")
    try:
        found = decode(cls, dict(given))
    except WireError as error:
        # The path begins with the name of the dataclass, which is none of the caller's words.
        raise OptionError(str(error).replace(f"{cls.__name__}.", "argument ")) from None
    for name in known:
        value = getattr(found, name)
        if type(value) in (int, float) and not 0 <= value < math.inf:
            raise OptionError(f"argument {name} is {value:g}; allowed: 0 or more, and finite.")
    return found


def add_to(parser: argparse.ArgumentParser, cls: type) -> None:
    """Add the arguments to a command: required ones as words in their order, the others as options."""
    for one in parameters(cls):
        if one.required:
            parser.add_argument(
                one.name, type=one.type, metavar=one.name.upper(), help=one.command_says
            )
        elif one.type is bool:
            parser.add_argument(
                one.flag, dest=one.name, action="store_false", help=one.command_says
            )
        else:
            metavar = "S" if one.name.endswith("_s") else "N" if one.type is int else "TEXT"
            parser.add_argument(
                one.flag,
                dest=one.name,
                type=one.type,
                default=one.default,
                metavar=metavar,
                help=one.command_says,
            )
