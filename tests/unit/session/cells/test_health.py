"""What is known of processes that do not come back, and of names that are not what they were."""

from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec import structs

from nbdist.contract.cells import Doubt
from nbdist.session.cells.facts import RECOVER, ProcessFacts
from nbdist.spelling import Door, through
from tests.builders.engines import FakeEngines
from tests.builders.outcomes import ended, stands
from tests.builders.reports import IDLE, RUNNING

STUCK = {1: stands(1, "stuck")}


@pytest.mark.parametrize(
    ("activity", "back"),
    [
        (structs.replace(IDLE, run=7), True),
        (structs.replace(IDLE, run=9), True),
        (
            structs.replace(IDLE, run=6),
            False,
        ),  # from before the cell: it was stopped at its beginning
        (structs.replace(IDLE, run=None), False),
        (structs.replace(RUNNING, run=7), False),
    ],
)
def test_one_is_back_when_it_reports_so_after_the_cell_it_was_stuck_in(
    activity: object, back: bool
) -> None:
    engines = FakeEngines()
    engines.health.learn(STUCK, 3, run=7)
    engines.monitor.reported[1] = activity  # type: ignore[assignment]
    engines.health.notice_returned()
    assert engines.facts.stuck == (frozenset() if back else {1})


def test_the_view_knows_the_cell_a_process_is_stuck_in_where_its_report_says_that_it_is_back() -> (
    None
):
    engines = FakeEngines()
    engines.health.learn(STUCK, 3, run=7)
    assert engines.monitor.shown[-1].stuck_in == {1: 7}
    engines.health.stuck({1}, back=lambda process_id: False)
    assert engines.monitor.shown[-1].stuck == {1}
    assert engines.monitor.shown[-1].stuck_in == {}


def test_one_that_is_stuck_again_is_not_back_for_what_it_was_stuck_in_before() -> None:
    engines = FakeEngines()
    engines.health.stuck({1}, back=lambda process_id: True)
    engines.health.recovered()  # another process has taken its place
    engines.health.learn(STUCK, 3, run=7)
    engines.monitor.reported[1] = structs.replace(RUNNING, run=7)
    engines.health.notice_returned()
    assert engines.facts.stuck == {1}


def test_others_that_are_started_are_shown_until_they_are_there_or_cannot_be() -> None:
    engines = FakeEngines()
    with pytest.raises(ValueError), engines.health.resizing("3 in place of 4"):
        assert engines.monitor.shown[-1].resizing == "3 in place of 4"
        raise ValueError
    assert engines.monitor.shown[-1].resizing is None


def test_where_no_process_is_left_no_repair_is_recommended() -> None:
    killed = dict.fromkeys((0, 1), "killed")
    facts = replace(FakeEngines().facts, proves=True, since=3, advice=RECOVER)
    for lost, helps in (
        ({0: "killed"}, "%dist_recover brings"),
        (killed, "%dist_init --restart starts"),
    ):
        assert helps in replace(facts, lost=lost).remedy
    assert "recover" not in replace(facts, lost=killed).remedy
    beyond = replace(facts, lost=killed, unreachable=frozenset({0}), leaves_out=True)
    assert "host is back" in beyond.remedy


def test_the_view_speaks_to_who_has_started_the_session() -> None:
    with through(Door.PYTHON):
        engines = FakeEngines()
    engines.facts = replace(engines.facts, advice=RECOVER)
    engines.health.note(ProcessFacts.found_out_of_step, 3, "stuck")
    assert engines.monitor.shown[-1].advice.startswith("session.recover() brings")


def test_names_that_are_set_again_are_sure() -> None:
    engines = FakeEngines()
    copied, older = Doubt(kind="copied", of=0), Doubt(kind="older", of=3)
    engines.health.recovered("done", unsure={"x": copied, "y": copied})
    engines.health.recovered("done again", unsure={"z": older})
    engines.health.sure_of({"x", "q"})
    assert engines.facts.unsure == {"y": copied, "z": older}


def test_how_a_process_ended_replaces_that_it_was_out_of_reach() -> None:
    health = FakeEngines().health
    end = ended(code=1)
    unreachable = replace(end, code=-9, because_of="the engines' parent process")
    said = []
    for known in (unreachable, end, unreachable):
        health.note(ProcessFacts.ended, {1: known})
        said.append(health.facts.lost[1])
    assert said[0].startswith("out of reach")
    assert said[1:] == [str(end)] * 2
