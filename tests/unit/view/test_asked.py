"""What a view asks for: the values of an array, put together out of what processes answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from nbdist.contract.calls.arrays import ArraySummary, Numbers, PieceSummary, Summary
from nbdist.contract.page import AskValues, Hello, read_request
from nbdist.errors import ArrayError, SessionError
from nbdist.view.arrays import shown_values
from nbdist.view.channel import answer_values
from nbdist.view.feed import Feed


class Loop:
    """Calls when it is told to, as a kernel between two cells."""

    def __init__(self) -> None:
        self.calls: list[Callable[[], None]] = []
        self.io_loop = self

    def add_callback(self, call: Callable[[], None]) -> None:
        self.calls.append(call)


def half(values: np.ndarray[Any, Any], process: int, *, whole: bool = False) -> Summary:
    """What one of two processes answers of a vector of four, or of one of its own."""
    import base64

    low, high = (0, 4) if whole else (2 * process, 2 * process + 2)
    mine = values[low:high]
    numbers = Numbers(
        nan=0,
        counted=high - low,
        whole=True,
        min=str(mine.min()),
        max=str(mine.max()),
        sum=str(float(mine.sum())),
    )
    piece = PieceSummary(
        size=high - low,
        numbers=numbers,
        places=((low, high),),
        values=base64.b64encode(mine.tobytes()).decode(),
    )
    part = ArraySummary(
        shape=(4,), dtype="int32", about="i32[4]", grid=((0, 1, 2, 3),), pieces=(piece,)
    )
    return Summary(state="shown", whole=whole, part=part, places=part)


VALUES = np.array([1, 2, 3, 9], "int32")


def test_the_parts_of_all_make_one_text_and_one_picture() -> None:
    shown = shown_values("w", {0: half(VALUES, 0), 1: half(VALUES, 1)})
    assert shown["text"] == "i32[4]\n[1 2 3 9]\nmin 1  mean 3.75  max 9  NaN 0"
    assert shown["picture"] == {
        "rows": 1,
        "columns": 4,
        "low": 1.0,
        "high": 9.0,
        "values": [0.0, 0.125, 0.25, 1.0],
    }


def test_what_each_has_for_itself_is_not_put_together() -> None:
    own = {p: half(VALUES * (p + 1), p, whole=True) for p in (0, 1)}
    assert shown_values("w", own)["text"].splitlines()[:3] == [
        "of process 0; others have their own",
        "i32[4]",
        "[1 2 3 9]",
    ]
    own[0] = Summary(state="missing")
    assert "of process 1" in shown_values("w", own)["text"]


def test_arrays_that_differ_are_refused() -> None:
    mine = half(VALUES, 1)
    assert mine.part is not None
    other = replace(mine, part=replace(mine.part, about="i32[4] elsewhere"))
    with pytest.raises(ArrayError, match="not the same array on processes 0, 1"):
        shown_values("w", {0: half(VALUES, 0), 1: other})


@pytest.mark.parametrize(
    ("second", "text"),
    [
        (Summary(state="computing"), "still being computed on process 1"),
        (Summary(state="shown"), "has no values"),
    ],
)
def test_what_cannot_be_shown_says_why(second: Summary, text: str) -> None:
    with pytest.raises(ArrayError, match=text):
        shown_values("w", {0: half(VALUES, 0), 1: second})
    with pytest.raises(ArrayError, match="no array w any more"):
        shown_values("w", {0: Summary(state="missing")})


def test_a_view_is_answered_between_cells() -> None:
    feed, loop, sent = Feed(), Loop(), []
    feed.values = lambda path: {"text": f"of {path}", "picture": None}
    answer_values(feed, loop, "w", sent.append)
    assert sent == []
    loop.calls.pop()()
    (answer,) = sent
    assert (answer["type"], answer["path"], answer["text"]) == ("values", "w", "of w")
    assert answer["picture"] is answer["error"] is None


def test_a_view_is_answered_with_the_error() -> None:
    feed, loop, sent = Feed(), Loop(), []
    answer_values(feed, loop, "w", sent.append)
    loop.calls.pop()()

    def busy(path: str) -> dict[str, Any]:
        raise SessionError("process 0 is in cell 7")

    feed.values = busy
    answer_values(feed, loop, "w", sent.append)
    loop.calls.pop()()
    assert [one["error"] for one in sent] == ["No session is running.", "process 0 is in cell 7"]


def test_the_picture_is_sent_with_all_that_the_view_draws() -> None:
    feed, loop, sent = Feed(), Loop(), []
    feed.values = lambda path: shown_values(path, {0: half(VALUES, 0), 1: half(VALUES, 1)})
    answer_values(feed, loop, "w", sent.append)
    loop.calls.pop()()
    assert sent[0]["picture"]["values"] == [0.0, 0.125, 0.25, 1.0]


@pytest.mark.parametrize(
    "data",
    [
        None,
        3,
        [],
        {},
        {"type": []},
        {"type": "frame"},
        {"type": "values"},
        {"type": "values", "path": 3},
        {"type": "hello", "more": 1},
    ],
)
def test_what_is_no_request_is_none(data: object) -> None:
    assert read_request(data) is None


def test_requests_are_read() -> None:
    assert read_request({"type": "hello"}) == Hello()
    assert read_request({"type": "values", "path": "w"}) == AskValues(path="w")
