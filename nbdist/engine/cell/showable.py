"""Errors made fit to be shown: also those whose own text raises, and nbdist's without its own frames."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import TracebackType
from typing import Any

from nbdist.errors import NbdistError


def showable(error: BaseException) -> BaseException:
    """Return the error; where its `__str__` raises, one of the same name with a text that says so."""
    try:
        str(error)
    except Exception as why:  # noqa: BLE001 - whatever a user's class raises
        text = f"(its text cannot be shown: {type(why).__name__} in its __str__ or __repr__)"
        found: Exception = type(type(error).__name__, (Exception,), {})(text)
        return found.with_traceback(error.__traceback__)
    return error


def error_text(error: BaseException) -> str:
    """Return class and text, such as `ValueError: no data`, also of an error whose text raises."""
    return f"{type(error).__name__}: {showable(error)}"


PRIVATE = ("_showtraceback", "_format_exception_for_storage")


def show_any_error(shell: Any) -> list[str]:
    """Make a shell publish errors whose text raises under their own name, with their own traceback.

    Private API: ipykernel's `ZMQInteractiveShell._showtraceback` and, since IPython 9,
    `InteractiveShell._format_exception_for_storage` take `str` of the error unguarded; an error that this raises
    would then stand for the original. A method that the shell lacks is left out.

    Returns:
      The names of the methods that the shell has.
    """
    there = [name for name in PRIVATE if hasattr(shell, name)]
    for name in there:
        setattr(shell, name, _given_showable(getattr(shell, name)))
    return there


def _given_showable(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(*args: Any, **options: Any) -> Any:
        shown = [showable(one) if isinstance(one, BaseException) else one for one in args]
        return original(*shown, **options)

    return call


def hide_own_frames(shell: Any) -> None:
    """Make a shell show the errors that nbdist raises at the user's line that they are about.

    IPython leaves out frames with `__tracebackhide__`, but never the innermost.
    """

    def show(shell: Any, kind: Any, error: Any, at: Any, tb_offset: int | None = None) -> None:
        shell.showtraceback((kind, error, _without_own_end(at)), tb_offset=tb_offset)

    shell.set_custom_exc((NbdistError,), show)


def _without_own_end(at: TracebackType) -> TracebackType:
    """Return a traceback that ends where nbdist was called; the outermost entry always stays."""
    entries = [at]
    while entries[-1].tb_next is not None:
        entries.append(entries[-1].tb_next)
    while len(entries) > 1 and _is_own(entries[-1]):
        entries.pop()
    left: TracebackType | None = None
    for entry in reversed(entries):
        left = TracebackType(left, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return left or at


def _is_own(entry: TracebackType) -> bool:
    return str(entry.tb_frame.f_globals.get("__name__")).startswith("nbdist.")
