"""The controller's heartbeats, with ipyparallel's private class as it is, and without."""

from __future__ import annotations

from ipyparallel.controller.heartmonitor import HeartMonitor

from nbdist.agent.controller import take_late_answers


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
