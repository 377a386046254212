"""Parents on other machines, as the kernel holds them: who is silent, who is lost, and how they are stopped."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from nbdist.agent import kernel_link
from nbdist.agent.kernel_link import Pauses
from nbdist.contract.asides import Abandon, Cut, Free, Repeat, Rescue
from nbdist.contract.events import Fault
from nbdist.contract.orders import Ask, Assignment, NewProcess, Stop
from nbdist.launch.agents import AgentSpec, Pipes
from nbdist.launch.agents import agent_handle as one_parent
from nbdist.launch.agents.agent_handle import AgentHandle
from nbdist.launch.agents.fifo_channel import LastingChild
from nbdist.launch.model.happenings import AgentEvents, Happening, HostsSilent
from nbdist.launch.start import pool as all_parents
from nbdist.launch.start.pool import AgentPool, ForeignEngines
from nbdist.version import __version__
from tests.waiting import WAIT_SECONDS, wait_for

FACTS = {
    "event": "host",
    "host": "h",
    "pid": 1,
    "nbdist": __version__,
    "folder": "/f",
    "cwd": "/",
    "address": "10.0.0.1",
    "listening": None,
    "ports": [],
    "checks": None,
}
SILENT_SECONDS, LOST_SECONDS = 1.5, 3.0
"""A program that answers may take a second to do so on a machine that is busy."""

BEGIN = """
import json, sys, time
def say(**event):
    print(json.dumps(event), flush=True)
say(**json.loads(sys.argv[1]))
"""
UNREACHED = "out of reach: host h2 does not answer"

ANSWERS = """
for line in sys.stdin:
    order = json.loads(line)
    if order["order"] == "alive":
        say(event="alive")
    if order["order"] == "stop":
        sys.exit(3)
    if order["order"] == "start":
        for process in order["processes"]:
            say(event="started", process_id=process["process_id"], pid=100)
    if order["order"] == "signal":
        for process_id in order["process_ids"]:
            say(event="exited", process_id=process_id, pid=100, code=-order["number"], oom=False,
                 last_lines=["good bye"], time=0.0)
"""
SILENT = """
for line in sys.stdin:
    pass
