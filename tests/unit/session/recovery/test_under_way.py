"""Programs that all processes have sent are waited for, as long as somebody gets on with them."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from nbdist.contract.calls.stepping import UnderWay
from nbdist.session.recovery import waiting
from tests.builders.engines import FakeEngines, sent, trail


def waited(engines: FakeEngines) -> list[str]:
    """What is said meanwhile."""
    said: list[str] = []
    states = {p: trail(sent(0, serial=3), earliest=2 if p else None) for p in (0, 1)}
    waiting.until_computed(engines, states, say=said.append)  # type: ignore[arg-type]
    return said


def answers(*arrays: int, progress: bool = True) -> FakeEngines:
    """Process 1 has so many arrays to compute, look by look, and then the last number for ever."""
    looks = iter(arrays)
    left = [arrays[0]]
    count = itertools.count()

    def under_way(process_id: int, **_: Any) -> UnderWay:
        if process_id == 0:
            return UnderWay(arrays=0, progress=(0, 0))
        left[0] = next(looks, left[0])
        return UnderWay(arrays=left[0], progress=(next(count) if progress else 0, 0))

    return FakeEngines(under_way=under_way)


def test_where_all_is_computed_it_asks_once() -> None:
    engines = FakeEngines()
    assert waited(engines) == []
    assert engines.asked == [("under_way", 0), ("under_way", 1)]


@pytest.mark.parametrize("earliest", [None, 4])
def test_where_nothing_that_all_have_sent_is_left_nobody_is_asked(earliest: int | None) -> None:
    engines = FakeEngines()
    states = {p: trail(sent(0, serial=3), earliest=earliest) for p in (0, 1)}
    waiting.until_computed(engines, states, say=[].append)  # type: ignore[arg-type]
    assert engines.asked == []


@pytest.mark.parametrize(
    ("arrays", "progress", "looks"), [((2, 2, 1, 0), True, 4), ((2,), False, 2)]
)
def test_it_waits_for_what_gets_on_and_not_for_what_stands_still(
    monkeypatch: pytest.MonkeyPatch, arrays: tuple[int, ...], progress: bool, looks: int
) -> None:
    monkeypatch.setattr(waiting, "STILL_SECONDS", 0.0)
    engines = answers(*arrays, progress=progress)
    assert waited(engines) == []
    assert len(engines.asked) == 2 * looks


def test_an_interrupt_ends_the_wait() -> None:
    engines = answers(2)
    engines.hurry.set()
    assert waited(engines) == []
    assert engines.asked == []


def test_a_long_wait_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "SAY_UNDER_WAY_SECONDS", -1.0)
    monkeypatch.setattr(waiting, "LOOK_SECONDS", 0.0)
    said = waited(answers(*[1] * 9, 0))
    assert said == [
        "process 1 still computes what all have sent; waiting for it (an interrupt ends the wait)"
    ]


def test_it_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "LIMIT_SECONDS", -1.0)
    engines = answers(2)
    assert waited(engines) == []
    assert len(engines.asked) == 2
