"""The life of an engine group, from agents that import to the end of all; whatever fails, nothing is left."""

from __future__ import annotations

from typing import Any

import pytest

from nbdist.contract.calls.engine import Look
from nbdist.errors import GoneError
from nbdist.session.life import describe
from tests.builders.live import LiveHosts
from tests.waiting import wait_for


def test_a_group_that_has_begun_knows_its_processes_and_devices_and_its_end_leaves_nothing(
    live: LiveHosts,
) -> None:
    group = live.begin("h1", "h2")
    assert group.alive
    assert describe(group, "ready").startswith(
        "2 processes on 2 hosts, 4 cpu devices, jax 0.10.2, ready in"
    )
    assert [p.process_id for p in group.monitor.snapshot().processes] == [0, 1]
    assert len(group.monitor.snapshot().devices) == 4
    group.stop()
    assert live.left() == []
    assert live.socket.closed
    assert live.client.closed
    assert live.published[-1].state == "stopped"


def test_each_process_knows_the_ports_of_the_others_and_all_have_met_once(live: LiveHosts) -> None:
    group = live.begin("h1", "h2")
    assert live.asked_of("meet") == {0: {"ports": [8001]}, 1: {"ports": [8000]}}
    proofs = live.asked_of("prove")
    assert sorted(proofs) == [0, 1]
    assert len({arguments["number"] for arguments in proofs.values()}) == 1
    assert group.proves


def test_one_process_has_nobody_to_meet(live: LiveHosts) -> None:
    group = live.begin("h1")
    assert live.asked_of("meet") == live.asked_of("prove") == {}
    assert not group.proves


@pytest.mark.parametrize("call", ["initialize", "meet", "prove", "look"])
@pytest.mark.parametrize("error", [KeyboardInterrupt(), RuntimeError("a fault")], ids=repr)
def test_whatever_ends_the_beginning_at_any_call_leaves_nothing(
    live: LiveHosts, call: str, error: BaseException
) -> None:
    def ends(process_id: int, arguments: dict[str, Any]) -> Any:
        raise error

    live.answers[call] = ends
    with pytest.raises(type(error)):
        live.begin("h1", "h2")
    assert live.left() == []
    assert live.socket.closed


def test_a_process_that_ends_between_cells_is_lost_with_how_it_ended(live: LiveHosts) -> None:
    group = live.begin("h1", "h2")
    live.exited("h2", 1, code=-9)
    wait_for(lambda: group.gone(1))
    assert group.gone(1) == "killed by signal 9 (SIGKILL)"
    assert group.gone(0) is None
    assert "lost" in str(group.monitor.snapshot().notices)


def test_a_host_whose_connection_ends_takes_its_processes_along(live: LiveHosts) -> None:
    group = live.begin("h1", "h2")
    live.agents["h2"].exit(255, "Connection reset by peer")
    wait_for(lambda: group.gone(1))
    assert "out of reach" in str(group.gone(1)) and "255" in str(group.gone(1))
    assert group.facts.unreachable == {1}
    assert group.gone(0) is None


def test_a_process_that_has_left_the_client_cannot_be_asked(live: LiveHosts) -> None:
    group = live.begin("h1", "h2")

    class Left(dict[int, int]):
        def __getitem__(self, engine: int) -> int:
            raise IndexError(engine)

    live.client.processes = Left()
    with pytest.raises(GoneError, match=r"^process 1 \(host h2\) has ended\.$"):
        group.send(1, Look(timeout_s=0.1)).get()


def test_an_end_that_was_asked_for_is_no_loss(live: LiveHosts) -> None:
    group = live.begin("h1", "h2")
    group.stop()
    assert group.facts.lost == {}
    assert live.published[-1].state == "stopped"


def test_what_agents_could_not_handle_is_shown(live: LiveHosts) -> None:
    group = live.begin("h1", "h2")
    live.agents["h2"].say("fault", text="An order could not be handled.")
    wait_for(lambda: "An order could not be handled." in str(group.monitor.snapshot().notices))
