"""A start, from agents to engines that are connected: it succeeds, or says why not and leaves nothing."""

from __future__ import annotations

import asyncio
import gc
import operator
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nbdist.contract.orders import CONTROLLER
from nbdist.errors import HostError, LaunchError, VersionError
from nbdist.version import __version__
from tests.builders.agents import FakeChannel
from tests.builders.hosts import THIS_MACHINE, FakeHosts, plan_of
from tests.waiting import wait_for

Setup = Callable[[FakeHosts], None]


@pytest.mark.parametrize("names", [(), ("h1",), ("h1", "h2")])
def test_a_start_connects_all_processes_and_its_end_leaves_nothing(
    hosts: FakeHosts, names: tuple[str, ...]
) -> None:
    running = hosts.start(plan_of(*names, processes=2))
    count = 2 * max(1, len(names))
    assert sorted(running.engines) == list(range(count))
    assert {running.engines[p]: p for p in range(count)} == hosts.client.processes
    assert running.pids == {p: 100 + p for p in range(count)}
    assert hosts.progress[-2:] == [("connected", count, count), ("ready", count, count)]
    assert hosts.left() != []
    running.stop()
    assert hosts.left() == []
    assert hosts.client.closed


def test_starts_in_a_notebook_whose_loop_runs_leave_no_thread_and_no_descriptor(
    hosts: FakeHosts,
) -> None:
    def left() -> tuple[int, int]:
        gc.collect()
        return threading.active_count(), len(list(Path("/proc/self/fd").iterdir()))

    async def starts() -> None:
        hosts.start(plan_of("h1")).stop()
        once = left()
        for _ in range(3):
            hosts.start(plan_of("h1")).stop()
        # What a thread closes may be closed a moment later.
        wait_for(lambda: all(map(operator.le, left(), once)))

    asyncio.run(starts())


def test_the_key_of_a_session_reaches_hosts_through_their_channels_alone(hosts: FakeHosts) -> None:
    hosts.start(plan_of("h1", "h2"))
    for name in ("h1", "h2"):
        ((connection),) = (order["connection"] for order in hosts.agents[name].ordered("connect"))
        assert connection["key"] == "secret"
    assert hosts.agents["home"].ordered("connect") == []


def test_each_agent_is_asked_for_its_own_processes(hosts: FakeHosts) -> None:
    hosts.start(plan_of("h1", "h2", processes=2))
    asked = {
        name: [
            process["process_id"]
            for order in agent.ordered("start")
            for process in order["processes"]
        ]
        for name, agent in hosts.agents.items()
    }
    assert asked == {"h1": [0, 1], "h2": [2, 3], "home": []}


def on(name: str, kind: str, does: Callable[[FakeHosts, FakeChannel, Any], None]) -> Setup:
    """One host does something else with orders of one kind."""

    def setup(hosts: FakeHosts) -> None:
        hosts.does[name, kind] = lambda agent, order: does(hosts, agent, order)

    return setup


def refuses(error: str, *, working: bool = True) -> Setup:
    def does(hosts: FakeHosts, agent: FakeChannel, order: Any) -> None:
        agent.say("refused", host="h2", folder="/there", error=error, working=working)
        agent.exit(1)

    return on("h2", "assign", does)


def ends(kind: str, status: int, *words: str, name: str = "h2") -> Setup:
    return on(name, kind, lambda hosts, agent, order: agent.exit(status, *words))


def cannot_import(hosts: FakeHosts, agent: FakeChannel, order: Any) -> None:
    hosts.introduce(agent, order)
    error = "ModuleNotFoundError: No module named 'jax'"
    agent.say("failed", module="jax", error=error, trace="Traceback: here\n")
    agent.exit(0)


def falls_silent(hosts: FakeHosts, agent: FakeChannel, order: Any) -> None:
    agent.silent = True


def is_cut_off(hosts: FakeHosts, agent: FakeChannel, order: Any) -> None:
    agent.silent = agent.hangs = True


def does_not_reach(hosts: FakeHosts) -> None:
    hosts.does["h2", "reach"] = lambda agent, targets: agent.say(
        "reached", answers=[{"error": "timed out"}, {"ms": 0.0}]
    )
    hosts.does["h1", "start"] = lambda agent, processes: None


def process_ends(name: str, process_id: int) -> Setup:
    def does(hosts: FakeHosts, agent: FakeChannel, order: Any) -> None:
        hosts.exited(agent.name, process_id, code=-11, words=["Segmentation fault"])

    return on(name, "start", does)


def controller_ends(hosts: FakeHosts) -> None:
    def does(agent: FakeChannel, order: Any) -> None:
        hosts.introduce(agent, {**order, "controller_arguments": None})
        hosts.exited("home", CONTROLLER, code=3, words=["no room"])

    hosts.does["home", "assign"] = does


def controller_writes_nothing(hosts: FakeHosts) -> None:
    hosts.does["home", "assign"] = lambda agent, order: hosts.introduce(
        agent, {**order, "controller_arguments": None}
    )


def speaks(**changes: Any) -> Setup:
    """The engine of process 1 says something else of itself."""

    def setup(hosts: FakeHosts) -> None:
        hello = hosts.answers["hello"]

        def answer(process_id: int, arguments: dict[str, Any]) -> Any:
            found = hello(process_id, arguments)
            return {**found, **changes} if process_id == 1 else found

        hosts.answers["hello"] = answer

    return setup


def says_nothing(hosts: FakeHosts) -> None:
    hosts.answers["hello"] = lambda process_id, arguments: None


