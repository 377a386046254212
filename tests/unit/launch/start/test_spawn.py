"""The agents of a start: what each is for, and that none is left where one cannot be started."""

from __future__ import annotations

import os
import socket
from typing import Any

import pytest

from nbdist.launch.agents import agent_handle
from nbdist.launch.model.framework import framework_named
from nbdist.launch.model.plan import Plan
from nbdist.launch.start import spawn
from nbdist.launch.start.spawn import KERNEL_LOST_SECONDS
from tests.builders.hosts import KERNEL_ADDRESS, FakeHosts, plan_of


def assignment(hosts: FakeHosts, name: str) -> dict[str, Any]:
    """The first order of an agent."""
    return hosts.agents[name].orders[0]


@pytest.mark.parametrize("error", [OSError("no more processes"), KeyboardInterrupt()])
@pytest.mark.parametrize("fails", ["h2", "home"])
def test_where_one_agent_cannot_be_started_none_is_left(
    hosts: FakeHosts, monkeypatch: pytest.MonkeyPatch, fails: str, error: BaseException
) -> None:
    started = agent_handle.Pipes

    def begin(*arguments: Any) -> Any:
        made = started(*arguments)
        if fails in hosts.agents:
            made.exit(1)
            made.close()
            raise error
        return made

    monkeypatch.setattr(agent_handle, "Pipes", begin)
    with pytest.raises(type(error)):
        hosts.spawn(plan_of("h1", "h2"))
    assert list(hosts.agents)[-1] == fails
    assert hosts.left() == []


def test_stopping_twice_is_stopping_once(hosts: FakeHosts) -> None:
    spawned = hosts.spawn(plan_of("h1"))
    spawned.stop()
    spawned.stop()
    assert hosts.left() == []


def test_the_furthest_are_started_first(hosts: FakeHosts) -> None:
    hosts.spawn(plan_of("h1", "h2"))
    assert list(hosts.agents) == ["h1", "h2", "home"]


def test_on_this_machine_all_is_for_one_agent_on_loopback_and_nobody_waits_for_its_silence(
    hosts: FakeHosts,
) -> None:
    plan = plan_of(processes=2)
    spawned = hosts.spawn(plan)
    asked = assignment(hosts, "home")
    assert list(hosts.agents) == ["home"]
    assert asked["preload"] == framework_named("jax").preload(plan)
    assert asked["folder"] == spawned.folder
    assert "--ip=127.0.0.1" in asked["controller_arguments"]
    assert (asked["controller_address"], asked["silence_s"], asked["checks"]) == (None, None, None)
    assert asked["ports"] == 2


@pytest.mark.parametrize(
    ("plan", "address"), [(plan_of("h1"), KERNEL_ADDRESS), (plan_of(), "127.0.0.1")]
)
def test_a_controller_signs_with_a_key_of_its_own_each_time(
    hosts: FakeHosts, plan: Plan, address: str
) -> None:
    keys = set()
    for _ in range(2):
        hosts.spawn(plan)
        arguments = assignment(hosts, "home")["controller_arguments"]
        assert {f"--ip={address}", f"--location={address}"} <= set(arguments)
        keys |= {one for one in arguments if one.startswith("--Session.key=")}
    assert len(keys) == 2
    assert all(len(key) > 64 for key in keys)


def test_an_agent_elsewhere_has_a_folder_of_its_own_and_waits_for_this_kernel_for_a_while(
    hosts: FakeHosts,
) -> None:
    hosts.spawn(plan_of("h1", "h2", processes=2))
    asked = assignment(hosts, "h2")
    assert asked["folder"] is None and asked["controller_arguments"] is None
    assert asked["controller_address"] == KERNEL_ADDRESS
    assert asked["silence_s"] == KERNEL_LOST_SECONDS
    assert asked["ports"] == 2
    assert assignment(hosts, "home")["preload"] == []  # no process is here


def test_what_a_host_checks_is_a_listener_of_this_kernels_where_there_is_one(
    hosts: FakeHosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        monkeypatch.setattr("nbdist.launch.start.preflight.checkup.listen", lambda _: listener)
        hosts.spawn(plan_of("h1"))
        address = listener.getsockname()
        assert assignment(hosts, "h1")["checks"] == {"connect": [list(address)]}
        hosts.stop()
        assert listener.fileno() == -1  # closed with the start


def test_variables_reach_hosts_in_the_order_in_which_they_were_named(
    hosts: FakeHosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAX_FROM_HERE", "kernel")
    monkeypatch.setenv("JAX_NAMED", "kernel")
    monkeypatch.setenv("NOT_OF_A_FRAMEWORK", "kernel")
    hosts.spawn(plan_of("h1", environment={"JAX_NAMED": "plan", "MINE": "plan"}))
    environment = assignment(hosts, "h1")["environment"]
    assert (environment["JAX_FROM_HERE"], environment["JAX_NAMED"], environment["MINE"]) == (
        "kernel",
        "plan",
        "plan",
    )
    assert "NOT_OF_A_FRAMEWORK" not in environment


def test_what_makes_engines_behave_otherwise_is_left_out_of_their_environment() -> None:
    given = {"PYTEST_CURRENT_TEST": "x", "JPY_PARENT_PID": "1", "IPP_X": "1", "NBDIST_LOG": "l"}
    assert spawn.clean_environment({**given, "HOME": "/h"}, {"A": "1"}) == {"HOME": "/h", "A": "1"}


@pytest.mark.parametrize(("processes", "period_ms"), [(1, 100), (25, 100), (1000, 4000)])
def test_heartbeats_of_many_processes_are_rarer_and_a_pause_of_an_hour_is_no_loss(
    processes: int, period_ms: int
) -> None:
    arguments = spawn.controller_arguments("/f", "c", processes=processes)
    said = dict(one.partition("=")[::2] for one in arguments)
    assert said["--HeartMonitor.period"] == str(period_ms)
    misses = int(said["--HeartMonitor.max_heartmonitor_misses"])
    assert misses * period_ms == spawn.PAUSED_SECONDS * 1000


def test_a_process_is_reported_its_number_and_where_it_is(hosts: FakeHosts) -> None:
    hosts.start(plan_of("h1", "h2"))
    ((process,),) = (o["processes"] for o in hosts.agents["h2"].ordered("start"))
    assert process["environment"]["NBDIST_PROCESS_ID"] == "1"
    hosts.client.processes.clear()
    hosts.start(plan_of("h1", processes=1))
    ((process,),) = (o["processes"] for o in hosts.agents["h1"].ordered("start"))
    assert process["environment"]["NBDIST_ONE_HOST"] == "1"


def test_a_kept_session_says_which_kernel_it_is_of() -> None:
    plan = plan_of("h1", keep=True)
    assert spawn.local_assignment(plan, "/f", KERNEL_ADDRESS).kernel == os.getpid()
    (reach,) = spawn.agent_specs(plan)
    assert spawn.remote_assignment(plan, reach, KERNEL_ADDRESS).kept
