"""A controller that takes its time is waited for, for as long as a start may take; one that ended is not."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

from nbdist.contract.orders import CONTROLLER
from nbdist.errors import LaunchError
from nbdist.launch.model.happenings import ProcessExit
from nbdist.launch.start import connect
from tests.builders.outcomes import ended


def running(*, exits: dict[int, ProcessExit] | None = None) -> Any:
    """A start of one process on this machine, whose engine has not registered."""
    home = SimpleNamespace(
        exits=exits or {},
        failure=None,
        ended_at=None,
        poll=lambda: None,
        reach=SimpleNamespace(name="here"),
        controller_log_tail=lambda: ("no socket",),
    )
    agents = SimpleNamespace(all=[], exits={}, home=home, others={})
    processes = [SimpleNamespace(host="here")]
    plan = SimpleNamespace(hosts={0: "here"}, processes=processes, start_timeout_s=60)
    return SimpleNamespace(
        plan=plan, agents=agents, own_agents=agents, client_file="client.json", connected=0
    )


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The connection files that clients were made of; the controller answers the third."""
    asked: list[str] = []

    def client(path: str, **_: Any) -> Any:
        asked.append(path)
        if len(asked) < 3:
            raise TimeoutError("Hub connection request timed out")
        return "connected"

    monkeypatch.setattr(connect, "Client", client)
    return asked


def test_a_controller_that_does_not_answer_yet_is_asked_again(asked: list[str]) -> None:
    found = connect._connected(running(), time.monotonic() + 60)
    assert found == "connected" and asked == ["client.json"] * 3


def test_one_that_does_not_answer_in_time_is_an_error_with_what_to_type(asked: list[str]) -> None:
    text = r"The controller \(host here\) did not answer within 60 s\. .* --start-timeout\.\n  no socket$"
    with pytest.raises(LaunchError, match=text):
        connect._connected(running(), time.monotonic() - 1)
    assert asked == ["client.json"]


def test_one_that_has_ended_is_not_asked(asked: list[str]) -> None:
    end = ended(CONTROLLER, code=3, last_lines=("no room",))
    with pytest.raises(
        LaunchError, match=r"The controller .* ended with exit code 3 .*\n  no room"
    ):
        connect._connected(running(exits={CONTROLLER: end}), time.monotonic() + 60)
    assert asked == []


def test_processes_that_connected_and_are_silent_are_not_said_to_be_missing() -> None:
    started = running()
    started.connected = 1
    with pytest.raises(LaunchError, match=r"All 1 processes connected, but not all answered"):
        connect.check(started, [0], time.monotonic() - 1)


def test_one_whose_host_is_gone_while_another_of_its_job_answers_is_not_waited_for() -> None:
    found = running()
    found.agents.exits = {0: ended(0, code=None, because_of="host h3 does not answer")}
    with pytest.raises(
        LaunchError, match=r"^Process 0 \(host here\) out of reach: host h3 does not"
    ):
        connect.check(found, [0], time.monotonic() + 60)
