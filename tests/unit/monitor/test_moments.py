"""What is compared: reports of one moment, never one that is old, behind, or on its way."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nbdist.monitor import Known
from nbdist.monitor.snapshots import OLD_SECONDS
from tests.builders.reports import IDLE, NOW, RUNNING, Session, named, report, single

SET, UNSET = replace(IDLE, context_mesh="m"), IDLE


def reports(activity, *, after: int, run: int | None = 5, content_run: int | None = 5, only=None):
    """Reports of all but process 3, and one of process 3 that says another mesh and lacks an array."""
    old = replace(activity, context_mesh=None) if only is None else only
    return [
        *(
            report(
                n,
                named(),
                sequence=after,
                activity=replace(activity, run=5, context_mesh="m"),
                content_run=5,
            )
            for n in range(3)
        ),
        report(3, sequence=after, activity=replace(old, run=run), content_run=content_run),
    ]


def found(session: Session, **known: object) -> list[str]:
    """What is said to differ after it has lasted, and while the others go on to report."""
    session.merger.snapshot(Known(**known), time_s=NOW)
    snapshot = session.merger.snapshot(Known(**known), time_s=NOW + 2.5)
    return [one.about for one in snapshot.disagreements]


def test_reports_of_one_moment_are_compared() -> None:
    session = Session(*reports(IDLE, after=1))
    session.merger.sent(range(4), 5)
    assert found(session) == ["mesh in context", "array w"]


def test_a_process_whose_report_is_of_before_the_newest_cell_is_compared_with_nobody() -> None:
    session = Session(*reports(IDLE, after=1, run=4, content_run=4))
    session.merger.sent(range(4), 5)
    assert found(session) == []


@pytest.mark.parametrize("run", [None, 4])
def test_before_its_first_cell_is_before_the_newest_one_as_well(run: int | None) -> None:
    session = Session(*reports(IDLE, after=1, run=run, content_run=run))
    session.merger.sent(range(4), 5)
    assert found(session) == []


def test_a_process_that_was_sent_no_cell_is_not_behind() -> None:
    session = Session(*reports(IDLE, after=1, run=4, content_run=4))
    session.merger.sent(range(4), 4)
    session.merger.sent(range(3), 5)
    assert found(session) == ["mesh in context", "array w"]


def test_a_reply_does_not_make_an_older_report_one_of_now() -> None:
    session = Session(*reports(IDLE, after=1, only=RUNNING))
    session.merger.sent(range(4), 5)
    session.merger.rest(range(4), RUNNING.cell)
    assert session.merger.snapshot(Known(), time_s=NOW).processes[3].state == "idle"
    assert found(session) == []


def test_what_was_looked_at_in_the_middle_of_a_cell_is_not_compared_and_the_rest_is() -> None:
    session = Session(*reports(IDLE, after=1, content_run=None))
    session.merger.sent(range(4), 5)
    assert found(session) == ["mesh in context"]


def test_a_process_that_has_not_reported_for_long_is_compared_with_nobody() -> None:
    session = Session()
    *others, last = reports(IDLE, after=1)
    session.take(*others)
    session.take(last, at=NOW - OLD_SECONDS)
    assert found(session) == []


def test_a_process_of_a_silent_host_is_compared_with_nobody() -> None:
    session = Session(*reports(IDLE, after=1))
    assert found(session, silent={"h2": NOW}) == []
    assert found(session) == ["mesh in context", "array w"]


def test_processes_in_one_line_of_one_cell_are_compared() -> None:
    session = Session(*reports(RUNNING, after=1))
    session.merger.sent(range(4), 5)
    assert found(session) == ["mesh in context", "array w"]


def test_a_process_that_was_started_again_is_not_behind_the_cells_of_the_one_before() -> None:
    session = Session(*reports(IDLE, after=1))
    session.merger.sent(range(4), 5)
    new = report(3, single(3), sequence=1, activity=replace(UNSET, run=None), content_run=None)
    session.take(replace(new, pid=999))
    assert found(session) == ["mesh in context", "array w"]


def test_two_that_have_replied_since_they_reported_from_one_line_are_not_compared() -> None:
    session = Session(*reports(RUNNING, after=1))
    session.merger.sent(range(4), 5)
    session.merger.rest(range(4), RUNNING.cell)
    assert found(session) == []
