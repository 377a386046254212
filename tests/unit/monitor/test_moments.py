"""What is compared: reports of one moment, never one that is old, behind, or on its way."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from nbdist.contract.snapshot import Activity, Report
from nbdist.monitor.disagreements import OLD_SECONDS
from nbdist.monitor.states import Known
from tests.builders.reports import IDLE, NOW, RUNNING, Session, named, report, single

BOTH = ["mesh in context", "array w"]


def reports(activity: Activity, **other: Any) -> list[Report]:
    """Reports of all but process 3, and one of process 3 that says another mesh and lacks an array."""
    mine = structs.replace(activity, run=5, context_mesh="m")
    last = structs.replace(other.pop("only", activity), run=other.pop("run", 5), context_mesh=None)
    content_run = other.pop("content_run", 5)
    return [
        *(report(n, named(), activity=mine, content_run=5) for n in range(3)),
        report(3, activity=last, content_run=content_run),
    ]


def found(session: Session, **known: Any) -> list[str]:
    """What is said to differ after it has lasted, and while the others go on to report."""
    session.merger.snapshot(Known(**known), time_s=NOW)
    snapshot = session.merger.snapshot(Known(**known), time_s=NOW + 2.5)
    return [one.about for one in snapshot.disagreements]


@pytest.mark.parametrize(
    ("activity", "other", "differ"),
    [
        (IDLE, {}, BOTH),
        (RUNNING, {}, BOTH),
        # Reported before the newest cell, or before any.
        (IDLE, {"run": 4, "content_run": 4}, []),
        (IDLE, {"run": None, "content_run": None}, []),
        # What was looked at in the middle of a cell.
        (IDLE, {"content_run": None}, BOTH[:1]),
    ],
)
def test_only_reports_of_one_moment_are_compared(
    activity: Activity, other: dict[str, Any], differ: list[str]
) -> None:
    session = Session(*reports(activity, **other))
    session.merger.sent(range(4), 5)
    assert found(session) == differ


def test_a_process_that_was_sent_no_cell_is_not_behind() -> None:
    session = Session(*reports(IDLE, run=4, content_run=4))
    session.merger.sent(range(4), 4)
    session.merger.sent(range(3), 5)
    assert found(session) == BOTH


@pytest.mark.parametrize("activity", [IDLE, RUNNING])
def test_a_reply_does_not_make_an_older_report_one_of_now(activity: Activity) -> None:
    session = Session(*reports(activity, only=RUNNING))
    session.merger.sent(range(4), 5)
    session.merger.rest(range(4), RUNNING.cell)
    assert session.merger.snapshot(Known(), time_s=NOW).processes[3].state == "idle"
    assert found(session) == []


def test_a_process_that_is_silent_for_long_or_whose_host_is_is_compared_with_nobody() -> None:
    session = Session()
    *others, last = reports(IDLE)
    session.take(*others)
    session.take(last, at=NOW - OLD_SECONDS)
    assert found(session) == []
    session = Session(*reports(IDLE))
    assert found(session, silent={"h2": NOW}) == []
    assert found(session) == BOTH


def test_a_process_that_was_started_again_is_not_behind_the_cells_of_the_one_before() -> None:
    session = Session(*reports(IDLE))
    session.merger.sent(range(4), 5)
    new = report(3, single(3), activity=structs.replace(IDLE, run=None), content_run=None)
    session.take(structs.replace(new, pid=999))
    assert found(session) == BOTH
