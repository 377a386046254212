"""What is concluded from where the processes stand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from nbdist.contract.snapshot import Activity
from nbdist.session.cells.execution import without_leading_blank_lines
from nbdist.session.cells.failure import UNTRUE, failure, outcome_text
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
    not_begun, stopped = process(0, "not run"), process(1, "interrupted", activity=activity())
    assert outcome_text(by_id(not_begun, stopped, process(2, "interrupted"))) == (
        "processes 1, 2 interrupted"
    )
    error = failure(by_id(not_begun, stopped), {}, {}, advice=None)
    assert error is not None and str(error) == "process 1 interrupted"
    assert "process 0   not run, stopped before it began" in error.shown
    assert error.failures == (stopped, not_begun), "the cause first"
    assert named_first([not_begun, process(2, "finished")]) == not_begun
    assert named_first([process(0, "finished"), process(1)]) is None
    assert outcome_of_cell([not_begun, stopped]) == "interrupted"


def test_a_cell_that_nobody_waits_for_any_more_has_not_finished() -> None:
    assert outcome_of_cell([process(0, "finished"), process(1)]) == "running"
    assert outcome_of_cell([process(0, "finished")]) == "finished"


def test_out_of_step_waits_are_found_only_when_nobody_can_join() -> None:
    alone = by_id(process(0), process(1, "finished"))
    assert all_waiting(alone, longer_than_s=3) == [0]
    busy = process(1, activity=activity(waiting=False))
    assert all_waiting(by_id(process(0), busy), longer_than_s=3) == []
    assert all_waiting(alone, longer_than_s=30) == []


def test_a_cell_that_went_well_raises_nothing() -> None:
    assert failure(by_id(process(0, "finished")), {}, {}, advice=None) is None


def test_failure_shows_the_cause_in_full_and_a_line_for_each_other() -> None:
    error = failure(
        by_id(
            process(0, "interrupted"),
            process(1, "raised", error="ValueError: empty batch", line=2, time=1.0),
            process(2, "interrupted"),
        ),
        {1: "Traceback of 1"},
        {},
        advice="%dist_init --restart starts afresh on the same plan.",
    )
    assert error is not None
    shown = "\n".join(error._render_traceback_())
    assert "Traceback of 1" in shown
    assert "processes 0, 2   interrupted while waiting" in shown
    assert "process 1 raised ValueError; " in shown
    assert "out of step" in shown
    assert "%dist_init --restart" in str(error)


def test_all_that_raise_in_one_line_are_named_whatever_their_texts() -> None:
    error = failure(
        by_id(
            process(0, "raised", error="ValueError: bad 0", line=2, time=2.0),
            process(1, "raised", error="ValueError: bad 1", line=2, time=1.0),
            process(2, "raised", error="ValueError: closed by peer", line=3, time=3.0),
        ),
        {1: "Traceback of 1"},
        {},
        advice=None,
    )
    assert error is not None
    assert str(error) == "processes 0, 1 raised ValueError"
    assert error.shown.startswith(
        "process 1 (host h1)\nTraceback of 1\nprocess 0   ValueError: bad 0"
    )


def test_failure_of_a_lost_process_shows_its_last_words() -> None:
    gone = process(
        1, "gone", error="killed by signal 9 (SIGKILL)", line=3, time=1.0, held="memory 812 MB"
    )
    error = failure(
        by_id(process(0, "finished"), gone),
        {},
        {1: ("last word",)},
        advice="%dist_init --restart starts afresh on the same plan.",
    )
    assert error is not None
    assert "killed by signal 9 (SIGKILL)" in str(error)
    assert (
        "   last seen at line 3\n   memory 812 MB\n   its last lines:\n   last word" in error.shown
    )


@pytest.mark.parametrize(
    ("ends", "said"), [(("raised", "raised"), True), (("raised", "finished"), False)]
)
def test_where_all_raise_alike_it_is_said_why_they_were_repaired(ends, said) -> None:
    error = failure(
        by_id(*(process(i, end, error="ValueError: no", time=1.0) for i, end in enumerate(ends))),
        {},
        {},
        advice=None,
        diverged="process 1 sent 2, process 0 sent 3",
    )
    assert error is not None
    assert ("found out of step: process 1 sent 2, process 0 sent 3" in error.shown) is said


@pytest.mark.parametrize("mixed", [True, False])
@pytest.mark.parametrize(
    ("end", "in_vain"),
    [("finished", None), ("raised", None), ("interrupted", None), ("interrupted", "y needs both")],
)
def test_however_a_cell_ends_numbers_that_may_be_wrong_are_disowned(end, in_vain, mixed) -> None:
    error = failure(
        by_id(process(0, end, error="ValueError: no", time=1.0), process(1, end, time=2.0)),
        {},
        {},
        advice=None,
        diverged="process 1 sent 2, process 0 sent 3",
        mixed=mixed,
        in_vain=in_vain,
    )
    assert error is not None
    assert (UNTRUE in error.shown) is mixed


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
        shown = failure(by_id(one), {1: "the traceback"}, {}, advice=None)
        assert shown is not None
        assert shown.shown.startswith(f"{named}\nthe traceback")
        silent = silence({1: replace(one, outcome="running", silent_s=9.0)})
        assert silent is not None
        assert silent.startswith(f"{named}   silent for 9.0 s")


def test_a_process_that_is_gone_stands_with_its_host_only_beside_others() -> None:
    gone = process(0, "gone", error="killed by signal 9", one_host=True)
    for one_host, named in ((True, "process 0"), (False, "process 0 (host h1)")):
        text = outcome_text(by_id(replace(gone, one_host=one_host)))
        assert text == f"{named} {gone.error}"
