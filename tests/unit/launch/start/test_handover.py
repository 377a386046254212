"""A connection file goes to those whose keys are known, and nobody else reads it."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import pytest

from nbdist.agent.kernel_link import Collecting
from nbdist.launch.start.connect import Handover
from tests.waiting import wait_for

SECONDS = 30.0
CONNECTION = {"interface": "tcp://127.0.0.1", "key": "5e55" * 16}


def collected(task: Collecting) -> dict[str, Any] | None:
    until = time.monotonic() + SECONDS
    while (found := task.poll()) is None and time.monotonic() < until:
        time.sleep(0.005)
    return found


@pytest.fixture
def keys() -> set[str]:
    return set()


def test_tasks_get_it_whether_their_key_or_their_question_comes_first(keys: set[str]) -> None:
    with Handover(CONNECTION, keys) as handover:
        early, late = (
            Collecting(handover.order.address, handover.order.server_key),
            Collecting(handover.order.address, handover.order.server_key),
        )
        keys.add(early.public_key)
        assert collected(early) == CONNECTION
        assert late.poll() is None
        keys.add(late.public_key)
        assert collected(late) == CONNECTION
        early.close()
        late.close()


class AskedAbout(set[str]):
    """Keys, and which the handover has asked about how often."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: Counter[str] = Counter()

    def __contains__(self, key: object) -> bool:
        self.asked[str(key)] += 1
        return super().__contains__(key)


def test_a_key_that_no_task_has_sent_gets_nothing_and_keeps_nobody_from_it() -> None:
    keys = AskedAbout()
    with Handover(CONNECTION, keys) as handover:
        stranger, task = (
            Collecting(handover.order.address, handover.order.server_key),
            Collecting(handover.order.address, handover.order.server_key),
        )
        wait_for(lambda: keys.asked[stranger.public_key], within_s=SECONDS)
        keys.add(task.public_key)
        assert collected(task) == CONNECTION
        # Whoever has been answered is not asked about again: this one still waits.
        before = keys.asked[stranger.public_key]
        wait_for(lambda: keys.asked[stranger.public_key] > before + 1, within_s=SECONDS)
        assert stranger.poll() is None
        stranger.close()
        task.close()
