"""Variables that count at the start of a process only: an agent that is sent one starts anew with it.

An agent on this machine has them when it starts; over ssh they come with the first order.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping

AT_START = ("PYTHON", "LD_", "DYLD_", "MALLOC_", "GLIBC_")
"""Beginnings of variables that the interpreter, the dynamic linker and the C library read once."""

OPTION = "--unread"


def too_late(environment: Mapping[str, str]) -> bool:
    """Return whether some of these variables would have no effect on this process any more.

    False in a process that has begun anew: if something changed a variable back, it would do so again.
    """
    return OPTION not in sys.argv and any(
        name.startswith(AT_START) and os.environ.get(name) != value
        for name, value in environment.items()
    )


def begin_anew(environment: Mapping[str, str], *, orders: bytes, output: int) -> None:
    """Replace this process by a new interpreter; do not return.

    Args:
      environment: Variables to add to this process's.
      orders: The bytes of standard input that were read and not obeyed.
      output: The descriptor that is to be standard output.
    """
    with tempfile.TemporaryFile() as file:
        file.write(orders)
        file.seek(0)
        os.set_inheritable(file.fileno(), True)
        os.dup2(output, 1)
        command = [sys.executable, *sys.orig_argv[1:], OPTION, str(file.fileno())]
        os.execve(sys.executable, command, {**os.environ, **environment})


def unread(arguments: list[str]) -> bytes:
    """Return the orders that this process read before it began anew; empty if it has not."""
    if OPTION not in arguments:
        return b""
    with os.fdopen(int(arguments[arguments.index(OPTION) + 1]), "rb") as file:
        return file.read()
