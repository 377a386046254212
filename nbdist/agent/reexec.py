"""Variables that count at the start of a process only: a parent that is given one begins anew with it.

Those of a parent on this machine are there when it starts; over ssh they come with the first order.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping

AT_START = ("PYTHON", "LD_", "DYLD_", "MALLOC_", "GLIBC_")
"""What the interpreter, the dynamic linker and the C library read once."""

OPTION = "--unread"


def too_late(environment: Mapping[str, str]) -> bool:
    """Whether some of these variables would have no effect on this process any more.

    False in a process that has begun anew: whatever changes them back would do so again.
    """
    return OPTION not in sys.argv and any(
        name.startswith(AT_START) and os.environ.get(name) != value
        for name, value in environment.items()
    )


def begin_anew(environment: Mapping[str, str], *, orders: bytes, output: int) -> None:
    """Puts a new interpreter in the place of this one; does not return.

    Args:
      environment: What is to be added to this process's.
      orders: What has been read of standard input and not been obeyed.
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
    """The orders that an earlier self of this process has read; none where it is the first."""
    if OPTION not in arguments:
        return b""
    with os.fdopen(int(arguments[arguments.index(OPTION) + 1]), "rb") as file:
        return file.read()
