"""New processes in the place of ended ones, while the others go on."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from nbdist.errors import LaunchError
from nbdist.launch.start.connect import (
    end_processes,
    replace_processes,
)
from nbdist.launch.start.initialize import meet_again, rebuild_strategy
from tests.builders.agents import FakeChannel
from tests.builders.hosts import FakeHosts, plan_of


@pytest.fixture
def running(hosts: FakeHosts) -> Any:
    return hosts.join(plan_of("h1", "h2"))[0]


def test_processes_are_killed_and_gone_when_that_is_said(hosts: FakeHosts, running: Any) -> None:
    end_processes(running, [1])
    (order,) = hosts.agents["h2"].ordered("signal")
    assert (order["number"], order["process_ids"]) == (signal.SIGKILL, [1])
    assert list(running.exits) == [1]


def test_one_that_cannot_be_ended_is_an_error_that_says_what_ends_it(
    hosts: FakeHosts, running: Any
) -> None:
    hosts.does["h2", "signal"] = lambda agent, order: None
    with pytest.raises(LaunchError, match=r"^process 1 cannot be ended\. %dist_init --restart"):
        end_processes(running, [1])


def test_only_those_that_ended_are_started_again_and_get_their_ids(
    hosts: FakeHosts, running: Any
) -> None:
    before, kept = dict(running.engines), running.idents[0]
    end_processes(running, [1])
    hosts.progress.clear()
    replace_processes(running, [1], progress=hosts.receive)
    assert running.engines[0] == before[0] and running.idents[0] == kept
    assert running.engines[1] not in before.values()
    assert hosts.client.processes[running.engines[1]] == 1
    assert [len(order["processes"]) for order in hosts.agents["h1"].ordered("start")] == [1]
    assert [
        p["process_id"] for order in hosts.agents["h2"].ordered("start") for p in order["processes"]
    ] == [
        1,
        1,
    ]
    assert hosts.progress[-1] == ("ready", 1, 1)
    assert running.exits == {}


def test_an_engine_that_the_hub_still_lists_is_not_taken_for_the_new_one(
    hosts: FakeHosts, running: Any
) -> None:
    end_processes(running, [1])
    hosts.does["h2", "start"] = lambda agent, processes: None
    with pytest.raises(LaunchError, match=r"^1 of 1 processes did not connect within 60 s"):
        replace_processes(running, [1], progress=hosts.receive)
    assert len(hosts.client.processes) == 2  # the dead one is still among them


def test_one_that_ends_again_leaves_the_others_as_they_were(hosts: FakeHosts, running: Any) -> None:
    end_processes(running, [1])

    def ends(agent: FakeChannel, processes: Any) -> None:
        agent.say("started", process_id=1, pid=201)
        hosts.exited("h2", 1, code=1, words=["no memory"])

    hosts.does["h2", "start"] = ends
    with pytest.raises(LaunchError, match=r"(?s)^Process 1 .* ended with exit code 1 .*no memory"):
        replace_processes(running, [1], progress=hosts.receive)
    assert running.engines.keys() == {0}
    assert hosts.agents["h1"].running and hosts.agents["h2"].running


def test_the_second_start_does_not_count_the_end_of_the_first(
    hosts: FakeHosts, running: Any
) -> None:
    end_processes(running, [0, 1])
    replace_processes(running, [0, 1], progress=hosts.receive)
    assert running.exits == {}
    assert sorted(running.engines) == [0, 1]


def with_strategy(hosts: FakeHosts, **options: Any) -> Any:
    """Two workers of TensorFlow and an evaluator."""
    hosts.answers["initialize"] = lambda process_id, arguments: {"version": "2.21.0"}
    running, _ = hosts.join(plan_of("h1", "h2", framework="tensorflow", evaluators=1, **options))
    hosts.asked.clear()
    return running


@pytest.mark.parametrize("addresses", [(), ("h1:2222", "h2:2222", "h2:2223")])
def test_workers_meet_at_other_ports_of_the_same_hosts(
    hosts: FakeHosts, addresses: tuple[str, ...]
) -> None:
    running = with_strategy(hosts, addresses=addresses)
    before = dict(running.rendezvous.tasks)
    meet_again(running)
    after = running.rendezvous.tasks
    assert not set(before.values()) & set(after.values())
    assert [address.partition(":")[0] for address in before.values()] == [
        address.partition(":")[0] for address in after.values()
    ]


@pytest.mark.parametrize(
    ("replaced", "workers", "stages"),
    [
        ([1], True, {0: [True], 1: [None, False]}),
        ([2], False, {2: [None, False]}),
        ([], True, {0: [True], 1: [True]}),
    ],
)
def test_a_strategy_is_made_anew_on_those_that_take_part_and_first_on_new_ones(
    hosts: FakeHosts,
    replaced: list[int],
    workers: bool,
    stages: dict[int, list[bool | None]],
) -> None:
    strategy = with_strategy(hosts)
    rebuild_strategy(strategy, replaced, workers=workers, progress=hosts.receive)
    asked: dict[int, list[bool | None]] = {}
    for process_id, _, arguments in hosts.asked:
        asked.setdefault(process_id, []).append(arguments.get("again"))
    assert asked == stages
