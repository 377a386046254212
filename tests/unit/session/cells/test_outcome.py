"""What is concluded from where the processes stand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from nbdist.contract.snapshot import Activity
from nbdist.session.cells.execution import without_leading_blank_lines
from nbdist.session.cells.outcome import (
    ProcessOutcome,
    all_waiting,
    divergence,
    failure_lines,
    first_cause,
    first_line,
    named_first,
    outcome_of_cell,
    silence,
)
from tests.builders.outcomes import stands
from tests.builders.reports import running


def activity(**changes: Any) -> Activity:
    given = {"cell": 1, "source": "y = step(params, x)", "cell_seconds": 12.0, "line_seconds": 11.0}
    return running(**{**given, **changes})


def process(process_id: int, outcome: Any = "running", **facts: Any) -> ProcessOutcome:
    if outcome == "running":
        facts.setdefault("activity", activity())
    return stands(process_id, outcome, **facts)


def by_id(*outcomes: ProcessOutcome) -> dict[int, ProcessOutcome]:
    return {s.process_id: s for s in outcomes}


@pytest.mark.parametrize(
    ("other", "where"),
    [
        (process(1, "finished"), "finished the cell"),
        (process(1, activity=activity(line=7, line_seconds=0.2)), "is waiting at line 7"),
        (process(1, activity=None), "has reported nothing yet"),
    ],
)
def test_where_another_stands_is_named_beside_those_that_wait(
    other: ProcessOutcome, where: str
) -> None:
    text = divergence(by_id(process(0), other, process(2)))
    assert text == f"processes 0, 2 have been at line 4 for 11 s; process 1 {where}"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(process(0), process(1), id="all in one line"),
        pytest.param(
            process(0, activity=activity(line_seconds=9.0)), process(1, "finished"), id="not long"
        ),
        pytest.param(
            process(0, activity=activity(state="compiling", waiting=False)),
            process(1, "finished"),
            id="one compiles",
        ),
    ],
)
def test_what_is_no_divergence(one: ProcessOutcome, other: ProcessOutcome) -> None:
    assert divergence(by_id(one, other)) is None


GLOO = (
    "JaxRuntimeError: UNKNOWN: Gloo all-reduce failed: Connection closed by peer [127.0.0.1]:16282"
)


NOBODY_CAME = (
    "JaxRuntimeError: UNKNOWN: Gloo context initialization failed: DEADLINE_EXCEEDED: GetKeyValue() timed out "
    "with key: cpu:gloo/1,2049,4097/2 and duration: 29.99999993s"
)


@pytest.mark.parametrize(("error", "named"), [(GLOO, 1), (NOBODY_CAME, 1), ("ValueError: 1", 0)])
def test_what_others_see_of_a_death_is_not_its_cause(error: str, named: int) -> None:
    others = [process(0, "raised", error=error, time=3.0), process(2, "raised", time=3.5)]
    found = first_cause([*others, process(1, "gone", error="killed", time=3.1)])
    assert found is not None and found.process_id == named
    assert first_cause(others) == others[0]


def test_the_first_failure_is_the_cause_and_interrupts_never_are() -> None:
    found = first_cause(
        [
            process(0, "interrupted", time=1.0),
            process(1, "raised", error="B", time=3.0),
            process(2, "raised", error="A", time=2.0),
        ]
    )
    assert found is not None
    assert found.process_id == 2


def test_of_a_cell_that_was_stopped_those_who_were_in_it_are_named_first() -> None:
    """An interrupt may come before one of them has begun."""
    not_begun, stopped = process(0, "not run"), process(1, "interrupted")
    assert named_first([not_begun, stopped]) == stopped
    assert outcome_of_cell([not_begun, stopped]) == "interrupted"
    assert named_first([not_begun, process(2, "finished")]) == not_begun
    assert named_first([process(0, "finished"), process(1)]) is None


def test_a_cell_that_nobody_waits_for_any_more_has_not_finished() -> None:
    assert outcome_of_cell([process(0, "finished"), process(1)]) == "running"
    assert outcome_of_cell([process(0, "finished")]) == "finished"


def test_out_of_step_waits_are_found_only_when_nobody_can_join() -> None:
    alone = by_id(process(0), process(1, "finished"))
    assert all_waiting(alone, longer_than_s=3) == [0]
    busy = process(1, activity=activity(waiting=False))
    assert all_waiting(by_id(process(0), busy), longer_than_s=3) == []
    assert all_waiting(alone, longer_than_s=30) == []


def test_of_an_error_that_goes_on_for_pages_the_first_line_is_shown() -> None:
    assert first_line("UnavailableError: Graph execution error:\n\nDetected at") == (
        "UnavailableError: Graph execution error: …"
    )
    assert first_line("ValueError: empty batch\n") == "ValueError: empty batch"
    assert len(first_line("x" * 5000)) < 400


def test_blank_lines_above_the_code_are_counted_and_left_out() -> None:
    assert without_leading_blank_lines("\n  \n  x = 1\ny\n") == ("  x = 1\ny\n", 2)
    assert without_leading_blank_lines("\n\n") == ("\n\n", 0)


def test_a_host_is_named_only_where_the_session_has_several() -> None:
    several = process(1, "raised", error="ValueError: no")
    alone = process(1, "raised", error="ValueError: no", one_host=True)
    for one, named in ((several, "process 1 (host h1)"), (alone, "process 1")):
        assert failure_lines(one)[0] == f"{named}   ValueError: no"
        silent = silence({1: replace(one, outcome="running", silent_s=9.0)})
        assert silent is not None
        assert silent.startswith(f"{named}   silent for 9.0 s")
