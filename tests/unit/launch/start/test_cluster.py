"""Started engines: what is known of them, forgotten, signalled, left and stopped."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from tests.builders.hosts import CONNECTION, FakeHosts, plan_of


@pytest.fixture
def running(hosts: FakeHosts) -> Any:
    return hosts.start(plan_of("h1", "h2"))


def test_what_is_forgotten_of_a_process_is_all_of_it_and_of_no_other(
    hosts: FakeHosts, running: Any
) -> None:
    running.agents.signal(signal.SIGKILL, [1])
    while not running.exits:
        hosts.clock.sleep(0.0)
    running.forget([1])
    assert running.exits == {}
    for known in (running.engines, running.idents, running.pids):
        assert list(known) == [0]


def test_a_signal_goes_to_the_agents_of_its_processes_alone(hosts: FakeHosts, running: Any) -> None:
    running.agents.signal(signal.SIGINT, [1])
    signals = {name: agent.ordered("signal") for name, agent in hosts.agents.items()}
    assert signals == {
        "h1": [],
        "h2": [{"order": "signal", "number": signal.SIGINT, "process_ids": [1]}],
        "home": [],
    }


def test_the_connection_is_that_of_the_controllers_file(running: Any) -> None:
    assert running.connection == CONNECTION


def test_a_session_that_is_left_goes_on_with_its_folder(hosts: FakeHosts, running: Any) -> None:
    running.leave()
    assert hosts.client.closed
    assert all(agent.running and agent.left for agent in hosts.agents.values())
    assert any(entry.startswith("folder") for entry in hosts.left())


def test_the_end_of_the_controller_is_the_end_of_all_that_are_not_otherwise_known_to_have_ended(
    hosts: FakeHosts, running: Any
) -> None:
    hosts.exited("h2", 1, code=1)
    while not running.exits:
        hosts.clock.sleep(0.0)
    hosts.agents["home"].exit(-9)
    while len(running.exits) < 2:
        hosts.clock.sleep(0.0)
    assert _said(running) == {
        0: "out of reach: the engines' parent process killed by signal 9 (SIGKILL)",
        1: "ended with exit code 1",
    }


def test_an_end_that_is_read_after_that_of_the_controller_takes_its_place(
    hosts: FakeHosts, running: Any
) -> None:
    hosts.agents["home"].exit(-9)
    while len(running.exits) < 2:
        hosts.clock.sleep(0.0)
    assert {end.because_of for end in running.exits.values()} == {"the engines' parent process"}
    hosts.exited("h2", 1, code=1)
    while running.exits[1].because_of:
        hosts.clock.sleep(0.0)
    assert _said(running)[1].endswith("exit code 1")


def _said(running: Any) -> dict[int, str]:
    return {p: str(end) for p, end in running.exits.items()}
