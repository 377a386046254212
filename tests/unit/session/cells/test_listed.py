"""The state in which a cell of the background is listed, from its sending to its end."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from nbdist.session.cells.followed import Background
from nbdist.session.cells.history import listed
from nbdist.session.cells.outcome import ProcessOutcome
from tests.builders.outcomes import stands
from tests.builders.reports import RUNNING

SENT, BEGUN, FINISHED = stands(0, begun=False), stands(0, begun=True), stands(0, "finished")


def run(number: int, *outcomes: ProcessOutcome) -> Any:
    by_id = {p: replace(one, process_id=p) for p, one in enumerate(outcomes)}
    execution = SimpleNamespace(
        outcomes=lambda: by_id,
        targets=tuple(by_id),
        still_in=lambda: tuple(p for p, one in by_id.items() if one.outcome == "running"),
    )
    cell = SimpleNamespace(number=number, code="train()")
    return SimpleNamespace(cell=cell, execution=execution, started=float(number), done=False)


@pytest.mark.parametrize(
    ("outcomes", "state"),
    [
        ((SENT, SENT), "starting"),
        ((SENT, BEGUN), "running"),
        ((replace(BEGUN, activity=RUNNING), FINISHED), f"running, line {RUNNING.line}"),
        ((FINISHED, FINISHED), "ending"),
    ],
)
def test_a_cell_is_listed_as_far_as_it_is(outcomes: Any, state: str) -> None:
    (cell,) = listed(Background([run(7, *outcomes)]), [], now=9.0)
    assert (cell.state, cell.seconds) == (state, 2.0)


def test_one_behind_another_is_queued() -> None:
    runs = [run(7, BEGUN, BEGUN), run(8, SENT, SENT)]
    _, second = listed(Background(runs), [], now=9.0)
    assert second.state == "queued behind cell 7 (processes 0, 1)"
