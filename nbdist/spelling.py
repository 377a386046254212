"""Options and commands as the reader of a text types them: in Python, or in a magic or shell.

Texts for a person who calls `nbdist.start` or a method of `Session` say `start_timeout_s=60` and
`session.recover()`; texts for a person who types a magic or a shell command say `--start-timeout 60` and
`%dist_recover`. A call counts as Python unless a magic or a command sets another `Door` while it runs. Threads
that finish a call's work inherit its context, and requests to the processes carry its door.

Source: imports nothing outside the standard library.
"""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from enum import Enum
from typing import Any, Literal

FLAGS = {
    "processes": "-n",
    "environment": "--env",
    "recover": "--no-recover",
    "initialize": "--no-initialize",
    "slurm_options": "--slurm-option",
    "mpi_options": "--mpi-option",
    "limit_bytes": "--yes",
}
"""Flags that are not the parameter's name with hyphens and without its unit."""

COMMANDS = {
    "start": ("%dist_init", "nbdist.start()"),
    "attach": ("%dist_init --attach {}", "nbdist.attach({})"),
    "restart": ("%dist_init --restart", "session.restart()"),
    "recover": ("%dist_recover", "session.recover()"),
    "without": ("%dist_recover --without HOST", "session.recover(without='HOST')"),
    "shutdown": ("%dist_shutdown", "session.shutdown()"),
    "doctor": ("%dist_doctor", "nbdist doctor"),
    "interrupt": ("%dist_interrupt", "session.interrupt()"),
    "interrupt_cell": ("%dist_cells {} --interrupt", "session.interrupt({})"),
    "stop_at_step": ("%dist_interrupt --stop-at-step", "session.stop_at_step()"),
    "sync": ("%sync", "session.sync()"),
    "sync_files": ("%dist_sync", "session.sync_files()"),
    "status": ("%dist_status", "session.status()"),
    "why": ("%dist_why", "session.why()"),
    "stacks": ("%dist_stack", "session.stacks()"),
    "stacks_of": ("%dist_stack {}", "session.stacks([{}])"),
    "debug": ("%dist_debug {}", "session.debug([{}])"),
    "cell": ("%%dist cell", "cell of session.run"),
    "unchecked": ("%%dist --no-check", "session.run(…, check=False)"),
    "push": ("%dist_push", "session.push"),
    "pull": ("%dist_pull", "session.pull"),
    "save": ("%dist_save", "session.save"),
    "restore": ("%dist_restore", "session.restore"),
    "mesh": ("%dist_mesh", "session.mesh()"),
    "rehearse": ("%%dist_rehearse", "nbdist rehearse"),
}
"""By name: the magic, and the call in Python. The doctor, and a rehearsal of a cell or a script, have no call; the
shell has commands for them."""

ALONE = {"tpu": "here"}
"""Values for which the flag stands alone."""


class Door(Enum):
    """The way by which a person reaches nbdist."""

    PYTHON = "python"
    """A call of `nbdist.start`, or of a method of its result."""

    MAGIC = "magic"
    """A magic, a command in a shell, or the view in the notebook."""


_door: ContextVar[Door] = ContextVar("nbdist_door", default=Door.PYTHON)


class Placeholder(str):
    """A value that the reader must choose, such as `FILE`."""

    def __repr__(self) -> str:
        return str(self)


_NO_VALUE = Placeholder()


@contextlib.contextmanager
def through(door: Door) -> Iterator[None]:
    """Spell the texts made in the block for a person who came through this door."""
    before = _door.set(door)
    try:
        yield
    finally:
        _door.reset(before)


def enter(door: Door) -> None:
    """Do as `through`, until another door is entered in the same context; for the start of a cell on a process."""
    _door.set(door)


def door() -> Door:
    """Return the door of the call in progress."""
    return _door.get()


def door_sent() -> Literal["python", "magic"]:
    """Return the door of the call in progress in the form that goes to a process with a cell."""
    return "magic" if _door.get() is Door.MAGIC else "python"


def flag(name: str) -> str:
    """Return a magic's option for a parameter of its call in Python, such as `--no-initialize`."""
    return FLAGS.get(name) or "--" + name.removesuffix("_s").replace("_", "-")


def option(name: str, value: Any = _NO_VALUE) -> str:
    """Return an option as the person who reads it types it.

    Args:
      name: As in `nbdist.start`, or in the method of `Session`.
      value: If given, show how the option gets this value; a `Placeholder` is written as it is.
    """
    if _door.get() is Door.PYTHON:
        return name if value is _NO_VALUE else f"{name}={_literal(value)}"
    if value is _NO_VALUE or isinstance(value, bool) or value == ALONE.get(name):
        return flag(name)
    if isinstance(value, Mapping):
        return " ".join(f"{flag(name)} {_word(f'{key}={its}')}" for key, its in value.items())
    if isinstance(value, list | tuple):
        return " ".join(f"{flag(name)} {_word(str(one))}" for one in value)
    return f"{flag(name)} {value if isinstance(value, Placeholder) else _word(_number(value))}"


def start_with(name: str, value: Any) -> str:
    """Return a start with an option, such as `%dist_init --keep` or `nbdist.start(keep=True)`."""
    given = option(name, value)
    return f"nbdist.start({given})" if _door.get() is Door.PYTHON else f"%dist_init {given}"


def command(name: str, *values: Any) -> str:
    """Return the command to type, such as `%dist_stack 1` or `session.stacks(1)`.

    Args:
      name: A key of `COMMANDS`.
      *values: The command's arguments; a `Placeholder` is written as it is.
    """
    magic, python = COMMANDS[name]
    if _door.get() is Door.PYTHON:
        return python.format(*map(_literal, values))
    return magic.format(*values)


def sentence(text: str) -> str:
    """Return a text with its commands, written in braces (`{recover} tries again.`), filled in for the reader."""
    return text.format_map({name: COMMANDS[name][_door.get() is Door.PYTHON] for name in COMMANDS})


def do_instead(what: str) -> str:
    """Return the option to use instead, given a parameter's name; any other text unchanged."""
    return f"use {option(what)}" if what.isidentifier() else what


def _literal(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key!r}: {its!r}" for key, its in value.items()) + "}"
    return _number(value) if isinstance(value, int | float) else repr(value)


def _word(text: str) -> str:
    """Return a word as it is typed in a line: in quotes where it would be split."""
    if not any(sign.isspace() or sign in "'\"\\#;" for sign in text):
        return text
    if "'" in text and not any(sign in '"\\' for sign in text):
        return f'"{text}"'  # shlex.quote would write each ' as '"'"'
    return shlex.quote(text)


def _number(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