"""


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., AgentPool]]:
    """Makes agents out of short programs, by host name; the times are shorter than the real ones."""
    for module, name, seconds in (
        (all_parents, "PERIOD_SECONDS", 0.1),
        (all_parents, "SILENT_SECONDS", SILENT_SECONDS),
        (one_parent, "SILENT_SECONDS", SILENT_SECONDS),
        (all_parents, "LOST_SECONDS", LOST_SECONDS),
    ):
        monkeypatch.setattr(module, name, seconds)
    made: list[AgentPool] = []
    events = AgentEvents()

    def begin(name: str, program: str, *, remote: bool = True) -> AgentHandle:
        facts = json.dumps({**FACTS, "host": name})
        return AgentHandle.begin(
            AgentSpec(
                name=name,
                command=(sys.executable, "-c", BEGIN + program, facts, f"here-{name}"),
                remote=remote,
            ),
            Assignment(nbdist=__version__, cluster_id="c", preload=(), fork=True),
            log=tmp_path / f"{name}.log",
            on_event=events.publish,
        )

    def parents_of(**programs: str) -> AgentPool:
        others = {name: begin(name, program) for name, program in programs.items()}
        home = begin("home", ANSWERS, remote=False)
        made.append(AgentPool(home, others, events=events))
        made[0].assign(dict(enumerate(others.values())))
        wait_for(lambda: all(parent.facts for parent in others.values()))
        return made[0]

    yield parents_of
    for agents in made:
        agents.stop()


def test_a_silent_host_is_reported_once_then_given_up_and_its_processes_are_out_of_reach(
    make: Callable[..., AgentPool],
) -> None:
    agents = make(h1=ANSWERS, h2=SILENT)
    received: list[Happening] = []
    agents.events.subscribe(received.append)
    wait_for(lambda: [e for e in received if isinstance(e, HostsSilent)])
    assert list(agents.silent) == ["h2"]
    assert agents.exits == {}
    wait_for(lambda: agents.exits)
    ((process_id, end),) = agents.exits.items()
    assert (process_id, str(end)) == (1, UNREACHED)
    wait_for(lambda: not agents.silent)
    assert [list(e.since) for e in received if isinstance(e, HostsSilent)] == [["h2"], []]


def test_what_was_heard_after_a_moment_is_known_by_host(make: Callable[..., AgentPool]) -> None:
    agents = make(h1=ANSWERS, h2=SILENT)
    now = time.monotonic()
    wait_for(lambda: agents.received_since("h1", now))
    assert not agents.received_since("h2", now)
    assert not agents.received_since("h3", 0.0)


def test_orders_go_to_the_parent_of_each_process_and_ends_come_back(
    make: Callable[..., AgentPool],
) -> None:
    agents = make(h1=ANSWERS, h2=ANSWERS)
    agents.start([NewProcess(process_id=p, environment={}) for p in (0, 1)])
    wait_for(lambda: all(p.pids for p in agents.others.values()))
    assert [list(p.pids) for p in agents.others.values()] == [[0], [1]]
    agents.signal(9, [1])
    wait_for(lambda: agents.exits)
    assert list(agents.exits) == [1]
    assert "SIGKILL" in str(agents.exits[1])
    assert agents.exits[1].last_lines == ("good bye",)
    agents.forget([1])
    assert agents.exits == {}


def test_a_connection_that_ends_takes_its_processes_out_of_reach(
    make: Callable[..., AgentPool],
) -> None:
    agents = make(h1=ANSWERS, h2=ANSWERS)
    agents.others["h1"].order(Stop())
    wait_for(lambda: agents.exits)
    said = "out of reach: the connection to host h1 ended with exit code 3"
    assert {p: str(end) for p, end in agents.exits.items()} == {0: said}


def test_the_end_of_home_is_the_end_of_all(make: Callable[..., AgentPool]) -> None:
    agents = make(h1=ANSWERS, h2=ANSWERS)
    agents.home.order(Stop())
    wait_for(lambda: agents.controller_end)
    assert sorted(agents.exits) == [0, 1]
    assert "the engines' parent process" in str(agents.exits[1])


def test_hosts_are_stopped_side_by_side_and_none_is_waited_for_that_is_silent(
    make: Callable[..., AgentPool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(one_parent, "STOP_SECONDS", 3 * WAIT_SECONDS)
    together = ANSWERS + (
        "import pathlib\n"
        f"pathlib.Path({str(tmp_path)!r}, sys.argv[2]).touch()\n"
        f"while len(list(pathlib.Path({str(tmp_path)!r}).glob('here-*'))) < 2:\n"
        "    time.sleep(0.01)\n"
    )
    agents = make(h1=together, h2=together, h3=SILENT + "time.sleep(60)\n")
    wait_for(lambda: "h3" in agents.silent)
    began = time.monotonic()
    agents.stop()
    assert time.monotonic() - began < WAIT_SECONDS
    assert {name: parent.poll() for name, parent in agents.others.items()} == {
        "h1": 0,
        "h2": 0,
        "h3": -signal.SIGKILL,
    }
    # One on this machine is asked by a signal as well where it has not ended a moment later.
    assert agents.home.poll() in (0, -signal.SIGTERM)
    assert "nbdist-pulse" not in [thread.name for thread in threading.enumerate()]


SAYS = """
for line in sys.stdin:
    order = json.loads(line)
    if order["order"] == "alive":
        say(event="alive")
    if order["order"] == "ask":
        print(order["question"]["say"], flush=True)