FAILURES: dict[str, tuple[Setup, type[Exception], str]] = {
    "a host cannot keep files": (
        refuses("[Errno 28] No space left on device", working=False),
        HostError,
        r"^Host h2 cannot keep the session's files in /there: \[Errno 28\] No space left on device\.",
    ),
    "a host has no such folder": (
        refuses("[Errno 2] No such file or directory"),
        HostError,
        r"^Host h2 cannot use the working folder /there: .*--cwd.*--sync",
    ),
    "ssh is refused": (
        ends("assign", 255, "ssh: connect to host h2 port 22: Connection refused"),
        HostError,
        r"(?s)^Host h2: .*%dist_doctor with the same hosts",
    ),
    "a host has no nbdist": (
        ends("assign", 1, "/usr/bin/python3: No module named nbdist"),
        HostError,
        rf"^Host h2: python3 there has no nbdist\. On h2 run: python3 -m pip install nbdist=={__version__}",
    ),
    "a host has another version": (
        on("h2", "assign", lambda hosts, agent, o: hosts.introduce(agent, o, nbdist="0.0.1")),
        VersionError,
        rf"^Host h2 has nbdist 0\.0\.1, this kernel has {__version__}\. On h2 run: pip install",
    ),
    "a host never answers": (
        on("h2", "assign", is_cut_off),
        HostError,
        r"^Host h2 did not answer within 30 s: .*%dist_doctor",
    ),
    "a host ends before anything is started": (
        ends("reach", 255, "Connection reset by peer"),
        HostError,
        r"(?s)^Host h2 was lost while the processes started\..*Connection reset by peer",
    ),
    "a host ends when it is to start": (
        ends("start", 255, "Connection reset by peer"),
        HostError,
        r"^Host h2 was lost while the processes started\.",
    ),
    "an import fails": (
        on("h2", "assign", cannot_import),
        LaunchError,
        r"(?s)^process 1 \(host h2\) cannot import jax: .*of host h2 run: pip install jax, .*Traceback: here$",
    ),
    "a host falls silent": (
        on("h2", "start", falls_silent),
        HostError,
        r"^Host h2 has not answered for 2\d s while the processes started",
    ),
    "a host is cut off": (
        on("h2", "start", is_cut_off),
        HostError,
        r"^Host h2 has not answered for 2\d s while the processes started",
    ),
    "hosts do not reach each other": (
        does_not_reach,
        LaunchError,
        r"^Host h2 cannot connect to host h1 at 192\.0\.2\.11: timed out\. .*Open TCP",
    ),
    "a process ends while others connect": (
        process_ends("h2", 1),
        LaunchError,
        r"(?s)^Process 1 \(host h2, pid 101\) killed by signal 11 \(SIGSEGV\) while it started\.\n  Segm",
    ),
    "a process does not connect": (
        on("h2", "start", lambda hosts, agent, order: None),
        LaunchError,
        r"^1 of 2 processes did not connect within 60 s \(host h1, h2\)\..*at 192\.0\.2\.1: look with",
    ),
    "the controller ends": (
        controller_ends,
        LaunchError,
        rf"^The controller \(host {re.escape(THIS_MACHINE)}, pid 99\) ended with exit code 3 while .*\n  no room$",
    ),
    "the controller says nothing": (
        controller_writes_nothing,
        LaunchError,
        rf"^The controller \(host {re.escape(THIS_MACHINE)}\) was not ready within 60 s\. .*--start-timeout",
    ),
    "the agent of this machine ends": (
        on("h1", "start", lambda hosts, agent, order: hosts.agents["home"].exit(-9)),
        LaunchError,
        r"^The engines' parent process ended \(exit code -9\)\.",
    ),
    "an engine has another version": (
        speaks(nbdist="0.0.1"),
        VersionError,
        r"^Process 1 \(host there\) has nbdist 0\.0\.1, this kernel has .* On there run: pip install",
    ),
    "an engine has another protocol": (
        speaks(protocol=0),
        VersionError,
        r"^Process 1 \(host there\) has nbdist",
    ),
    "no engine says who it is": (
        says_nothing,
        LaunchError,
        r"^All 2 processes connected, but not all answered the first message within 60 s",
    ),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_a_start_that_fails_says_why_and_leaves_nothing(hosts: FakeHosts, failure: str) -> None:
    setup, kind, message = FAILURES[failure]
    setup(hosts)
    with pytest.raises(kind, match=message) as error:
        hosts.start(plan_of("h1", "h2"))
    assert type(error.value) is kind
    assert hosts.left() == []
    if isinstance(error.value, HostError):
        assert error.value.host == "h2"  # --min-hosts goes on without it


@pytest.mark.parametrize("stage", ["reached", "starting", "connected", "ready"])
def test_an_interrupt_at_any_stage_leaves_nothing(
    hosts: FakeHosts, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    def interrupted(now: str, done: int, total: int) -> None:
        if now == stage:
            raise KeyboardInterrupt

    monkeypatch.setattr(hosts, "receive", interrupted)
    with pytest.raises(KeyboardInterrupt):
        hosts.start(plan_of("h1", "h2"))
    assert hosts.left() == []


@pytest.mark.parametrize("names", [(), ("h1",)])
def test_an_agent_that_does_not_end_by_itself_is_killed(
    hosts: FakeHosts, names: tuple[str, ...]
) -> None:
    running = hosts.start(plan_of(*names))
    for agent in hosts.agents.values():
        agent.hangs = True
    running.stop()
    assert {agent.status for agent in hosts.agents.values()} == {-9}
    assert hosts.left() == []
