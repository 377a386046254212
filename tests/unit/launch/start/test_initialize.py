"""Processes that join one cluster: who is asked for what, and what is said when one cannot, ends, or is silent."""

from __future__ import annotations

from typing import Any

import pytest

from nbdist.contract.orders import COORDINATOR
from nbdist.errors import GoneError, HostError, LaunchError, SessionError
from nbdist.launch.start.initialize import JAX_INITIALIZATION_TIMEOUT, MARGIN_SECONDS
from tests.builders.hosts import RELAY_PORT, FakeHosts, plan_of


def initialized(hosts: FakeHosts) -> dict[int, dict[str, Any]]:
    """What each process was asked to initialize with."""
    return {p: arguments for p, name, arguments in hosts.asked if name == "initialize"}


def answering(hosts: FakeHosts, **by_process: Any) -> None:
    """What processes answer, by `p0`, `p1`; the others as where all is well."""
    well = hosts.answers["initialize"]
    hosts.answers["initialize"] = lambda process_id, arguments: (
        by_process[f"p{process_id}"]
        if f"p{process_id}" in by_process
        else well(process_id, arguments)
    )


def test_each_process_joins_the_service_that_serves_beside_the_first(hosts: FakeHosts) -> None:
    running, answers = hosts.join(plan_of("h1", "h2"))
    asked = initialized(hosts)
    assert list(asked) == list(answers) == [0, 1]
    for process_id, arguments in asked.items():
        # Through the agent of its host, whose connection outlives the service.
        assert arguments["arguments"]["coordinator_address"] == f"127.0.0.1:{RELAY_PORT}"
        assert arguments["arguments"]["process_id"] == process_id
        assert arguments["arguments"]["num_processes"] == 2
    assert running.rendezvous.served
    ((order,),) = (hosts.agents["h1"].ordered("coordinate"),)
    assert order["number"] == COORDINATOR
    assert hosts.agents["h2"].ordered("coordinate") == []
    for name in ("h1", "h2"):
        ((relay,),) = (hosts.agents[name].ordered("relay"),)
        assert relay["address"] == running.rendezvous.coordinator
    assert hosts.progress[-1] == ("joined", 2, 2)


def test_the_port_that_the_service_has_found_is_the_one_processes_are_led_to(
    hosts: FakeHosts,
) -> None:
    hosts.does["h1", "coordinate"] = lambda agent, service: agent.say(
        "coordinating", number=service["number"], address="192.0.2.11:7777", last_lines=[]
    )
    hosts.join(plan_of("h1", "h2"))
    for name in ("h1", "h2"):
        assert [one["address"] for one in hosts.agents[name].ordered("relay")] == [
            "192.0.2.11:7777"
        ]


def test_one_process_joins_nothing_that_serves_beside_it(hosts: FakeHosts) -> None:
    hosts.join(plan_of("h1"))
    assert hosts.agents["h1"].ordered("coordinate") == []


def failed(hosts: FakeHosts, kind: type[Exception] = LaunchError, **options: Any) -> str:
    """What is said; and after the stop nothing is left."""
    with pytest.raises(kind) as error:
        hosts.join(plan_of("h1", "h2", **options))
    assert type(error.value) is kind
    hosts.stop()
    assert hosts.left() == []
    return str(error.value)


def test_a_process_that_cannot_is_named_with_its_host_and_its_own_words(hosts: FakeHosts) -> None:
    answering(hosts, p1=SessionError("no GPU is free"))
    assert failed(hosts) == "Process 1 (host h2) could not initialize jax: no GPU is free"


@pytest.mark.parametrize("words", ["DEADLINE_EXCEEDED: barrier", "the connection Timed Out"])
def test_one_that_waited_too_long_names_those_it_waited_for(hosts: FakeHosts, words: str) -> None:
    answering(hosts, p0=SessionError(words), p1=None)
    assert failed(hosts) == (
        "Process 0 (host h1) could not initialize jax: process 1 (host h2) did not connect to the "
        f"coordinator in time. Give them longer with --initialization-timeout.\n{words}"
    )


def test_all_that_have_not_answered_are_named_after_the_time_that_jax_itself_takes(
    hosts: FakeHosts,
) -> None:
    began: list[float] = []
    hosts.answers["initialize"] = lambda process_id, arguments: began.append(hosts.clock.now)
    assert failed(hosts, jax={"initialization_timeout": 20}) == (
        "processes 0, 1 (host h1, h2) did not connect to the coordinator in time. "
        "Give them longer with --initialization-timeout."
    )
    assert 20 + MARGIN_SECONDS < hosts.clock.now - began[0] < JAX_INITIALIZATION_TIMEOUT


