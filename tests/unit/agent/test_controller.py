"""The controller's ports, and its heartbeats, with ipyparallel's private class as it is, and without."""

from __future__ import annotations

import os
import select
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ipyparallel.controller.app import IPController
from ipyparallel.controller.heartmonitor import HeartMonitor

from nbdist.agent import programs
from nbdist.agent.programs import (
    AGAIN,
    PORTS,
    REGISTERING_SECONDS,
    SLOW_MS,
    beat_as_needed,
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


def test_heartbeats_are_fast_only_while_engines_register(monkeypatch: pytest.MonkeyPatch) -> None:
    now: list[float] = [100.0]
    handlers: dict[int, Any] = {}

    class Monitor:
        period = 100
        loop = SimpleNamespace(READ=1, add_handler=lambda fd, call, _: handlers.update({fd: call}))

        def start(self) -> None:
            self.caller = PeriodicCallback(self.beat, self.period)

        def beat(self) -> None:
            """Send one."""

    class Hub:
        def register_engine(self, *arguments: object) -> object:
            return arguments

    class PeriodicCallback(SimpleNamespace):
        def __init__(self, _: object, period: int) -> None:
            starts: list[int] = []
            super().__init__(
                callback_time=period, starts=starts, start=lambda: starts.append(1), stop=int
            )

    monkeypatch.setattr("nbdist.agent.programs.time.monotonic", lambda: now[0])
    assert beat_as_needed(Monitor, Hub)
    monitor = Monitor()
    monitor.start()
    monitor.beat()
    assert monitor.caller.callback_time == 100
    now[0] += REGISTERING_SECONDS + 1
    monitor.beat()
    assert monitor.caller.callback_time == SLOW_MS
    assert Hub().register_engine("ident", "request") == ("ident", "request")
    ((asked, hurry),) = handlers.items()
    assert select.select([asked], [], [], 0)[0]
    hurry(asked, 1)
    assert not select.select([asked], [], [], 0)[0]
    hurry(
        asked, 1
    )  # the next beat is not put off by many engines that register one after the other
    assert len(monitor.caller.starts) == 1
    monitor.beat()
    assert monitor.caller.callback_time == 100


def test_without_these_private_methods_nothing_is_changed() -> None:
    class Monitor:
        pass

    assert not take_late_answers(Monitor)
    assert not take_late_answers(None)
    assert not beat_as_needed(Monitor, HeartMonitor)
    assert not beat_as_needed(HeartMonitor, Monitor)
    assert not beat_as_needed(None, None)
    assert not vars(Monitor).keys() & {"handle_pong", "start", "beat", "register_engine"}
