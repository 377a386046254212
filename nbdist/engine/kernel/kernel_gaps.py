"""Gaps of ipykernel inside an ipyparallel engine, each closed by one function, and calls that may be interrupted.

An engine knows a call by the label of its request before it unpickles the call (`interruptible`).
"""

from __future__ import annotations

import contextvars
import re
import threading
import warnings
from collections.abc import Callable
from typing import Any

from nbdist.errors import SessionError
from nbdist.spelling import command


def allow_await(kernel: Any) -> bool:
    """Make cells with a top-level `await` run on an engine, and make them interruptible.

    Private API: ipykernel 7 asks `kernel.shell_channel_thread.parent_thread` before it awaits a cell; an
    engine has no such thread, and the cell would end without a reply (ipykernel 7.4,
    `IPythonKernel.do_execute`). A stand-in answers that question. By the same attribute ipykernel decides whether
    there are subshells (`_supports_kernel_subshells`), so the kernel's class says no to that by itself.

    Returns:
      True if anything had to be done.
    """
    if getattr(kernel, "shell_channel_thread", False) is not None:
        return False
    without_subshells = {"_supports_kernel_subshells": False}
    kernel.__class__ = type("EngineKernel", (type(kernel),), without_subshells)
    kernel.shell_channel_thread = _NoShellThread()
    return True


class _NoShellThread:
    """A stand-in for the missing thread: false, as None was, and able to say on which thread cells run."""

    parent_thread = threading.main_thread()

    def __bool__(self) -> bool:
        return False


def threads_speak_for_cells(shell: Any) -> None:
    """Make output of threads appear as output of the newest cell, also when a call has come after it.

    ipykernel takes what a thread without a context of its own shows (a thread of Python before 3.14, a callback of
    XLA) for output of the newest request. Between cells nbdist sends other requests, whose output nobody sees.
    """
    set_parent = shell.set_parent
    newest: list[Any] = []

    def set_parent_of_cells(parent: Any) -> None:
        set_parent(parent)
        if (parent or {}).get("header", {}).get("msg_type") == "execute_request":
            newest[:] = [parent]
        elif newest:
            # In a context of its own this changes only the parent that threads fall back on.
            contextvars.Context().run(set_parent, newest[0])

    shell.set_parent = set_parent_of_cells


def refuse_input(kernel: Any, *, wanted: Callable[[], bool], ask: Callable[[str], str]) -> None:
    """Make `input()` and `getpass()` fail with a text that helps, except in a debugger.

    For each cell, ipykernel binds the two to public methods of the kernel, which this function replaces.

    Args:
      kernel: The kernel of ipyparallel's engine.
      wanted: Returns whether a debugger reads commands.
      ask: Takes a prompt and returns the command that a person types.
    """

    def refuse(prompt: object = "", *_: object, **__: object) -> str:
        if wanted():
            return ask(str(prompt))
        raise SessionError(
            f"input({str(prompt)!r}) cannot be answered: the processes have no keyboard. Ask in the notebook "
            f"and send the answer with {command('push')}."
        )

    kernel.raw_input = refuse
    kernel.getpass = refuse


def refuse_exit(shell: Any) -> None:
    """Make `exit` and `quit` in a cell fail with a text that helps; they would end the process.

    IPython's `exit` calls the public method `ask_exit` of its shell. After a `sys.exit()` IPython warns that one
    should use `exit` instead, which is wrong on an engine.
    """

    def refuse() -> None:
        raise SessionError(
            "exit() and quit() would end this process and lose its variables. Nothing was ended. raise or "
            f"sys.exit() leaves a cell; {command('shutdown')} ends the session."
        )

    shell.ask_exit = refuse
    warnings.filterwarnings("ignore", message="To exit: use", category=UserWarning)


def explain_incomplete(shell: Any) -> None:
    """Make a cell with an open bracket fail with Python's own `'(' was never closed`.

    IPython compiles cells as if more lines could follow, and Python 3.13 then says `_IncompleteInputError`.
    """
    shell.compile.reset_compiler_flags()


def name_cells_alike(shell: Any) -> None:
    """Compile a cell under the same file name on all processes, so that the tracebacks they print are equal.

    ipykernel's name, `/tmp/ipykernel_4711/123.py`, contains the id of the process. The method is public.
    """
    get_code_name = shell.compile.get_code_name

    def named(*args: Any, **options: Any) -> str:
        return re.sub(r"(?<=ipykernel_)\d+", "0", get_code_name(*args, **options))

    shell.compile.get_code_name = named


def show_help(shell: Any) -> None:
    """Make `name?` in a cell show its text as output of the cell.

    ipykernel sends the text as a payload of the reply, for a pager of the front end; ipyparallel drops payloads.
    """

    def show(_: Any, data: Any, start: int = 0, screen_lines: int = 0) -> None:
        bundle = data if isinstance(data, dict) else {"text/plain": str(data)}
        kept = {mime: value for mime, value in bundle.items() if mime.startswith("text/")}
        shell.display_pub.publish(data=kept)

    shell.set_hook("show_in_pager", show, priority=10)


def allow_shell_commands() -> None:
    """Hide JAX's warning about forks for `!command` alone.

    IPython runs a command by fork and exec at once, which is safe beside JAX's threads; the warning, on every
    process and every command, would hide the command's own output.
    """
    warnings.filterwarnings("ignore", message=r"os\.fork\(\) was called", module="pty")


LOOKS = frozenset({"complete", "inspect", "layout"})
"""The calls that go to one process alone, and in which an attribute of a user's object may compute."""

INTERRUPTIBLE = LOOKS | {
    *(
        "initialize",
        "offer",
        "widget",
        "digests",
        "receive",
        "ready",
        "shards",
        "nan",
        "program",
        "summary",
        "save_arrays",
        "read_arrays",
    )
}
"""The calls that run user code, or wait for other processes. An interrupt would leave any other call half done."""

PREFIX = "nbdist."
"""The start of the labels of nbdist's calls; the name of the call follows."""


def interruptible(label: str | None) -> bool:
    """Return whether a call with this label may be interrupted; every call that is not nbdist's may be."""
    if label is None or not label.startswith(PREFIX):
        return True
    return label.removeprefix(PREFIX) in INTERRUPTIBLE
