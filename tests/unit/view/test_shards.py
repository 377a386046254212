"""Arrays as users get them: values put together out of what processes answer, and shards."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import pytest
from msgspec import structs

from nbdist.contract.calls.inspection import ArraySummary, Numbers, PieceSummary, Summary
from nbdist.errors import ArrayError
from nbdist.view.shards import Shards, shards_text, shown_values
from tests.builders.golden import snapshot


def half(values: np.ndarray[Any, Any], process: int, *, whole: bool = False) -> Summary:
    """What one of two processes answers of a vector of four, or of one of its own."""
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
FIRST, SECOND = half(VALUES, 0), half(VALUES, 1)
ELSEWHERE = structs.replace(SECOND, part=structs.replace(SECOND.part, about="i32[4] elsewhere"))


def test_the_parts_of_all_make_one_text_and_one_picture() -> None:
    assert shown_values("w", {0: FIRST, 1: SECOND}) == {
        "text": "i32[4]\n[1 2 3 9]\nmin 1  mean 3.75  max 9  NaN 0",
        "picture": {
            "rows": 1,
            "columns": 4,
            "low": 1.0,
            "high": 9.0,
            "values": [0.0, 0.125, 0.25, 1.0],
        },
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


@pytest.mark.parametrize(
    ("answers", "text"),
    [
        ({0: FIRST, 1: Summary(state="computing")}, "computed on process 1"),
        ({0: FIRST, 1: Summary(state="shown")}, "has no values"),
        ({0: FIRST, 1: ELSEWHERE}, "not the same array on processes 0, 1"),
        ({0: Summary(state="missing")}, "no array w any more"),
    ],
)
def test_what_cannot_be_shown_says_why(answers: dict[int, Summary], text: str) -> None:
    with pytest.raises(ArrayError, match=text):
        shown_values("w", answers)


def shards(name: str, path: str) -> str:
    session = snapshot(name)
    [array] = [array for array in session.arrays if array.path == path]
    return shards_text(array, {mesh.id: mesh for mesh in session.meshes}, session)


def test_shards_list_each_piece_with_its_devices() -> None:
    assert shards("tour", "params.dense1.bias").splitlines() == [
        "params.dense1.bias  f32[256]  P('model') on mesh data=4 × model=2",
        "2 shards of 128, 512 B each, 4 replicas of each",
        "[0:128]    512 B  p0 · d0, p1 · d0, p2 · d0, p3 · d0",
        "[128:256]  512 B  p0 · d1, p1 · d1, p2 · d1, p3 · d1",
    ]
    assert shards("pieces_256", "kernel").endswith("… and 216 more shards")
    copies = shards("pieces_256", "bias")
    assert "p1 · d6, p3 · d6, p5 · d6, p7 · d6 and 12 more" in copies


def test_what_was_reported_last_is_shown_while_a_cell_runs() -> None:
    session = structs.replace(snapshot("transformer"), arrays_omitted=2)
    found = Shards.seen("batches", session, while_="process 0 is in cell 7")
    assert found is not None
    text = found.text()
    assert text.splitlines()[0] == (
        "as last reported, while process 0 is in cell 7; of 2 more arrays nothing is reported"
    )
    assert "batches  4 arrays" in text and "(processes 0, 1)" in text
    assert Shards.seen("batch", session, while_="busy") is None
