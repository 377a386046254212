"""Errors as notices, and the error of a failed cell as a person sees it."""

from __future__ import annotations

import traceback
from typing import Any

import pytest

from nbdist import errors
from nbdist.errors import NbdistError, Notice, ProcessError, SessionError

WHAT = Notice(
    level="bad",
    title="Process 1 raised ValueError at line 2: boom",
    text="The session was repaired in 0.5 s.",
    do="Create w again: cell 3 assigns it.",
    details=("process 0   finished the cell",),
    code="raised",
    lost=("w",),
)
RED = "\x1b[31mValueError\x1b[0m: boom"
ABOVE = f"process 1\n{RED}"
BELOW = "Process 1 raised ValueError at line 2."


@pytest.mark.parametrize("less", ["title", "text", "do"])
def test_a_notice_as_text_is_three_lines_at_most_without_the_details(less: str) -> None:
    lines = [WHAT.title, WHAT.text, WHAT.do]
    assert str(WHAT).splitlines() == lines
    parts = {"title": WHAT.title, "text": WHAT.text, "do": WHAT.do, less: ""}
    one = Notice(level="bad", details=WHAT.details, **parts)
    assert str(one).splitlines() == [line for line in lines if line != getattr(WHAT, less)]


def test_an_error_made_of_a_notice_has_its_lines_as_text() -> None:
    error = SessionError(WHAT)
    assert (str(error), error.notice) == (str(WHAT), WHAT)


def test_an_error_made_of_text_is_a_notice_of_its_first_line_and_the_others() -> None:
    assert SessionError("What.\nWhy.\nHow.").notice == Notice(
        level="bad", title="What.", text="Why.\nHow.", code="SessionError"
    )
    assert NbdistError().notice == Notice(level="bad", title="", text="", code="NbdistError")


# ---- of a failed cell


def failed(**options: Any) -> ProcessError:
    return ProcessError(WHAT, ("the cause",), **{"above": ABOVE, "below": BELOW, **options})


def test_the_text_of_a_failed_cell_is_its_title() -> None:
    error = failed()
    assert (str(error), error.notice, error.failures) == (WHAT.title, WHAT, ("the cause",))
    assert (str(ProcessError("It failed.")), ProcessError("It failed.").notice.title) == (
        "It failed.",
        "It failed.",
    )


@pytest.mark.parametrize(
    ("options", "before", "title"),
    [({}, f"{ABOVE}\n", BELOW), ({"above": "", "below": ""}, "", WHAT.title)],
)
def test_what_stands_in_the_traceback_is_not_shown_again_below_it(
    options: dict[str, str], before: str, title: str
) -> None:
    error = failed(**options)
    assert error.shown == f"{before}ProcessError: {title}\n{WHAT.text}\n{WHAT.do}"
    assert error.shown.count("boom") == 1
    assert WHAT.details[0] not in error.shown


def test_python_shows_the_same_lines_without_colors() -> None:
    """A script prints notes below the message."""
    error = failed()
    assert error.__notes__ == ["process 1\nValueError: boom", WHAT.text, WHAT.do]
    printed = "".join(traceback.format_exception_only(error))
    for line in (WHAT.title, WHAT.text, WHAT.do):
        assert printed.count(line) == 1
    assert ProcessError("It failed.").__dict__.get("__notes__", []) == []


@pytest.mark.parametrize("colored", [True, False])
def test_ipython_shows_it_in_place_of_frames_with_colors_where_there_are_some(
    monkeypatch: pytest.MonkeyPatch, colored: bool
) -> None:
    monkeypatch.setattr(errors, "_in_color", lambda: colored)
    lines = failed()._render_traceback_()
    assert lines == [
        "process 1",
        RED if colored else "ValueError: boom",
        f"ProcessError: {BELOW}",
        WHAT.text,
        WHAT.do,
    ]


@pytest.mark.parametrize(("do", "now"), [("Set y.", "Set y. Push z."), ("", "Push z.")])
def test_advice_is_added_to_what_is_to_be_done(do: str, now: str) -> None:
    error = ProcessError(Notice(level="bad", title="It failed.", text="", do=do))
    error.advise("Push z.")
    assert error.notice.do == now
    assert error.shown.splitlines()[-1] == now
    assert error.__notes__[-1] == "Push z."
    assert str(error) == "It failed."
