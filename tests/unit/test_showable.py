"""Errors whose own text raises."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from nbdist.engine.cell.running import CurrentCell
from nbdist.engine.kernel.shell import NotebookCells
from nbdist.errors import showable
from nbdist.ipython_private import show_any_error


class Mute(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


class Odd:
    def __repr__(self) -> str:
        raise ZeroDivisionError


class Empty(Exception):
    """An error that counts as false."""

    def __len__(self) -> int:
        return 0


@pytest.mark.parametrize(
    ("error", "name", "why"),
    [
        (Mute(), "Mute", "ValueError"),
        (KeyError(Odd()), "KeyError", "ZeroDivisionError"),
        (RuntimeError(1, Odd()), "RuntimeError", "ZeroDivisionError"),
    ],
)
def test_an_error_without_a_text_keeps_its_name(error: Exception, name: str, why: str) -> None:
    found = showable(error)
    assert type(found).__name__ == name
    assert f"its text cannot be shown: {why}" in str(found)


def test_any_other_error_is_shown_as_it_is() -> None:
    error = ValueError("no")
    assert showable(error) is error


def test_ipykernel_publishes_it_under_its_own_name_and_with_its_traceback() -> None:
    published: list[tuple[str, str, list[str]]] = []
    shell = SimpleNamespace(
        _showtraceback=lambda kind, error, lines: published.append(
            (kind.__name__, str(error), lines)
        )
    )
    assert show_any_error(shell, showable) == ("_showtraceback",)
    shell._showtraceback(Mute, Mute(), ["line 3"])
    ((name, text, lines),) = published
    assert (name, lines) == ("Mute", ["line 3"])
    assert "cannot be shown" in text


def test_ipythons_history_keeps_it_and_does_not_fail() -> None:
    shell = SimpleNamespace(_format_exception_for_storage=lambda error: str(error))
    assert show_any_error(shell, showable) == ("_format_exception_for_storage",)
    assert "cannot be shown" in shell._format_exception_for_storage(Mute())


def test_without_these_methods_nothing_is_changed() -> None:
    shell = SimpleNamespace()
    assert show_any_error(shell, showable) == ()
    assert vars(shell) == {}


def ended(
    error: Exception | None, **shell_has: Any
) -> tuple[str | None, list[bool], SimpleNamespace]:
    """What is known of a process whose cell has raised `error`."""
    cell, failures = CurrentCell(), list[bool]()
    cell.started(1, "raise")
    shell = SimpleNamespace(kernel=SimpleNamespace(get_parent=lambda channel: {}), **shell_has)
    cells = NotebookCells(
        shell,
        cell,
        before=lambda request, ours: None,
        ended=lambda ours, failed: failures.append(failed),
        admit=lambda: None,
    )
    result = SimpleNamespace(error_before_exec=None, error_in_exec=error)
    cells._finished(result)
    assert cell.running is None
    return cell.error, failures, result


def test_a_process_does_not_stay_in_a_cell_whose_error_has_no_text() -> None:
    error, failures, result = ended(Mute())
    assert error is not None
    assert error.startswith("Mute: (its text")
    assert failures == [True]
    assert str(result.error_in_exec).startswith("(its text")


def test_what_raises_when_it_is_shown_has_failed_the_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    # As ipykernel leaves them after a `__repr__` that raised.
    monkeypatch.setattr(sys, "last_value", RuntimeError("no repr"), raising=False)
    error, failures, result = ended(None, _last_traceback_during_displayhook=True)
    assert (error, failures) == ("RuntimeError: no repr", [True])
    assert result.error_in_exec is sys.last_value


def test_an_error_that_counts_as_false_is_a_failure_too() -> None:
    assert ended(Empty("no"))[:2] == ("Empty: no", [True])
