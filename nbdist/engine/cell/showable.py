"""Errors whose own text raises, which would end as another error than the one that was raised."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


def showable(error: BaseException) -> BaseException:
    """The error; for one whose `__str__` raises another of the same name, with a text that says so."""
    try:
        str(error)
    except Exception as why:  # noqa: BLE001 - whatever a user's class raises
        text = f"(its text cannot be shown: {type(why).__name__} in its __str__ or __repr__)"
        found: Exception = type(type(error).__name__, (Exception,), {})(text)
        return found.with_traceback(error.__traceback__)
    return error


def error_text(error: BaseException) -> str:
    """`ValueError: no data`; also of an error whose text raises."""
    return f"{type(error).__name__}: {showable(error)}"


PRIVATE = ("_showtraceback", "_format_exception_for_storage")


def show_any_error(shell: Any) -> list[str]:
    """Has a shell publish errors whose text raises under their own name, with their own traceback.

    Private API: ipykernel's `ZMQInteractiveShell._showtraceback` and, since IPython 9, `InteractiveShell.
    _format_exception_for_storage` take `str` of the error unguarded; what that raises then stands for the error.
    What is not there is left out.

    Returns:
      Which of them there are.
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