"""


def say(agents: AgentPool, line: str) -> None:
    """Has the agent of h1 write a line."""
    agents.others["h1"].order(Ask(process_ids=(), question={"say": line}))


@pytest.mark.parametrize(
    "said",
    [
        '{"event": "exited", "process_id": 1}',
        '{"event": "host", "host": "h1"}',
        '{"event": "started", "pid": 3}',
        '{"event": ["no", "text"], "process_id": {}}',
        '{"event": "exited", "process_id": [1], "pid": 0, "code": 0, "oom": 0, "time": 0, "last_lines": 3}',
        '{"event": "reached"}',
        '{"event": "alive"',
        '{"no": "event"}',
        "[1,2]<stdout>",
        "[1,2]<stdout>:nbdist 1 1 {",
        "nbdist 99999999999999999999 1 {}",
        "\ud7ff\x00garbage",
        "null",
    ],
)
def test_a_message_of_a_wrong_shape_ends_nothing(make: Callable[..., AgentPool], said: str) -> None:
    agents = make(h1=SAYS)
    received: list[Happening] = []
    agents.events.subscribe(received.append)
    say(agents, said)
    say(agents, '{"event": "started", "process_id": 0, "pid": 7}')
    wait_for(lambda: agents.others["h1"].pids.get(0) == 7)
    assert agents.exits == {}
    assert len(agents.faults) == len([e for e in received if isinstance(e, Fault)])


def test_a_message_that_lacks_something_is_named_with_its_host_once(
    make: Callable[..., AgentPool],
) -> None:
    agents = make(h1=SAYS)
    for _ in range(3):
        say(agents, '{"event": "exited", "process_id": 1}')
    say(agents, '{"event": "started", "process_id": 0, "pid": 7}')
    wait_for(lambda: agents.others["h1"].pids)
    (said,) = agents.faults
    assert "host h1" in said and "missing required field pid" in said


def test_a_listener_that_fails_does_not_end_the_reader(make: Callable[..., AgentPool]) -> None:
    agents = make(h1=ANSWERS, h2=SILENT)
    received: list[type] = []

    def receives(event: Happening) -> None:
        received.append(type(event))
        raise RuntimeError("a fault of whoever listens")

    agents.events.subscribe(receives)
    agents.signal(15, [0])
    wait_for(lambda: agents.exits.get(0))
    wait_for(lambda: HostsSilent in received)
    wait_for(lambda: agents.others["h2"].given_up)
    assert agents.faults


def test_a_channel_that_cannot_be_read_for_a_moment_is_read_again(
    make: Callable[..., AgentPool], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines, failures = Pipes.lines, iter([OSError("stale file handle"), ValueError("no")])

    def failing(channel: Pipes) -> Iterator[bytes]:
        for error in failures:
            raise error
        yield from lines(channel)

    monkeypatch.setattr(Pipes, "lines", failing)
    agents = make(h1=ANSWERS)
    agents.start([NewProcess(process_id=0, environment={})])
    wait_for(lambda: agents.others["h1"].pids)
    assert agents.exits == {}


def test_one_parent_that_fails_does_not_keep_the_others_from_being_looked_after(
    make: Callable[..., AgentPool], monkeypatch: pytest.MonkeyPatch
) -> None:
    agents = make(h1=ANSWERS, h2=SILENT)

    def beat() -> None:
        raise RuntimeError("a fault")

    monkeypatch.setattr(agents.others["h1"], "beat", beat)
    wait_for(lambda: agents.others["h2"].given_up)
    assert "hosts" in agents.faults[0]


def test_a_kernel_that_was_stopped_gives_up_nobody_when_it_runs_again(
    make: Callable[..., AgentPool], monkeypatch: pytest.MonkeyPatch
) -> None:
    jump = 0.0
    real = time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: real() + jump)
    monkeypatch.setattr(kernel_link, "PAUSE_SECONDS", 1.2)
    agents = make(h1=ANSWERS, h2=SILENT)
    for parent in agents.others.values():
        parent._pauses = Pauses(clock=time.monotonic)
    received: list[Happening] = []
    agents.events.subscribe(received.append)
    jump = 40.0
    began = real()
    wait_for(lambda: agents.others["h2"].given_up)
    # Not at once: only after a whole limit in which this kernel ran.
    assert real() - began >= LOST_SECONDS
    assert agents.others["h1"].poll() is None
    assert not [e for e in received if isinstance(e, HostsSilent) and "h1" in e.since]


def test_ctrl_z_in_the_kernels_terminal_reaches_no_parent(
    make: Callable[..., AgentPool], tmp_path: Path
) -> None:
    agents = make(h1=ANSWERS)
    kept = LastingChild((sys.executable, "-c", "input()"), None, tmp_path / "kept.log")
    try:
        for pid in (*(parent.pid for parent in agents.all), kept.process.pid):
            # The terminal stops the group in its foreground, which is the kernel's.
            assert os.getpgid(pid) == os.getsid(pid) == pid
    finally:
        kept.process.kill()
        kept.process.wait(WAIT_SECONDS)
        kept.close()


def test_engines_of_others_are_interrupted_out_of_a_proof_and_asked_nothing_else() -> None:
    made: Any = ForeignEngines.__new__(ForeignEngines)
    signals: list[tuple[int, list[int]]] = []
    made.signal = lambda number, process_ids: signals.append((number, list(process_ids)))
    for aside in (Repeat(), Cut(), Free(), Rescue(), Abandon()):
        made.ask(aside, [0, 1])
    assert signals == [(signal.SIGINT, [0, 1])]
