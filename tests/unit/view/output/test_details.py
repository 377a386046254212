"""The details of a notice below a cell of a notebook."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from typing import Any

import pytest
from IPython.core.events import EventManager, available_events

from nbdist.errors import Notice
from nbdist.view.output import renderer, show_details

NOTICE = Notice(
    level="warn",
    title="The session was repaired.",
    text="All variables are kept.",
    details=("process 0   ran <b>f</b> & g", "   its last line"),
)


class Shell:
    """A notebook's shell whose cells end when a test says so."""

    def __init__(self) -> None:
        self.events = EventManager(self, available_events)

    def cell_ends(self) -> None:
        self.events.trigger("post_run_cell", None)


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, str]]:
    """What was shown, in order."""
    found: list[dict[str, str]] = []
    monkeypatch.setattr(renderer, "publish_display_data", lambda data, **_: found.append(data))
    return found


def test_details_are_folded_and_shown_as_the_text_they_are(shown: list[dict[str, str]]) -> None:
    show_details(NOTICE, Shell())
    (data,) = shown
    folded = data["text/html"]
    assert folded.startswith("<details>"), "not open"
    (text,) = re.findall(r"<pre>(.*)</pre>", folded, re.DOTALL)
    assert not re.search(r"<(?!/?(details|summary|pre)>)", folded)
    assert html.unescape(text).splitlines() == list(NOTICE.details)
    assert NOTICE.title not in folded, "it stands above"


@pytest.mark.parametrize(
    ("do", "said"), [("", "%dist_why says more."), ("Set x again. %dist_why says more.", "")]
)
def test_a_terminal_says_once_how_to_see_them(
    shown: list[dict[str, str]], do: str, said: str
) -> None:
    show_details(replace(NOTICE, do=do), Shell())
    assert shown[0]["text/plain"] == said


@pytest.mark.parametrize("after_error", [True, False])
def test_without_details_nothing_is_shown(shown: list[dict[str, str]], after_error: bool) -> None:
    shell = Shell()
    show_details(Notice(level="warn", title="It is.", text=""), shell, after_error=after_error)
    shell.cell_ends()
    assert shown == []


def test_after_an_error_they_come_once_when_the_cell_ends(shown: list[dict[str, str]]) -> None:
    shell: Any = Shell()
    show_details(NOTICE, shell, after_error=True)
    assert shown == [], "above the error"
    shell.cell_ends()
    shell.cell_ends()
    assert len(shown) == 1
