"""Workers in a collective whose peers do not come: interrupted or bereft, and in a new cluster afterwards."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from nbdist.engine.frameworks.tensorflow.interrupt import PATIENCE_SECONDS
from nbdist.machine.ports import ReservedPorts
from tests.tensorflow.workers import Workers, addresses, wait_until_blocked
from tests.waiting import wait_for


@pytest.mark.parametrize("graph", [True, False], ids=["function", "eager"])
def test_a_worker_blocked_in_a_collective_is_freed_and_trains_in_a_new_cluster(graph: bool) -> None:
    reserved = ReservedPorts()
    again = addresses(reserved, 2)
    with Workers("blocked_and_back", 2, reserved=reserved, again=again, graph=graph) as workers:
        first, second = workers.all()
        assert first == pytest.approx(second)
        assert workers.receive(0) == "blocked"
        wait_until_blocked(workers.processes[0].pid)
        os.kill(workers.processes[0].pid, signal.SIGINT)
        assert workers.receive(0, timeout_s=30).startswith("KeyboardInterrupt")
        later = workers.receive(0)
        assert later.startswith("UnavailableError")
        assert "interrupted by nbdist; run %dist_recover or session.recover() before" in later
        train_in_the_new_cluster(workers)


def test_an_interrupt_outside_collectives_leaves_them_working(tmp_path: Path) -> None:
    inside, over = tmp_path / "inside", tmp_path / "over"
    with Workers("interrupted_elsewhere", 2, inside=str(inside), over=str(over)) as workers:
        assert workers.receive(0) == "python"
        os.kill(workers.processes[0].pid, signal.SIGINT)
        assert workers.receive(0).startswith("KeyboardInterrupt")
        wait_for(inside.exists)
        os.kill(workers.processes[0].pid, signal.SIGINT)
        # Until the process was looked at several times.
        time.sleep(6 * PATIENCE_SECONDS)
        over.touch()
        assert workers.receive(0).startswith("KeyboardInterrupt")
        for index in range(2):
            workers.say(index, "go on")
        first, second = workers.all()
        assert first == pytest.approx(second)


@pytest.mark.parametrize("lost", [1, 0])
def test_training_goes_on_with_a_new_process_in_place_of_a_killed_worker(lost: int) -> None:
    reserved = ReservedPorts()
    again = addresses(reserved, 2)
    with Workers("killed_in_fit", 2, reserved=reserved, again=again) as workers:
        assert workers.all() == [process.pid for process in workers.processes]
        workers.processes[lost].kill()
        survivor = 1 - lost
        received = workers.receive(survivor)
        while isinstance(received, int):
            received = workers.receive(survivor)
        assert "Error" in received
        workers.task = "replacement"
        workers.talks[lost], workers.processes[lost] = workers.start(lost, None)
        train_in_the_new_cluster(workers, waiting=[survivor])


def train_in_the_new_cluster(workers: Workers, waiting: Any = (0, 1)) -> None:
    for index in waiting:
        workers.say(index, "go on")
    first, second = workers.all()
    assert first == pytest.approx(second)
    assert first[1] < first[0]
