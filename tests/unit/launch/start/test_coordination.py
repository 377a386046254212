"""JAX's coordination service: who starts it where, and at which port the processes meet then."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from nbdist.contract.events import Coordinating, Relaying
from nbdist.contract.orders import COORDINATOR, Coordinate, EndCoordination, Order, Relay
from nbdist.errors import LaunchError
from nbdist.launch.agents.agent_handle import AgentHandle, JobAgent
from nbdist.launch.start import hosts, initialize
from nbdist.launch.start.initialize import (
    ask_for_service,
    end_service,
    needs_service,
    wait_for_service,
)


@dataclass(frozen=True)
class Meeting:
    coordinator: str
    served: bool = False
    relays: Mapping[int, str] = field(default_factory=dict)


RELAYS = {3: "127.0.0.1:8000", 4: "127.0.0.1:8000"}


class FakeParent:
    def __init__(self) -> None:
        self.orders: list[Order] = []
        self.answers: dict[tuple[type, int | None, int], Any] = {}
        self.reach = SimpleNamespace(name="h3")
        self.relaying: Relaying | None = Relaying(number=0, port=8000)

    def order(self, order: Order) -> None:
        self.orders.append(order)
        if isinstance(order, Relay) and self.relaying is not None:
            self.answers[Relaying, None, order.number] = self.relaying

    numbers = AgentHandle.numbers
    pid = 1

    def serves(self, number: int, service: Coordinating, *, task: int | None = None) -> None:
        """It has answered about a service."""
        self.answers[Coordinating, task, number] = service


class FakeParents:
    def __init__(self) -> None:
        self.all: list[Any] = [FakeParent()]
        self.home = self.all[0]
        self.asked: list[int] = []

    def of(self, process_id: int) -> FakeParent:
        self.asked.append(process_id)
        return self.all[0]  # type: ignore[no-any-return]


def running(**changes: Any) -> Any:
    plan = {
        "framework": "jax",
        "initialize": True,
        "processes": [SimpleNamespace(process_id=p, host=f"h{p}") for p in (3, 4)],
        "jax": {},
        "coordinator": None,
        "addresses": {},
        "start_timeout_s": 0.0,
        "hosts": {3: "h3", 4: "h4"},
        **changes,
    }
    agents = FakeParents()
    return SimpleNamespace(
        plan=SimpleNamespace(**plan),
        agents=agents,
        own_agents=agents,
        rendezvous=Meeting("10.0.0.5:1234"),
    )


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, True),
        ({"framework": "keras"}, True),
        ({"framework": "tensorflow"}, False),
        ({"initialize": False}, False),
        ({"processes": [SimpleNamespace(process_id=0, host="h1")]}, False),
    ],
)
def test_a_service_is_for_several_processes_of_jax_that_are_joined(
    changes: Any, expected: bool
) -> None:
    assert needs_service(running(**changes)) is expected


def test_engines_of_others_have_nobody_to_serve_beside_them() -> None:
    link = running()
    link.agents.all = []
    assert not needs_service(link)


def order_of(link: Any, **options: Any) -> Coordinate:
    ask_for_service(link, **options)
    order = link.agents.all[0].orders[-1]
    assert isinstance(order, Coordinate)
    return order


def serving(address: str | None, *last_lines: str) -> Coordinating:
    return Coordinating(number=-2, address=address, last_lines=last_lines)


def test_the_first_service_is_where_the_processes_will_look_for_it() -> None:
    link = running()
    assert order_of(link) == Coordinate(
        number=COORDINATOR, process_id=3, host="10.0.0.5", port=1234, processes=2
    )
    assert link.agents.asked == [3, 3]


def test_the_next_one_gets_a_port_and_a_number_of_its_own() -> None:
    link = running()
    link.agents.all[0].serves(COORDINATOR, serving(None))
    asked = order_of(link, again=True)
    assert (asked.number, asked.port) == (COORDINATOR - 1, None)


@pytest.mark.parametrize("chosen", [{"coordinator": "10.0.0.5:1234"}, {"addresses": {"h3": "a"}}])
def test_the_port_that_a_person_chose_is_that_of_the_first_which_still_serves(chosen: Any) -> None:
    assert order_of(running(**chosen)).port == 1234
    assert order_of(running(**chosen), again=True).port is None


def test_it_listens_on_the_address_that_was_given_for_it() -> None:
    asked = order_of(running(jax={"coordinator_bind_address": "127.0.0.1:9"}))
    assert asked.host == "127.0.0.1"


@pytest.fixture
def hosts_live(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts, "check_hosts", lambda cluster: None)
    monkeypatch.setattr(hosts, "check_home", lambda home: None)
    monkeypatch.setattr(initialize, "SERVES_SECONDS", 0.05)


@pytest.mark.usefixtures("hosts_live")
def test_the_processes_meet_at_its_port_under_the_name_they_know() -> None:
    link = running()
    link.agents.all[0].serves(-2, serving("127.0.0.1:4321"))
    wait_for_service(link, -2)
    assert link.rendezvous == Meeting("10.0.0.5:4321", served=True, relays=RELAYS)
    assert link.agents.all[0].orders == [Relay(number=-2, address="10.0.0.5:4321")]


@pytest.mark.usefixtures("hosts_live")
@pytest.mark.parametrize(
    ("relaying", "said"),
    [
        (
            Relaying(number=-2, port=None, error="unknown name"),
            r"^Host h3 cannot lead its processes .* service at 10.0.0.5:4321: unknown name$",
        ),
        (
            None,
            r"The agent of host h3 \(pid 1\) does not lead its processes to JAX's coordination service",
        ),
    ],
)
def test_an_agent_that_does_not_lead_there_is_named(relaying: Any, said: str) -> None:
    link = running()
    parent = link.agents.all[0]
    parent.serves(-2, serving("127.0.0.1:4321"))
    parent.relaying = relaying
    with pytest.raises(LaunchError, match=said):
        wait_for_service(link, -2)


@pytest.mark.usefixtures("hosts_live")
def test_each_task_of_a_job_leads_to_it_at_a_port_of_its_own() -> None:
    link = running()
    job = FakeJob()
    link.agents.all = [job]
    job.serves(-2, serving("127.0.0.1:4321"), task=3)
    wait_for_service(link, -2)
    assert link.rendezvous.relays == {3: "127.0.0.1:9003", 4: "127.0.0.1:9004"}


@pytest.mark.usefixtures("hosts_live")
def test_one_that_does_not_listen_is_an_error_with_its_last_words() -> None:
    link = running()
    parent = link.agents.all[0]
    refused = serving(None, "bind: in use")
    parent.serves(-2, refused)
    parent.order = lambda order: parent.serves(order.number, refused)
    with pytest.raises(LaunchError, match=r"does not listen on host h3:\n  bind: in use"):
        wait_for_service(link, -2)
    assert not link.rendezvous.served


@pytest.mark.usefixtures("hosts_live")
def test_a_parent_that_says_nothing_is_not_waited_for_for_ever() -> None:
    with pytest.raises(LaunchError, match=r"host h3 \(pid 1\) has started no coordination service"):
        wait_for_service(running(), -2)


def test_a_service_is_ended_by_its_number() -> None:
    link = running()
    end_service(link, -3)
    assert link.agents.all[0].orders == [EndCoordination(number=-3)]


class FakeJob(FakeParent, JobAgent):
    """The agent of a job whose tasks each answer an order."""

    def __init__(self) -> None:
        FakeParent.__init__(self)

    def order(self, order: Order) -> None:
        assert isinstance(order, Relay)
        for task in (3, 4):
            self.answers[Relaying, task, order.number] = Relaying(
                number=order.number, port=9000 + task
            )


class Retrying(FakeParent):
    """Its first service cannot listen; the next can."""

    def order(self, order: Order) -> None:
        super().order(order)
        if isinstance(order, Relay):
            return
        assert isinstance(order, Coordinate)
        taken = order.port is not None
        service = Coordinating(
            number=order.number,
            address=None if taken else "10.0.0.5:999",
            last_lines=("in use",) if taken else (),
        )
        self.serves(order.number, service)


@pytest.mark.usefixtures("hosts_live")
def test_a_port_that_was_taken_meanwhile_is_given_up_for_another() -> None:
    link = running()
    link.agents.all = [Retrying()]
    wait_for_service(link, ask_for_service(link))
    assert link.rendezvous == Meeting("10.0.0.5:999", served=True, relays=RELAYS)
    orders = [one for one in link.agents.all[0].orders if isinstance(one, Coordinate)]
    assert [order.port for order in orders] == [1234, None]


@pytest.mark.usefixtures("hosts_live")
@pytest.mark.parametrize(
    "chosen",
    [
        {"coordinator": "10.0.0.5:1234"},
        {"addresses": ("h3:1",)},
        {"jax": {"coordinator_bind_address": "10.0.0.5:1234"}},
    ],
)
def test_one_that_a_person_has_chosen_is_not(chosen: Any) -> None:
    link = running(**chosen)
    link.agents.all = [Retrying()]
    with pytest.raises(LaunchError, match="in use"):
        wait_for_service(link, ask_for_service(link))
    assert len(link.agents.all[0].orders) == 1
