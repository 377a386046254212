"""Where processes can serve: at ports that the agents of their hosts reserve, at first and each time anew."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from nbdist.contract.events import Reserved
from nbdist.contract.orders import Order, ReservePorts
from nbdist.errors import HostError, LaunchError
from nbdist.launch.agents.agent_handle import JobAgent
from nbdist.launch.model.framework import Place
from nbdist.launch.start import hosts as places
from nbdist.launch.start.hosts import first_places, new_places
from nbdist.launch.start.initialize import meet_again
from tests.builders.hosts import THIS_MACHINE, FakeHosts, plan_of


def workers(hosts: FakeHosts, *names: str, processes: int = 1) -> Any:
    """Workers of TensorFlow, each of which serves."""
    hosts.answers["initialize"] = lambda process_id, arguments: {"version": "2.21.0"}
    return hosts.join(plan_of(*names, processes=processes, framework="tensorflow"))[0]


def test_each_process_of_a_host_has_a_port_of_its_own(hosts: FakeHosts) -> None:
    running = workers(hosts, "h1", "h2", processes=2)
    assert list(running.rendezvous.tasks.values()) == [
        *("192.0.2.11:6000", "192.0.2.11:6001"),
        *("192.0.2.12:6000", "192.0.2.12:6001"),
    ]


def test_processes_meet_at_other_ports_however_often(hosts: FakeHosts) -> None:
    running = workers(hosts, "h1", "h2", processes=2)
    seen = set(running.rendezvous.tasks.values())
    for _ in range(5):
        meet_again(running)
        now = running.rendezvous.tasks.values()
        assert len(set(now)) == 4 and seen.isdisjoint(now)
        seen.update(now)


def test_processes_of_this_machine_meet_those_of_others_at_an_address_that_leads_there(
    hosts: FakeHosts,
) -> None:
    running = workers(hosts, "localhost", "h1")
    before = running.rendezvous.tasks
    meet_again(running)
    after = running.rendezvous.tasks
    assert [address.partition(":")[0] for address in after.values()] == ["192.0.2.12", "192.0.2.11"]
    assert set(before.values()).isdisjoint(after.values())


def test_on_this_machine_they_meet_on_loopback_each_time(hosts: FakeHosts) -> None:
    running = workers(hosts, processes=2)
    assert list(running.rendezvous.tasks.values()) == ["127.0.0.1:6000", "127.0.0.1:6001"]
    meet_again(running)
    assert list(running.rendezvous.tasks.values()) == ["127.0.0.1:6100", "127.0.0.1:6101"]


def test_a_host_that_is_lost_meanwhile_is_not_waited_for(hosts: FakeHosts) -> None:
    running = workers(hosts, "h1", "h2")
    hosts.does["h2", "reserve_ports"] = lambda agent, order: agent.exit(255, "Connection reset")
    with pytest.raises(HostError, match=r"^Host h2 was lost"):
        meet_again(running)


def test_neither_is_this_machine_s_agent(hosts: FakeHosts) -> None:
    running = workers(hosts, processes=2)
    hosts.does["home", "reserve_ports"] = lambda agent, order: agent.exit(1)
    with pytest.raises(LaunchError, match=r"^The engines' parent process ended \(exit code 1\)"):
        meet_again(running)


@pytest.mark.parametrize(("names", "silent"), [(("h1", "h2"), "h2"), ((), "home")])
def test_an_agent_that_does_not_answer_is_not_waited_for_for_ever(
    hosts: FakeHosts, names: tuple[str, ...], silent: str
) -> None:
    running = workers(hosts, *names)
    hosts.does[silent, "reserve_ports"] = lambda agent, order: None
    host = THIS_MACHINE if silent == "home" else silent
    with pytest.raises(
        LaunchError, match=rf"^The agent of host {host} \(pid \d+\) has reserved no"
    ):
        meet_again(running)


class Tasks(JobAgent):
    """Two tasks of a job on one host; what they have reserved before is known."""

    def __init__(self, before: int) -> None:
        self.answers = {(Reserved, task, before): None for task in (0, 1) if before}
        self.facts: Any = {
            task: SimpleNamespace(address="10.0.0.1", ports=(5000 + task,)) for task in (0, 1)
        }
        self.ordered: list[Order] = []

    def order(self, order: Order) -> None:
        """Both answer."""
        assert isinstance(order, ReservePorts)
        self.ordered.append(order)
        for task in (0, 1):
            first = 7000 + 100 * task + order.number
            ports = tuple(range(first, first + order.count))
            self.answers[Reserved, task, order.number] = Reserved(number=order.number, ports=ports)


@pytest.mark.parametrize(("before", "number"), [(0, 1), (1, 2)])
def test_each_task_of_a_job_reserves_its_own_and_a_later_kernel_goes_on_counting(
    before: int, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "check_hosts", lambda cluster: None)
    monkeypatch.setattr(places, "check_home", lambda home: None)
    job = Tasks(before)
    plan: Any = SimpleNamespace(
        processes=[SimpleNamespace(process_id=0), SimpleNamespace(process_id=1)],
        placement=SimpleNamespace(on_this_machine=False),
        start_timeout_s=60.0,
    )
    agents: Any = SimpleNamespace(of=lambda process_id: job, home=None)
    cluster: Any = SimpleNamespace(plan=plan, own_agents=agents)
    assert first_places(plan, agents) == {
        0: Place(address="10.0.0.1", port=5000),
        1: Place(address="10.0.0.1", port=5001),
    }
    assert new_places(cluster) == {
        0: Place(address="10.0.0.1", port=7000 + number),
        1: Place(address="10.0.0.1", port=7100 + number),
    }
    assert job.ordered == [ReservePorts(number=number, count=1)]