def ends(hosts: FakeHosts, process_id: int, *words: str) -> None:
    """A process ends while all join."""

    def answer(asked: int, arguments: dict[str, Any]) -> None:
        if asked == process_id:
            hosts.exited(f"h{asked + 1}", asked, code=-6, words=words)

    hosts.answers["initialize"] = answer


def test_a_process_that_ends_is_named_with_its_last_words(hosts: FakeHosts) -> None:
    ends(hosts, 1, "terminate called")
    assert failed(hosts) == (
        "Process 1 (host h2, pid 101) killed by signal 6 (SIGABRT) while the processes joined their "
        "cluster.\n  terminate called"
    )


def test_where_the_hub_reports_an_end_first_the_agent_says_how(hosts: FakeHosts) -> None:
    answering(hosts, p1=GoneError("process 1 (host h2) has ended."))
    ticks, asked_for = hosts.clock._tick, []

    def tick() -> None:
        ticks()
        asked_for.extend([1] if 1 in initialized(hosts) else [])
        if len(asked_for) == 2:
            hosts.exited("h2", 1, code=-9, words=("good bye",))

    hosts.clock._tick = tick
    assert "killed by signal 9 (SIGKILL) while the processes joined" in failed(hosts)


def test_where_only_the_hub_reports_an_end_that_is_said(hosts: FakeHosts) -> None:
    answering(hosts, p1=GoneError("process 1 (host h2) has ended."))
    assert (
        failed(hosts) == "process 1 (host h2) has ended. The processes were joining their cluster."
    )


def test_one_that_jax_has_ended_names_those_it_waited_for(hosts: FakeHosts) -> None:
    ends(hosts, 0, "F0000 DEADLINE_EXCEEDED")
    text = failed(hosts)
    assert text.startswith("process 1 (host h2) did not connect")
    assert "\nProcess 0 (host h1, pid 100) killed by signal 6" in text


def test_a_host_that_falls_silent_is_named(hosts: FakeHosts) -> None:
    def answer(process_id: int, arguments: dict[str, Any]) -> None:
        hosts.agents["h2"].silent = True

    hosts.answers["initialize"] = answer
    assert failed(hosts, HostError).startswith("Host h2 has not")


def test_processes_that_jax_numbers_otherwise_are_an_error(hosts: FakeHosts) -> None:
    answering(hosts, p0={"process_id": 1}, p1={"process_id": 0})
    assert failed(hosts).startswith("JAX numbers")


def test_a_service_that_does_not_listen_is_an_error_before_any_process_is_asked(
    hosts: FakeHosts,
) -> None:
    hosts.does["h1", "coordinate"] = lambda agent, service: agent.say(
        "coordinating", number=service["number"], address=None, last_lines=["bind: in use"]
    )
    text = failed(hosts)
    assert text.endswith("on host h1:\n  bind: in use")
    assert initialized(hosts) == {}


def test_a_service_that_never_begins_is_waited_for_for_a_while(hosts: FakeHosts) -> None:
    hosts.does["h1", "coordinate"] = lambda agent, service: None
    assert "has started no coordination service" in failed(hosts)


def test_an_interrupt_while_they_join_leaves_nothing(
    hosts: FakeHosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(stage: str, done: int, total: int) -> None:
        if stage == "joined":
            raise KeyboardInterrupt

    monkeypatch.setattr(hosts, "receive", interrupted)
    with pytest.raises(KeyboardInterrupt):
        hosts.join(plan_of("h1", "h2"))
    hosts.stop()
    assert hosts.left() == []


def test_workers_of_tensorflow_know_all_and_each_its_own_place(hosts: FakeHosts) -> None:
    hosts.answers["initialize"] = lambda process_id, arguments: {"version": "2.21.0"}
    running, _ = hosts.join(plan_of("h1", "h2", framework="tensorflow"))
    assert hosts.agents["h1"].ordered("coordinate") == []
    assert list(running.rendezvous.tasks.values()) == ["192.0.2.11:6000", "192.0.2.12:6000"]
    asked = [(p, arguments) for p, name, arguments in hosts.asked if name == "initialize"]
    assert {p for p, _ in asked} == {0, 1}
