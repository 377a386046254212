"""Following a cell that another kernel has sent: a step that fails is not its end, twenty are."""

from __future__ import annotations

import logging
import threading

import pytest

from nbdist.message_guard import MessageGuard
from nbdist.session.cells import followed
from nbdist.session.cells.followed import MOST_FAILED_STEPS, follow
from nbdist.session.cells.outcome import ProcessOutcome
from tests.builders.outcomes import stands

FINAL = {0: stands(0, "finished")}


@pytest.fixture
def guard(monkeypatch: pytest.MonkeyPatch) -> MessageGuard:
    monkeypatch.setattr(followed, "STEP_SECONDS", 0.0)
    return MessageGuard("A look at cell 3", logging.getLogger("nbdist.session.cells.followed"))


def test_a_step_that_fails_is_followed_by_the_next(guard: MessageGuard) -> None:
    steps = iter([RuntimeError("a renderer"), None, RuntimeError("again"), None, FINAL])

    def step_until(deadline: float) -> dict[int, ProcessOutcome] | None:
        step = next(steps)
        if isinstance(step, Exception):
            raise step
        return step

    assert follow(step_until, threading.Event(), guard) == FINAL
    assert guard.failures == 2


def test_a_cell_whose_every_step_fails_ends_with_what_it_raised(guard: MessageGuard) -> None:
    calls = 0

    def step_until(deadline: float) -> dict[int, ProcessOutcome] | None:
        nonlocal calls
        calls += 1
        raise RuntimeError(f"step {calls}")

    with pytest.raises(RuntimeError, match=f"step {MOST_FAILED_STEPS + 1}$"):
        follow(step_until, threading.Event(), guard)


def test_a_cell_that_is_left_is_followed_no_longer(guard: MessageGuard) -> None:
    left = threading.Event()
    left.set()
    assert follow(lambda deadline: FINAL, left, guard) is None
