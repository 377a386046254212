"""Private API of IPython and ipykernel that nbdist uses: for each name, the reason and what happens without it.

Check this file against each new release of either. Processes, kernels and rehearsals all use it, so it is below
all other packages, and it imports neither library.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def allow_await(kernel: Any) -> bool:
    """Make cells with a top-level `await` run on an engine, and make them interruptible.

    ipykernel 7 asks `kernel.shell_channel_thread.parent_thread` before it awaits a cell; an engine has no such
    thread, and the cell would end without a reply (ipykernel 7.4, `IPythonKernel.do_execute`). A stand-in answers
    that question. ipykernel uses the same attribute to decide whether there are subshells
    (`_supports_kernel_subshells`), so the kernel's class is made to say no.

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
    """A stand-in for the missing thread: false, as None is, and with the thread on which cells run."""

    parent_thread = threading.main_thread()

    def __bool__(self) -> bool:
        return False


TAKE_ERRORS = ("_showtraceback", "_format_exception_for_storage")
"""The methods of shells that take the text of an error: of ipykernel's, and of IPython's since IPython 9."""


def show_any_error(
    shell: Any, showable: Callable[[BaseException], BaseException]
) -> tuple[str, ...]:
    """Make a shell publish an error whose text raises with the error's own name and traceback.

    The shell's methods call `str` on the error unguarded, and would show the error that `str` raises in its place.
    A method that the shell lacks is left out.

    Args:
      shell: IPython's shell.
      showable: Returns an error whose text does not raise.

    Returns:
      The names of the methods that the shell has.
    """
    there = tuple(name for name in TAKE_ERRORS if hasattr(shell, name))
    for name in there:
        setattr(shell, name, _given(showable, getattr(shell, name)))
    return there


def _given(
    showable: Callable[[BaseException], BaseException], original: Callable[..., Any]
) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(*args: Any, **options: Any) -> Any:
        shown = [showable(one) if isinstance(one, BaseException) else one for one in args]
        return original(*shown, **options)

    return call


def publish_error(shell: Any, kind: type, error: BaseException, lines: Sequence[str]) -> None:
    """Show the lines of a traceback as a shell shows its own; without `_showtraceback` this raises."""
    shell._showtraceback(kind, error, lines)


def has_failed_to_show(shell: Any) -> bool:
    """Return whether showing the value of the last cell raised an error.

    ipykernel then replies with a failure, but the result has no error. Without the name, such a cell counts as
    computed here and as failed in the kernel.
    """
    return bool(getattr(shell, "_last_traceback_during_displayhook", False))


def autoreloader(magics: Mapping[str, Any]) -> Any | None:
    """Return the state of `%autoreload`: its mode, and the modification times of the files read.

    From IPython 9.1 on, their text is in `deduper_reloader.source_by_modname`. None where `%autoreload` is not
    loaded; without the name it is not sent to a new process.

    Args:
      magics: The registry of a shell's magics, by the name of the class.
    """
    return getattr(magics.get("AutoreloadMagics"), "_reloader", None)


def is_asked_to_end(kernel: Any) -> bool:
    """Return whether ipykernel has taken a request to end (ipykernel 6 and 7); without the name, False."""
    return getattr(kernel, "_shutdown_message", None) is not None
