"""An expression that all processes evaluate at the same time: whatever happens, nobody is left waiting in it."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from nbdist.contract.asides import Abandon, Free
from nbdist.contract.calls.inspection import ArraysFound, FindShards
from nbdist.contract.calls.stepping import Proven
from nbdist.errors import ArrayError, SessionError
from nbdist.launch.model.start_options import Rules
from nbdist.session.recovery import expression
from nbdist.session.recovery.expression import (
    ask_all_workers,
    ask_some,
    fence,
    is_name,
    refuse_busy,
)
from tests.builders.engines import FakeEngines
from tests.builders.outcomes import stands
from tests.builders.reports import RUNNING

RULES = Rules(grace_s=0.0, give_up_s=0.0)
ANSWER = ArraysFound(expression="w", arrays=(), meshes=(), same={}, omitted=0, closed=0)


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expression, "REPORT_SECONDS", 0.02)


def asked(engines: Any, *, wanted: Any = (0, 1), timeout_s: float = 60.0) -> Any:
    call = FindShards(expression="f(w)")
    return ask_all_workers(engines, call, wanted=wanted, timeout_s=timeout_s, rules=RULES)


@pytest.mark.parametrize(
    ("text", "name"), [("w", True), (" w ", True), ("w.b", False), ("w[0]", False), ("f()", False)]
)
def test_only_a_plain_name_needs_no_program(text: str, name: bool) -> None:
    assert is_name(text) == name


def test_some_are_asked_and_all_answers_taken() -> None:
    engines: Any = FakeEngines(shards=lambda p, **_: structs.replace(ANSWER, omitted=p))
    answers = ask_some(engines, FindShards(expression="w"), [0, 1], timeout_s=1.0)
    assert {p: answer.omitted for p, (answer, _) in answers.items()} == {0: 0, 1: 1}


def test_one_that_does_not_answer_in_time_is_said_with_what_it_does() -> None:
    engines: Any = FakeEngines(shards=lambda p, **_: None if p else ANSWER)
    engines.monitor.reported[1] = RUNNING
    with pytest.raises(
        SessionError,
        match=r"process 1 \(host h2\) is in cell 12, line 4, and did not answer within",
    ):
        ask_some(engines, FindShards(expression="w"), [0, 1], timeout_s=0.01)


def test_all_take_part_under_one_number_and_only_the_wanted_answer() -> None:
    numbers: dict[int, int] = {}

    def shards(process_id: int, *, number: int, expression: str) -> ArraysFound:
        numbers[process_id] = number
        return ANSWER

    engines = FakeEngines(shards=shards)
    assert list(asked(engines, wanted=(1,))) == [1]
    assert numbers == {0: 7, 1: 7}
    assert engines.names() == ["shards"], "nothing has to be made sure of"


def test_a_process_in_a_cell_keeps_all_from_it() -> None:
    engines = FakeEngines(shards=lambda p, **_: ANSWER)
    engines.monitor.reported[1] = RUNNING
    with pytest.raises(
        SessionError, match=r"^process 1 \(host h2\) is in cell 12, line 4\. An expr"
    ):
        asked(engines)
    assert engines.asked == []


@pytest.mark.parametrize("later", [0, 1])
def test_a_report_from_before_the_end_of_its_cell_does_not(later: int) -> None:
    engines = FakeEngines(shards=lambda p, **_: ANSWER)
    ended = {p: stands(p, "finished") for p in (0, 1)}
    engines.health.learn(ended, 12 + later, run=70 + later)
    engines.monitor.reported[1] = structs.replace(RUNNING, run=70)
    assert list(asked(engines)) == [0, 1]


def test_the_end_of_a_cell_elsewhere_says_nothing_of_one_that_runs() -> None:
    engines = FakeEngines(shards=lambda p, **_: ANSWER)
    engines.health.learn({0: stands(0, "finished")}, 13, run=71)
    engines.monitor.reported[1] = structs.replace(RUNNING, run=70)
    with pytest.raises(SessionError, match="is in cell 12"):
        asked(engines)


def test_one_that_is_known_to_be_in_a_cell_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(expression, "REPORT_SECONDS", 60.0)
    engines: Any = FakeEngines()
    with pytest.raises(SessionError, match="Values can be pushed only while"):
        refuse_busy(engines, [0, 1], "Values can be pushed only while no cell runs", known=[1])
    refuse_busy(engines, [0], "Values", known=[1])


def test_where_one_fails_the_others_are_freed_and_it_is_made_sure_that_all_are_in_step() -> None:
    engines = FakeEngines(shards=lambda p, **_: ArrayError("no array") if p else None)
    with pytest.raises(ArrayError, match=r"^no array$"):
        asked(engines)
    assert engines.interrupted == [[0]]
    assert engines.asides[0] == (Abandon(), [0])
    assert engines.names() == ["shards", "step", "prove", "versions"]
    assert not engines.facts.out_of_step


def test_what_was_done_then_stands_below_the_error() -> None:
    engines = FakeEngines(
        shards=lambda p, **_: ArrayError("no array"),
        prove=lambda p, **_: Proven(passed=False, alike=True, error="x"),
    )
    engines.cluster.agents.all = []
    with pytest.raises(ArrayError, match=r"^no array\n") as raised:
        asked(engines)
    notice = engines.notice  # type: ignore[attr-defined]
    assert notice.code == "out of step"
    assert str(raised.value) == f"no array\n{notice}"
    assert engines.facts.out_of_step


def test_what_takes_too_long_is_interrupted_and_said() -> None:
    engines = FakeEngines(shards=lambda p, **_: None)
    with pytest.raises(SessionError, match="processes 0, 1 did not end within"):
        asked(engines, timeout_s=0.01)
    assert engines.interrupted == [[0, 1]]
    assert not engines.facts.out_of_step


def test_one_that_does_not_come_back_is_stuck(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expression, "CUT_SECONDS", 0.01)
    monkeypatch.setattr(expression, "CUT_AGAIN_SECONDS", 0.01)

    def shards(process_id: int, **_: Any) -> Any:
        engines.monitor.reported[1] = RUNNING  # from then on it says that it computes
        return None if process_id else ANSWER

    engines = FakeEngines(shards=shards)
    engines.obeys = {0}
    with pytest.raises(SessionError, match="process 1 did not stop when interrupted"):
        asked(engines, timeout_s=0.01)
    assert engines.facts.stuck == frozenset({1})
    assert (Free(), [1]) in engines.asides


def test_one_that_has_not_begun_when_it_is_interrupted_first_is_interrupted_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(expression, "CUT_AGAIN_SECONDS", 0.01)
    engines = FakeEngines(shards=lambda p, **_: None)
    interrupt = engines.interrupt

    def begins_late(process_ids: list[int]) -> None:
        engines.obeys = {0} if len(engines.interrupted) < 3 else {0, 1}
        interrupt(process_ids)

    monkeypatch.setattr(engines, "interrupt", begins_late)
    with pytest.raises(SessionError, match="did not end within"):
        asked(engines, timeout_s=0.01)
    assert engines.interrupted == [[0, 1], [1], [1], [1]]
    assert not engines.facts.stuck


def test_one_is_stuck_until_it_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expression, "CUT_AGAIN_SECONDS", 0.3)
    engines = FakeEngines(shards=lambda p, **_: None if p else ANSWER)
    engines.obeys = set()
    with pytest.raises(SessionError, match="process 1 did not stop when interrupted"):
        asked(engines, timeout_s=0.01)
    engines.health.notice_returned()  # it reports that it is idle: what it evaluates is no cell
    assert engines.facts.stuck == {1}
    engines.obeys = {1}
    engines.interrupt([1])
    engines.health.notice_returned()
    assert not engines.facts.stuck


def test_an_interrupt_while_they_are_asked_frees_those_that_were() -> None:
    def shards(process_id: int, **_: Any) -> Any:
        if process_id:
            raise KeyboardInterrupt

    engines = FakeEngines(shards=shards)
    with pytest.raises(KeyboardInterrupt):
        asked(engines)
    assert engines.interrupted == [[0]]
    assert "prove" in engines.names()


def test_an_interrupt_of_the_person_frees_all_and_makes_sure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engines = FakeEngines(shards=lambda p, **_: None)

    def pressed(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(expression, "_until_end", pressed)
    with pytest.raises(KeyboardInterrupt):
        asked(engines)
    assert engines.interrupted == [[0, 1]]
    assert "prove" in engines.names()


@pytest.mark.timeout(10)
def test_one_that_is_in_a_cell_which_nobody_follows_does_not_keep_a_kernel_waiting() -> None:
    engines: Any = FakeEngines(refuse_earlier=lambda p, **_: None if p else True)
    engines.monitor.reported[1] = RUNNING
    fence(engines, lambda: (), rules=RULES)
    assert engines.interrupted == [[1]]


def test_one_in_a_cell_that_is_followed_is_left_alone() -> None:
    engines: Any = FakeEngines(refuse_earlier=lambda p, **_: None if p else True)
    engines.monitor.reported[1] = RUNNING
    fence(engines, lambda: (1,), rules=RULES)
    assert engines.interrupted == []
