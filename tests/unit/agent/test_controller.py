"""The controller's ports, and its heartbeats, with ipyparallel's private class as it is, and without."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from ipyparallel.controller.app import IPController
from ipyparallel.controller.heartmonitor import HeartMonitor

from nbdist.agent import programs
from nbdist.agent.programs import (
    AGAIN,
    PORTS,
    run_controller,
    take_late_answers,
)
from nbdist.machine import ports
from nbdist.machine.folder import connections, write_private


@pytest.fixture(autouse=True)
def _keys_of_before(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("IPP_CURVE_PUBLICKEY", "IPP_CURVE_SECRETKEY"):
        monkeypatch.setenv(name, "")  # is as before at the end


def test_its_ports_are_kept_for_it_as_long_as_it_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    given: list[int] = []

    def launch_instance(arguments: list[str]) -> None:
        given.extend(map(int, arguments[-1].removeprefix("--IPController.ports=").split(",")))
        assert not any(map(ports._is_free, given))  # another program could be given it

    monkeypatch.setattr(IPController, "launch_instance", launch_instance)
    monkeypatch.setattr(HeartMonitor, "handle_pong", HeartMonitor.handle_pong)
    run_controller(["--ip=127.0.0.1"], folder=str(tmp_path), cluster_id="x")
    assert len(set(given)) == PORTS


def connections_at(folder: Path, port: int) -> None:
    for path in connections(str(folder), "x"):
        at = {"interface": "tcp://127.0.0.1", "mux": port, "broadcast": [port]}
        write_private(path, at)


def test_one_in_the_place_of_another_takes_its_files_and_its_keys(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    lines: list[list[str]] = []
    keys: list[str] = []

    def launch_instance(arguments: list[str]) -> None:
        lines.append(arguments)
        keys.append(os.environ["IPP_CURVE_SECRETKEY"])

    monkeypatch.setattr(IPController, "launch_instance", launch_instance)
    monkeypatch.setattr(HeartMonitor, "handle_pong", HeartMonitor.handle_pong)
    for again in (False, True):
        run_controller([], folder=str(tmp_path), cluster_id="x", again=again)
        connections_at(tmp_path, ports.free_ports(1)[0])
    assert keys[0] == keys[1] and len(keys[0]) == 40
    assert [set(AGAIN) <= set(line) for line in lines] == [False, True]
    assert all("--IPController.enable_curve=True" in line for line in lines)
    found = list((tmp_path / "security").iterdir())
    assert {path.stat().st_mode & 0o777 for path in found} == {0o600}


def test_one_whose_port_another_program_has_by_now_does_not_begin(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(IPController, "launch_instance", lambda arguments: pytest.fail("it began"))
    monkeypatch.setattr(HeartMonitor, "handle_pong", HeartMonitor.handle_pong)
    monkeypatch.setattr(programs, "FREE_SECONDS", 0.0)
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        connections_at(tmp_path, port)
        with pytest.raises(SystemExit, match=rf"^Another program listens at {port}, where"):
            run_controller([], folder=str(tmp_path), cluster_id="x", again=True)


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
