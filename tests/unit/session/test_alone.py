"""What one idle process answers alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from nbdist.contract.calls.engine import Complete, Completions
from nbdist.session.asking import AskedAlone
from tests.builders.engines import FakeEngines, gone
from tests.builders.reports import RUNNING

COMPLETE = Complete(code="me", cursor=2)
ANSWER = Completions(text="me", matches=("mesh",))


def asked(engines: Any) -> Any:
    return AskedAlone(engines).ask(COMPLETE, timeout_s=0.01)


def test_the_lowest_idle_process_that_lives_is_asked() -> None:
    engines = FakeEngines(complete=lambda p, **_: ANSWER)
    assert asked(engines) == ANSWER
    assert engines.asked == [("complete", 0)]


@pytest.mark.parametrize("why", ["busy", "lost"])
def test_one_that_is_busy_or_lost_is_not_asked(why: str) -> None:
    engines = FakeEngines(complete=lambda p, **_: ANSWER)
    if why == "busy":
        engines.monitor.reported[0] = RUNNING
    else:
        engines.facts = replace(engines.facts, lost={0: "killed"})
    assert asked(engines) == ANSWER
    assert engines.asked == [("complete", 1)]


def test_where_none_is_idle_nobody_is_asked() -> None:
    engines = FakeEngines(complete=lambda p, **_: ANSWER)
    engines.monitor.reported = {0: RUNNING, 1: RUNNING}
    assert asked(engines) is None
    assert engines.asked == []


@pytest.mark.parametrize("answer", [gone(), None])
def test_one_that_ends_or_does_not_answer_in_time_has_no_answer(answer: Any) -> None:
    assert asked(FakeEngines(complete=lambda p, **_: answer)) is None


def test_an_answer_that_used_the_devices_of_others_is_known_once() -> None:
    engines: Any = FakeEngines(complete=lambda p, **_: ANSWER)
    send = engines.send

    def computing(process_id: int, call: Complete) -> Any:
        request = send(process_id, call)
        request.computed = True
        return request

    engines.send = computing
    alone = AskedAlone(engines)
    assert not alone.computed()
    alone.ask(COMPLETE, timeout_s=0.01)
    assert alone.computed()
    assert not alone.computed()


def test_an_answer_that_came_too_late_is_known_when_it_is_there() -> None:
    engines: Any = FakeEngines(complete=lambda p, **_: None)
    alone = AskedAlone(engines)
    send = engines.send
    requests = []

    def keeping(process_id: int, call: Complete) -> Any:
        requests.append(send(process_id, call))
        return requests[-1]

    engines.send = keeping
    assert alone.ask(COMPLETE, timeout_s=0.01) is None
    assert not alone.computed()
    requests[0].answer(ANSWER, computed=True)
    assert alone.computed()
