"""Hosts that are silent are waited for until they answer or are given up, unless a person waits no longer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from nbdist.session.cells.facts import ProcessFacts
from nbdist.session.recovery import in_place
from tests.builders.clock import Clock
from tests.builders.engines import FakeEngines


@pytest.fixture
def engines() -> FakeEngines:
    made = FakeEngines()
    made.facts = replace(made.facts, silent={"h2": 1.0})
    return made


@pytest.fixture
def waited(
    engines: FakeEngines, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[list[str], float]]:
    """Waits; at a moment that a test has chosen something happens."""

    def wait(at: float, happens: Callable[[], None]) -> tuple[list[str], float]:
        clock = Clock()
        began, pause = clock.now, clock.sleep

        def sleep(seconds: float) -> None:
            pause(seconds)
            if clock.now - began >= at:
                happens()

        clock.sleep = sleep  # type: ignore[method-assign]
        monkeypatch.setattr(in_place, "time", clock)
        said: list[str] = []
        in_place.wait_for_silent_hosts(engines, say=said.append)  # type: ignore[arg-type]
        return said, clock.now - began

    return wait


def test_one_that_answers_again_soon_is_not_even_named(
    engines: FakeEngines, waited: Callable
) -> None:
    said, seconds = waited(0.9, lambda: engines.health.note(ProcessFacts.silent_since, {}))
    assert said == []
    assert 0.9 <= seconds < 1.0


def test_one_that_takes_longer_is_named_once(engines: FakeEngines, waited: Callable) -> None:
    said, seconds = waited(20.0, lambda: engines.health.note(ProcessFacts.silent_since, {}))
    assert len(said) == 1
    assert said[0].startswith("host h2 does not answer: waited for until it does, or is given up")
    assert 20.0 <= seconds < 20.1


def test_a_person_need_not_wait(engines: FakeEngines, waited: Callable) -> None:
    _, seconds = waited(3.0, engines.hurry.set)
    assert 3.0 <= seconds < 3.1


def test_nobody_waits_for_ever(waited: Callable) -> None:
    _, seconds = waited(1000.0, lambda: None)
    assert in_place.LOST_SECONDS < seconds < in_place.LOST_SECONDS + 10.0
