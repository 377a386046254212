"""The error of a failed cell: what happened, and what it means for the variables."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from nbdist.errors import CollectiveError, Notice, ProcessError
from nbdist.session.cells.facts import ProcessFacts
from nbdist.session.cells.failure import (
    ALL_THE_SAME,
    CODES,
    STOPPED,
    UNTRUE,
    ending_text,
    failure,
    outcome_text,
    repaired_notice,
    timeout_error,
)
from nbdist.session.cells.outcome import ProcessOutcome
from tests.builders.outcomes import stands
from tests.builders.reports import running

FACTS = ProcessFacts(
    workers=frozenset({0, 1}), advice="%dist_recover brings them in step.", proves=True
)
OUT = replace(FACTS, since=3, why="process 1 sent 2, process 0 sent 3")
DIVERGED = replace(FACTS, diverged="process 1 sent 2, process 0 sent 3", differ=True)
DONE = Notice(
    level="warn",
    title="The session was repaired in 0.5 s.",
    text="Lost, because not all processes have computed it: w.",
    do="Create w again: cell 3 assigns it.",
    details=("a fact",),
    code="repaired",
    lost=("w",),
)
PLACE = running(cell=1, source="y = step(x)")
LINE = f"at line {PLACE.line}: {PLACE.source}"
KILLED = "killed by signal 9 (SIGKILL)"


def by_id(*outcomes: ProcessOutcome) -> dict[int, ProcessOutcome]:
    return {s.process_id: s for s in outcomes}


def raised(process_id: int, text: str = "ValueError: no", **facts: Any) -> ProcessOutcome:
    return stands(
        process_id, "raised", **{"error": text, "line": 2, "time": float(process_id), **facts}
    )


def fails(
    *outcomes: ProcessOutcome,
    facts: ProcessFacts = FACTS,
    tracebacks: dict[int, str] | None = None,
    last_lines: dict[int, tuple[str, ...]] | None = None,
    **options: Any,
) -> ProcessError:
    error = failure(by_id(*outcomes), tracebacks or {}, last_lines or {}, facts=facts, **options)
    assert error is not None
    return error


@pytest.mark.parametrize("facts", [FACTS, OUT, replace(FACTS, notice=DONE, mixed=True)])
def test_a_cell_that_went_well_raises_nothing(facts: ProcessFacts) -> None:
    assert failure(by_id(stands(0, "finished")), {}, {}, facts=facts) is None


TITLES: dict[str, tuple[ProcessOutcome, str, str]] = {
    "raised": (
        raised(0, source="f(x)"),
        "raised",
        "Process 0 raised ValueError at line 2: f(x).",
    ),
    "raised nowhere": (raised(0, line=None), "raised", "Process 0 raised ValueError."),
    "killed": (
        stands(0, "gone", error=KILLED, line=3, killed=True),
        "ended",
        f"Process 0 (host h1) was {KILLED}; last seen at line 3.",
    ),
    "ended": (
        stands(0, "gone", error="ended with exit code 3", one_host=True),
        "ended",
        "Process 0 ended with exit code 3.",
    ),
    "interrupted": (
        stands(0, "interrupted", activity=PLACE),
        "interrupted",
        f"Process 0 was interrupted {LINE}.",
    ),
    "stopped": (
        stands(0, "interrupted", error=f"{STOPPED}: stopped before step 7"),
        "interrupted",
        "Process 0 stopped before step 7.",
    ),
    "stuck": (
        stands(0, "stuck", activity=PLACE),
        "stuck",
        f"Process 0 did not stop when interrupted {LINE}.",
    ),
    "not run": (
        stands(0, "not run"),
        "not run",
        "Not run on process 0, stopped before it began.",
    ),
    "not run because of": (
        stands(0, "not run", error="an earlier cell had failed"),
        "not run",
        "Not run on process 0: an earlier cell had failed.",
    ),
}


@pytest.mark.parametrize(("outcome", "code", "title"), TITLES.values(), ids=TITLES)
def test_the_title_says_what_happened_where_and_at_which_line(
    outcome: ProcessOutcome, code: str, title: str
) -> None:
    error = fails(outcome, stands(1, "finished"))
    assert (error.notice.code, error.notice.title) == (code, title)
    assert (error.notice.text, error.notice.do, error.notice.lost) == ("", "", ())
    assert error.notice.details[-1] == "process 1   finished the cell"
    assert str(error) == title
    assert error.failures == (outcome,)


def test_each_outcome_of_a_failed_process_has_a_code() -> None:
    assert {code for _, code, _ in TITLES.values()} == set(CODES.values())


def test_two_that_are_interrupted_were_interrupted() -> None:
    assert fails(stands(0, "interrupted"), stands(1, "interrupted")).notice.title == (
        "Processes 0, 1 were interrupted."
    )
    gone = {"error": KILLED, "killed": True}
    assert fails(stands(0, "gone", **gone), stands(1, "gone", **gone)).notice.title == (
        f"Processes 0, 1 (host h1) were {KILLED}."
    )


def test_the_traceback_is_shown_once_with_a_line_below_that_repeats_nothing_of_it() -> None:
    cause = raised(1, "ValueError: empty batch", source="step(x)")
    others = [stands(0, "interrupted", activity=PLACE), stands(2, "interrupted", activity=PLACE)]
    error = fails(*others, cause, tracebacks={1: "Traceback of 1"})
    assert error.notice.title == "Process 1 raised ValueError at line 2: empty batch"
    assert error.notice.details == (f"processes 0, 2   interrupted while waiting {LINE}",)
    assert error.shown == (
        "process 1 (host h1)\nTraceback of 1\nProcessError: Process 1 raised ValueError at line 2."
    )
    assert error.failures == (cause, *others), "the cause first"


@pytest.mark.parametrize(
    ("one_host", "named"), [(True, "process 1"), (False, "process 1 (host h1)")]
)
def test_a_host_is_named_above_the_traceback_where_the_session_has_several(
    one_host: bool, named: str
) -> None:
    error = fails(raised(1, one_host=one_host), tracebacks={1: "the traceback"})
    assert error.shown.startswith(f"{named}\nthe traceback\n")


def test_all_that_raise_in_one_line_are_named_whatever_their_texts() -> None:
    error = fails(
        raised(0, "ValueError: bad 0", time=2.0),
        raised(1, "ValueError: bad 1", time=1.0),
        raised(2, "ValueError: closed by peer", line=3),
        tracebacks={1: "Traceback of 1"},
    )
    assert error.notice.title == "Processes 0, 1 raised ValueError at line 2: bad 1"
    assert error.notice.details == (
        "process 0   ValueError: bad 0, line 2",
        "process 2   ValueError: closed by peer, line 3",
    )


def test_of_a_lost_process_the_details_have_its_memory_and_last_words() -> None:
    gone = stands(1, "gone", error=KILLED, line=3, held="memory 812 MB", killed=True)
    error = fails(stands(0, "finished"), gone, last_lines={1: ("a word", "last word")})
    assert error.notice.details == (
        f"process 1 (host h1)   {KILLED}",
        "   last seen at line 3",
        "   memory 812 MB",
        "its last lines:",
        "   a word",
        "   last word",
        "process 0   finished the cell",
    )


def test_one_that_waits_in_vain_is_told_by_what_it_waited_for() -> None:
    outcomes = [stands(0, "interrupted", activity=PLACE), stands(1, "finished")]
    error = fails(*outcomes, in_vain="y needs both processes")
    assert isinstance(error, CollectiveError)
    assert (error.notice.code, error.notice.title) == ("in vain", "y needs both processes")
    assert error.notice.details == ("process 1   finished the cell",)
    other = fails(raised(0), *outcomes[1:], in_vain="y needs both processes")
    assert (type(other), other.notice.code) == (ProcessError, "raised"), "it has failed since"


def test_processes_that_finished_out_of_step_have_failed() -> None:
    error = fails(stands(0, "finished"), stands(1, "finished"), facts=DIVERGED)
    assert error.notice == Notice(
        level="bad",
        title=f"All processes finished the cell, but {DIVERGED.diverged}.",
        text="",
        do=ALL_THE_SAME,
        code="diverged",
    )
    gone = replace(DIVERGED, diverged="process 1 is gone", differ=False)
    assert fails(stands(0, "finished"), stands(1, "finished"), facts=gone).notice.do == ""


def test_what_all_waited_for_when_somebody_ended_the_cell_is_told() -> None:
    both = [stands(p, "interrupted", activity=PLACE) for p in (0, 1)]
    waiting = "all wait\nprocess 1   waits after it has raised ValueError"
    error = fails(*both, waiting=waiting, done=DONE, facts=replace(FACTS, mixed=True))
    assert error.notice.code == "interrupted"
    said = "All wait; process 1 waits after it has raised ValueError."
    assert error.notice.text == f"{said} {UNTRUE} {DONE.title} {DONE.text}"


# ---- what it means


ENDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "finished": ({"outcome": "finished"}, {}),
    "raised": ({"outcome": "raised", "error": "ValueError: no"}, {}),
    "interrupted": ({"outcome": "interrupted"}, {}),
    "in vain": ({"outcome": "interrupted"}, {"in_vain": "y needs both"}),
}


@pytest.mark.parametrize(("facts", "options"), ENDS.values(), ids=ENDS)
@pytest.mark.parametrize("mixed", [True, False])
def test_however_a_cell_ends_numbers_that_may_be_wrong_are_disowned(
    facts: dict[str, Any], options: dict[str, Any], mixed: bool
) -> None:
    both = [stands(p, **facts) for p in (0, 1)]
    error = fails(*both, facts=replace(DIVERGED, mixed=mixed), **options)
    assert error.notice.text == (UNTRUE if mixed else "")
    assert (UNTRUE in error.shown) is mixed


@pytest.mark.parametrize(("facts", "options"), ENDS.values(), ids=ENDS)
def test_what_was_done_is_part_of_the_same_notice(
    facts: dict[str, Any], options: dict[str, Any]
) -> None:
    both = [stands(p, **facts) for p in (0, 1)]
    before = fails(*both, facts=DIVERGED, **options).notice
    notice = fails(*both, facts=DIVERGED, done=DONE, said=["said meanwhile"], **options).notice
    assert (notice.title, notice.code, notice.level) == (before.title, before.code, "bad")
    assert notice.text == f"{DONE.title} {DONE.text}"
    assert notice.do.split(". ")[-1] == DONE.do
    assert notice.do.startswith(before.do)
    assert notice.details == (*before.details, "said meanwhile", *DONE.details)
    assert notice.lost == DONE.lost


@pytest.mark.parametrize(("facts", "options"), ENDS.values(), ids=ENDS)
@pytest.mark.parametrize(
    ("why", "text"),
    [
        ("the repair failed", "The session is out of step: the repair failed."),
        (None, "The session is out of step."),
    ],
)
def test_out_of_step_only_the_remedy_is_what_to_do(
    facts: dict[str, Any], options: dict[str, Any], why: str | None, text: str
) -> None:
    both = [stands(p, **facts) for p in (0, 1)]
    error = fails(*both, facts=replace(OUT, why=why, diverged="they differ"), **options)
    assert (error.notice.text, error.notice.do) == (text, OUT.remedy)


@pytest.mark.parametrize(
    ("apart", "text"),
    [
        ((), ""),
        (("k",), "k now differs between the processes."),
        (("k", "x"), "k, x now differ between the processes."),
    ],
)
def test_names_that_the_cell_has_made_differ_are_told(apart: tuple[str, ...], text: str) -> None:
    facts = replace(FACTS, apart=apart)
    assert fails(raised(0), stands(1, "finished"), facts=facts).notice.text == text
    done = fails(raised(0), stands(1, "finished"), facts=facts, done=DONE).notice
    assert done.text == f"{DONE.title} {DONE.text} {text}".rstrip()


@pytest.mark.parametrize(
    ("outcomes", "facts", "told"),
    [
        ((raised(0), raised(1)), {}, True),
        ((raised(0), stands(1, "finished")), {}, False),
        ((raised(0), stands(1, "finished")), {"mixed": True}, True),
        ((raised(0), raised(1)), {"since": 3}, False),  # the text says it
    ],
)
def test_where_nothing_else_says_why_they_were_repaired_the_details_do(
    outcomes: tuple[ProcessOutcome, ...], facts: dict[str, Any], told: bool
) -> None:
    details = fails(*outcomes, facts=replace(DIVERGED, **facts)).notice.details
    assert any(str(DIVERGED.diverged) in line for line in details) is told


def test_a_cell_that_has_not_failed_has_a_notice_only_where_something_was_done() -> None:
    assert repaired_notice(FACTS, ["said"]) is None
    notice = repaired_notice(replace(FACTS, notice=DONE), ["said"])
    assert notice is not None
    assert replace(notice, details=()) == replace(DONE, details=())
    assert sorted(notice.details) == sorted(["said", *DONE.details])


@pytest.mark.parametrize("repaired", [None, DONE])
def test_names_that_differ_now_are_told_after_a_cell_that_has_not_failed(
    repaired: Notice | None,
) -> None:
    notice = repaired_notice(replace(FACTS, notice=repaired, apart=("k",)), [])
    assert notice is not None
    before = f"{DONE.text} " if repaired else ""
    assert notice.text == f"{before}k now differs between the processes."
    assert (notice.title, notice.code) == ((DONE.title, DONE.code) if repaired else ("", "apart"))


# ---- cells that took too long


@pytest.mark.parametrize(
    ("ends", "who"),
    [
        (("interrupted", "finished"), "Process 0 did not finish the cell within 2.0 s (--timeout) and was"),
        (("stuck", "interrupted"), "Processes 0, 1 did not finish the cell within 2.0 s (--timeout) and were"),
        # A cell in an `await` finishes: the interrupt comes to it when it has ended.
        (("finished", "finished"), "Processes 0, 1 did not finish the cell within 2.0 s (--timeout) and were"),
    ],
)  # fmt: skip
def test_a_cell_that_reached_its_limit_names_those_that_were_late(
    ends: tuple[Any, ...], who: str
) -> None:
    notice = timeout_error(by_id(*map(stands, (0, 1), ends)), 2.0, FACTS, []).notice
    assert (notice.code, notice.title) == ("timeout", f"{who} interrupted.")
    assert (notice.text, notice.do) == ("", "")


def test_the_line_is_named_where_all_that_were_late_were_in_it() -> None:
    late = {p: stands(p, "interrupted", activity=PLACE) for p in (0, 1)}
    assert timeout_error(late, 2.0, FACTS, []).notice.title.endswith(f"interrupted {LINE}.")
    late[1] = stands(1, "interrupted", activity=structs.replace(PLACE, line=9))
    assert timeout_error(late, 2.0, FACTS, []).notice.title.endswith("interrupted.")
    assert [
        line.split("   ")[0] for line in timeout_error(late, 2.0, FACTS, []).notice.details
    ] == [
        "process 0",
        "process 1",
    ]


@pytest.mark.parametrize(
    ("facts", "text", "do", "lost"),
    [
        (replace(FACTS, notice=DONE), f"{DONE.title} {DONE.text}", DONE.do, DONE.lost),
        (OUT, f"The session is out of step: {OUT.why}.", OUT.remedy, ()),
    ],
)
def test_what_was_done_after_the_limit_is_part_of_the_same_notice(
    facts: ProcessFacts, text: str, do: str, lost: tuple[str, ...]
) -> None:
    late = by_id(stands(0, "interrupted"), stands(1, "finished"))
    error = timeout_error(late, 2.0, facts, ["said meanwhile"])
    assert (error.notice.text, error.notice.do, error.notice.lost) == (text, do, lost)
    assert "said meanwhile" in error.notice.details
    assert str(error) == str(error.notice)


# ---- short forms


@pytest.mark.parametrize(
    ("one_host", "named"), [(True, "process 0"), (False, "process 0 (host h1)")]
)
def test_a_process_that_is_gone_stands_with_its_host_only_beside_others(
    one_host: bool, named: str
) -> None:
    gone = stands(0, "gone", error="ended with exit code 3", one_host=one_host)
    assert outcome_text(by_id(gone)) == f"{named} ended with exit code 3"


def test_the_end_of_a_cell_is_one_line() -> None:
    assert ending_text(5, by_id(stands(0, "finished"), stands(1, "finished")), 3.2) == (
        "cell 5 ended after 3.2 s: processes 0, 1 finished"
    )
    stopped = by_id(stands(0, "not run"), *(stands(p, "interrupted") for p in (1, 2)))
    assert outcome_text(stopped) == "processes 1, 2 were interrupted"
