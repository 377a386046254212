"""The controller's ports, and its heartbeats, with ipyparallel's private class as it is, and without."""

from __future__ import annotations

import pytest
from ipyparallel.controller.app import IPController
from ipyparallel.controller.heartmonitor import HeartMonitor

from nbdist.agent.controller import PORTS, run_controller, take_late_answers
from nbdist.machine import ports


def test_its_ports_are_kept_for_it_as_long_as_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[int] = []

    def launch_instance(arguments: list[str]) -> None:
        given.extend(map(int, arguments[-1].removeprefix("--IPController.ports=").split(",")))
        assert not any(map(ports._is_free, given)), "another program could be given it"

    monkeypatch.setattr(IPController, "launch_instance", launch_instance)
    monkeypatch.setattr(HeartMonitor, "handle_pong", HeartMonitor.handle_pong)
    run_controller(["--ip=127.0.0.1"])
    assert len(set(given)) == PORTS


def test_an_answer_to_a_beat_of_long_ago_is_a_sign_of_life() -> None:
    class Monitor(HeartMonitor):  # type: ignore[misc]
        """Only this one is changed."""

    monitor = Monitor()
    monitor.lifetime, monitor.last_ping = 7.0, 6.9
    monitor.handle_pong([b"far away", b"6.5"])
    assert monitor.responses == set()
    assert take_late_answers(Monitor)
    monitor.handle_pong([b"far away", b"6.5"])
    assert monitor.responses == {b"far away"}


def test_without_that_private_method_nothing_is_changed() -> None:
    class Monitor:
        pass

    assert not take_late_answers(Monitor)
    assert not take_late_answers(None)
    assert not hasattr(Monitor, "handle_pong")
