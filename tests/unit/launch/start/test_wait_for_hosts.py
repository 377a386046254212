"""What is settled once every host has said who it is, and what is said of one that cannot take part."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from nbdist.contract.events import FilesFailed, ImportFailed, Received
from nbdist.errors import HostError, LaunchError
from nbdist.launch.files.sync import FIRST
from nbdist.launch.start.hosts import HOST_SECONDS, check_host, gather, info_by_host
from tests.builders.agents import FakeChannel
from tests.builders.hosts import LIMIT_SECONDS, FakeHosts, plan_of


def gathered(hosts: FakeHosts, *names: str, **changes: Any) -> Any:
    spawned = hosts.spawn(plan_of(*names, **changes))
    gather(spawned, progress=hosts.receive)
    return spawned


def test_the_processes_meet_on_the_host_of_the_first_at_a_port_that_is_free_there(
    hosts: FakeHosts,
) -> None:
    spawned = gathered(hosts, "h1", "h2")
    assert spawned.rendezvous.coordinator == "192.0.2.11:6000"
    assert spawned.rendezvous.own == {0: "192.0.2.11", 1: "192.0.2.12"}
    assert hosts.progress[-1] == ("reached", 2, 2)


def test_each_host_is_asked_to_reach_all_that_listen(hosts: FakeHosts) -> None:
    gathered(hosts, "h1", "h2")
    for name in ("h1", "h2"):
        (order,) = hosts.agents[name].ordered("reach")
        assert order["targets"] == [["192.0.2.11", 5000], ["192.0.2.12", 5001]]
    assert hosts.agents["home"].ordered("reach") == []


def test_what_hosts_have_said_is_known_by_the_name_of_the_plan(hosts: FakeHosts) -> None:
    hosts.does["h2", "assign"] = lambda agent, order: hosts.introduce(agent, order, host="own")
    reported = info_by_host(gathered(hosts, "h1", "h2", processes=2))
    assert {name: facts.host for name, facts in reported.items()} == {"h1": "h1", "h2": "own"}


def test_on_this_machine_only_its_own_agent_is_waited_for(hosts: FakeHosts) -> None:
    spawned = gathered(hosts, processes=2)
    assert hosts.progress == []
    assert spawned.agents.of(1) is spawned.agents.home
    assert spawned.rendezvous.coordinator == "127.0.0.1:6000"


@pytest.mark.parametrize("names", [(), ("h1",)])
def test_an_agent_of_this_machine_that_ends_or_does_not_begin_is_an_error(
    hosts: FakeHosts, names: tuple[str, ...]
) -> None:
    hosts.does["home", "assign"] = lambda agent, order: agent.exit(3)
    with pytest.raises(LaunchError, match=r"^The engines' parent process ended \(exit code 3\)"):
        gathered(hosts, *names)
    hosts.does["home", "assign"] = lambda agent, order: None
    with pytest.raises(LaunchError, match=r"did not begin within 60 s.*--start-timeout"):
        gathered(hosts, *names)


def test_one_that_cannot_work_in_its_folder_says_which(hosts: FakeHosts) -> None:
    def does(agent: FakeChannel, order: Any) -> None:
        agent.say("refused", host="here", folder="/full", error="No space left on device")
        agent.exit(1)

    hosts.does["home", "assign"] = does
    with pytest.raises(HostError, match=r"^Host here cannot keep the session's files in /full"):
        gathered(hosts, processes=2)


def test_processes_of_this_machine_beside_those_of_hosts_are_its_agents(hosts: FakeHosts) -> None:
    spawned = gathered(hosts, "localhost", "h1")
    agents = spawned.agents
    assert agents.of(0) is agents.home
    assert agents.of(1) is agents.others["h1"]


def test_a_shorter_limit_of_a_person_is_one_for_answers_too(hosts: FakeHosts) -> None:
    hosts.does["h1", "assign"] = lambda agent, order: None
    began = hosts.clock.now
    with pytest.raises(HostError, match="Host h1 did not answer"):
        gathered(hosts, "h1", start_timeout_s=5.0)
    assert 5.0 < hosts.clock.now - began < HOST_SECONDS < LIMIT_SECONDS


def refused(hosts: FakeHosts, *names: str, advice: str | None) -> str:
    hosts.does["h1", "assign"] = lambda agent, order: agent.exit(255, "ssh: no route")
    plan = plan_of(*names)
    plan = replace(plan, placement=replace(plan.placement, ssh_advice=advice))
    with pytest.raises(HostError) as error:
        gather(hosts.spawn(plan), progress=hosts.receive)
    return str(error.value)


ADVICE = "Try gcloud compute tpus tpu-vm ssh."


def test_whoever_has_named_the_hosts_says_what_to_type_when_one_never_answered(
    hosts: FakeHosts,
) -> None:
    text = refused(hosts, "h1", advice=ADVICE)
    assert text.endswith(f"\n{ADVICE}")
    assert "%dist_doctor" not in text


def test_advice_is_not_for_a_host_that_has_answered(hosts: FakeHosts) -> None:
    def does(agent: FakeChannel, order: Any) -> None:
        hosts.introduce(agent, order)
        agent.exit(255, "Connection reset by peer")

    hosts.does["h1", "assign"] = does
    hosts.does["h2", "assign"] = lambda agent, order: None
    plan = plan_of("h1", "h2")
    plan = replace(plan, placement=replace(plan.placement, ssh_advice="Try gcloud."))
    with pytest.raises(HostError, match=r"^Host h1 was lost") as error:
        gather(hosts.spawn(plan), progress=hosts.receive)
    assert "Try gcloud." not in str(error.value)


def agent(**changes: Any) -> Any:
    """An agent on h1 as `check_host` reads it."""
    well = {
        "failure": None,
        "copying": [],
        "facts": {},
        "ended_at": None,
        "exits": {},
        "silence_s": 0.0,
        "reach": SimpleNamespace(name="h1"),
    }
    return SimpleNamespace(**{**well, **changes})


def test_files_that_a_host_could_not_take_are_an_error_with_the_reason() -> None:
    failed = (None, FilesFailed(id=FIRST, error="No space left on device"))
    with pytest.raises(HostError, match=r"^Host h1 could not take your files \(--sync\): No space"):
        check_host("h1", agent(copying=[failed]))


def test_a_host_that_has_said_nothing_yet_is_not_said_to_be_silent() -> None:
    check_host("h1", agent(silence_s=1000.0))


def test_an_import_that_failed_is_not_said_to_be_a_lost_host() -> None:
    event = ImportFailed(module="jax", error="ImportError: no", trace="")
    failed = Received(event=event, time=0.0)
    check_host("h1", agent(ended_at=1.0, failure=failed))
