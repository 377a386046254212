"""What a person asks for right after a cell is not answered from reports of the middle of that cell."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from nbdist.contract.calls.engine import Looked
from nbdist.contract.snapshot import Activity
from nbdist.errors import LaunchError
from nbdist.session import reports as module
from tests.builders.engines import FakeEngines, gone
from tests.builders.outcomes import stands
from tests.builders.reports import IDLE, RUNNING


class Engines(FakeEngines):
    """Processes that report these in turn, the last for ever."""

    def __init__(self, *turns: list[Activity | None], **answers: Any) -> None:
        super().__init__(**{"look": lambda p, **_: Looked(sequence=7 + p), **answers})
        self._turns: dict[int, Iterator[Activity | None]] = dict(enumerate(map(iter, turns)))
        self.monitor.activity = self._activity  # type: ignore[method-assign]

    def _activity(self, process_id: int) -> Activity | None:
        last = self.monitor.reported.get(process_id)
        now = next(self._turns[process_id], last)
        self.monitor.reported[process_id] = now  # type: ignore[assignment]
        return now

    def looked(self) -> list[int]:
        return [p for name, p in self.asked if name == "look"]


def test_who_has_left_its_cell_is_waited_for_until_it_reports_so() -> None:
    engines = Engines([IDLE], [RUNNING, RUNNING, RUNNING, IDLE])
    engines.reports.look(())
    assert engines.looked() == [0, 1]
    assert engines.monitor.waited_for == {0: 7, 1: 8}


@pytest.mark.parametrize("why", ["in a cell", "stuck", "lost", "silent"])
def test_who_is_in_a_cell_stuck_lost_or_silent_is_not(
    monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    monkeypatch.setattr(module, "IDLE_SECONDS", 60.0)
    engines = Engines([None if why == "silent" else RUNNING], [IDLE])
    if why == "stuck":
        engines.facts = replace(engines.facts, stuck=frozenset({0}))
    if why == "lost":
        engines.facts = replace(engines.facts, lost={0: "killed"})
    engines.reports.look({0} if why == "in a cell" else ())
    assert engines.looked() == [1]


def test_one_that_others_keep_busy_is_left_out_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "IDLE_SECONDS", 0.05)
    engines = Engines([RUNNING], [IDLE])
    engines.reports.look(())
    assert engines.looked() == [1]


@pytest.mark.parametrize("answer", [gone(), None])
def test_a_process_that_dies_or_is_silent_when_it_is_asked_is_no_error_of_the_question(
    answer: Any,
) -> None:
    engines = Engines([IDLE], [IDLE], look=lambda p, **_: answer if p else Looked(sequence=7))
    engines.reports.renew([0, 1], within_s=0.01)
    assert engines.monitor.waited_for == {0: 7}


def test_one_that_has_died_and_cannot_be_asked_any_more_is_none_either() -> None:
    def look(process_id: int, **_: Any) -> Looked:
        if process_id == 1:
            raise gone()
        return Looked(sequence=7)

    engines = Engines([IDLE], [IDLE], look=look)
    engines.reports.look(())
    assert engines.monitor.waited_for == {0: 7}


def test_a_start_waits_for_the_first_report_of_every_process() -> None:
    engines = Engines([None, IDLE], [None, None, None, IDLE])
    engines.reports.first(devices=False)
    assert engines.monitor.reported == {0: IDLE, 1: IDLE}


def test_a_session_that_would_see_nothing_of_a_process_is_not_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "FIRST_SECONDS", 0.05)
    engines = Engines([IDLE], [None])
    with pytest.raises(
        LaunchError, match=r"process 1 \(host h2\) joined, but nothing that is published"
    ):
        engines.reports.first(devices=False)


def test_a_report_from_before_the_end_of_a_cell_says_nothing_of_the_next() -> None:
    engines = FakeEngines()
    engines.health.learn({1: stands(1, "finished")}, 5, run=50)
    for run in (40, 50):
        engines.monitor.reported[1] = structs.replace(RUNNING, run=run)
        assert engines.reports.busy(1)
        assert not engines.reports.in_cell(1), "the cell of this run, or a later one, has ended"
    engines.monitor.reported[1] = structs.replace(RUNNING, run=60)
    assert engines.reports.in_cell(1)


@pytest.mark.parametrize(
    ("activity", "text"),
    [
        (RUNNING, "process 1 (host h2) is in cell 12, line 4"),
        (structs.replace(RUNNING, line=None), "process 1 (host h2) is in cell 12"),
        (structs.replace(RUNNING, cell=None), "process 1 (host h2) is busy"),
        (None, "process 1 (host h2) is busy"),
    ],
)
def test_what_a_process_does_is_said_as_far_as_it_is_known(
    activity: Activity | None, text: str
) -> None:
    engines = FakeEngines()
    engines.monitor.reported[1] = activity  # type: ignore[assignment]
    assert engines.reports.doing(1) == text
