"""How an option of a start or a plan is written: `--start-timeout 60` in a line, `start_timeout_s=60` in Python.

Texts name options with `option`. Whoever calls `nbdist.start` or `nbdist.plan` reads them as its parameters; all
others, in magics and on the command line, as what they type there.

Source: imports nothing outside the standard library.
"""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from typing import Any

FLAGS = {
    "processes": "-n",
    "environment": "--env",
    "recover": "--no-recover",
    "initialize": "--no-initialize",
    "slurm_options": "--slurm-option",
    "mpi_options": "--mpi-option",
}
"""Where it is not the parameter's name with hyphens, and without its unit."""

ALONE = {"tpu": "here"}
"""Values for which the flag stands alone."""

_in_python: ContextVar[bool] = ContextVar("nbdist_in_python", default=False)


class Placeholder(str):
    """Stands for a value that a person is to choose, such as `FILE`."""

    def __repr__(self) -> str:
        return str(self)


_NO_VALUE = Placeholder()


@contextlib.contextmanager
def python() -> Iterator[None]:
    """Texts that are made within name parameters: who called is Python."""
    before = _in_python.set(True)
    try:
        yield
    finally:
        _in_python.reset(before)


def flag(name: str) -> str:
    """The option of `%dist_init` for a parameter of `nbdist.start`, such as `--no-initialize`."""
    return FLAGS.get(name) or "--" + name.removesuffix("_s").replace("_", "-")


def option(name: str, value: Any = _NO_VALUE) -> str:
    """An option as the person who reads it types it.

    Args:
      name: As `nbdist.start` has it.
      value: With it, how the option is given this value; a `Placeholder` is written as it is.
    """
    if _in_python.get():
        return name if value is _NO_VALUE else f"{name}={_literal(value)}"
    if value is _NO_VALUE or isinstance(value, bool) or value == ALONE.get(name):
        return flag(name)
    if isinstance(value, Mapping):
        return " ".join(f"{flag(name)} {_word(f'{key}={its}')}" for key, its in value.items())
    if isinstance(value, list | tuple):
        return " ".join(f"{flag(name)} {_word(one)}" for one in value)
    return f"{flag(name)} {_number(value)}"


def start_with(name: str, value: Any) -> str:
    """A start with an option, such as `%dist_init --keep` or `nbdist.start(keep=True)`."""
    given = option(name, value)
    return f"nbdist.start({given})" if _in_python.get() else f"%dist_init {given}"


def do_instead(what: str) -> str:
    """A parameter's name as what to use instead; any other text as it is."""
    return f"use {option(what)}" if what.isidentifier() else what


def _literal(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key!r}: {its!r}" for key, its in value.items()) + "}"
    return _number(value) if isinstance(value, int | float) else repr(value)


def _word(text: str) -> str:
    """As it is typed in a line: in quotes where it would be taken apart."""
    return shlex.quote(text) if any(sign.isspace() or sign in "'\"\\#;" for sign in text) else text


def _number(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
