"""Processes that did not come back are waited for while they compile, and no longer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from msgspec import structs

from nbdist.contract.asides import Free
from nbdist.session.recovery import waiting
from tests.builders.clock import Clock
from tests.builders.engines import FakeEngines
from tests.builders.outcomes import stands
from tests.builders.reports import RUNNING

COMPILING = structs.replace(RUNNING, state="compiling", run=7)
INSIDE = structs.replace(RUNNING, run=7)
LEFT = structs.replace(RUNNING, state="idle", run=7)


@pytest.fixture
def engines() -> FakeEngines:
    """Both processes have been given up in a cell."""
    made = FakeEngines()
    stuck = {p: stands(p, "stuck") for p in (0, 1)}
    made.facts = made.health.learn(stuck, 3, run=7)
    return made


@pytest.fixture
def waited(
    engines: FakeEngines, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[set[int], list[str], float]]:
    """Waits while processes report what a test has chosen, in the second it has chosen."""
    clock = Clock()
    began, pause = clock.now, clock.sleep

    def wait(
        *script: tuple[float, int, object],
        interrupted: bool = False,
        until_s: float | None = None,
    ) -> tuple[set[int], list[str], float]:
        def sleep(seconds: float) -> None:
            pause(seconds)
            for moment, process_id, activity in script:
                if clock.now - began >= moment:
                    engines.monitor.reported[process_id] = activity  # type: ignore[assignment]

        clock.sleep = sleep  # type: ignore[method-assign]
        monkeypatch.setattr(waiting, "time", clock)
        said: list[str] = []
        left = waiting.not_back(
            engines,  # type: ignore[arg-type]
            say=said.append,
            interrupted=interrupted,
            until=None if until_s is None else began + until_s,
        )
        return left, said, clock.now - began

    return wait


def test_one_that_compiles_is_waited_for_and_named(engines: FakeEngines, waited: Callable) -> None:
    engines.monitor.reported = {0: LEFT, 1: COMPILING}
    left, said, seconds = waited((300.0, 1, INSIDE), (301.0, 1, LEFT))
    assert left == set()
    assert 301.0 <= seconds < 302.0
    assert engines.facts.stuck == frozenset()
    assert len(said) == 1
    assert said[0].startswith("process 1 still compiling")


def test_where_all_are_back_nothing_is_said(engines: FakeEngines, waited: Callable) -> None:
    engines.monitor.reported = {0: LEFT, 1: LEFT}
    assert waited() == (set(), [], 0.0)


def test_one_that_does_something_else_is_not_waited_for(
    engines: FakeEngines, waited: Callable
) -> None:
    engines.monitor.reported = {0: COMPILING, 1: INSIDE}
    left, _, seconds = waited()
    assert left == {0, 1}
    assert seconds < 2.0
    assert engines.facts.stuck == {0, 1}


def test_one_that_goes_on_after_its_compilation_is_given_up(
    engines: FakeEngines, waited: Callable
) -> None:
    engines.monitor.reported = {0: LEFT, 1: COMPILING}
    left, _, seconds = waited((60.0, 1, INSIDE))
    assert left == {1}
    assert 60.0 + waiting.BACK_SECONDS <= seconds < 67.0


def test_one_that_waits_after_its_compilation_is_freed(
    engines: FakeEngines, waited: Callable
) -> None:
    engines.monitor.reported = {0: LEFT, 1: COMPILING}
    assert waited((60.0, 1, INSIDE), (63.5, 1, LEFT))[0] == set()
    assert engines.asides == [(Free(), [1])] * 4
    assert engines.interrupted == []


def test_who_asks_for_a_recovery_has_them_interrupted_once_more_and_does_not_end_one_that_compiles(
    engines: FakeEngines, waited: Callable
) -> None:
    engines.monitor.reported = {0: LEFT, 1: COMPILING}
    assert waited((60.0, 1, LEFT), interrupted=True)[0] == set()
    assert engines.interrupted == [[1]]


def test_nor_beside_another_that_does_not_come_back(engines: FakeEngines, waited: Callable) -> None:
    engines.monitor.reported = {0: INSIDE, 1: COMPILING}
    assert waited((60.0, 1, LEFT), interrupted=True)[0] == {0}
    assert engines.interrupted == [[0, 1]]


def test_what_one_reported_long_ago_is_not_believed(
    engines: FakeEngines, waited: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    engines.monitor.reported = {0: LEFT, 1: COMPILING}
    monkeypatch.setattr(engines.monitor, "silence", lambda process_id: 60.0)
    assert waited()[0] == {1}


def test_one_that_has_ended_is_not_waited_for(engines: FakeEngines, waited: Callable) -> None:
    engines.monitor.reported = {0: LEFT, 1: COMPILING}
    engines.facts = replace(engines.facts, lost={1: "killed by signal 9"})
    assert waited() == (set(), [], 0.0)


def test_who_has_a_limit_waits_until_then(engines: FakeEngines, waited: Callable) -> None:
    engines.monitor.reported = {0: LEFT, 1: COMPILING}
    with pytest.raises(TimeoutError, match="process 1 still compiling"):
        waited(until_s=30.0)
    assert engines.facts.stuck == {1}
