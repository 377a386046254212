"""Hosts, agents and engines of a start, none of which is there: what each does is a function of a test."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nbdist.agent import kernel_link
from nbdist.contract.calls import PROTOCOL
from nbdist.contract.orders import CONTROLLER
from nbdist.contract.wire import encode
from nbdist.engine.kernel.calls import SentCall
from nbdist.launch.agents import agent_handle
from nbdist.launch.model.plan import Plan, plan_for
from nbdist.launch.model.start_options import StartOptions
from nbdist.launch.planning import choose_placement
from nbdist.launch.start import (
    connect,
    hosts,
    initialize,
    preflight,
    spawn,
)
from nbdist.launch.start.cluster import Cluster
from nbdist.machine.folder import engine_connection, write_private
from nbdist.version import __version__
from tests.builders.agents import FakeChannel, Order
from tests.builders.clock import PatientClock
from tests.builders.examined import kernel

# Of documentation (RFC 5737): no machine has it.
KERNEL_ADDRESS = "192.0.2.1"
CONNECTION = {
    "interface": f"tcp://{KERNEL_ADDRESS}",
    "iopub": 9,
    "key": "secret",
    "signature_scheme": "hmac-sha256",
}
RELAY_PORT = 8000
"""Where the processes of each host reach JAX's coordination service."""

LIMIT_SECONDS = 60.0
ENDS_SECONDS = 30.0
THIS_MACHINE = socket.gethostname()

Does = Callable[[FakeChannel, Any], None]
Answer = dict[str, Any] | tuple[Any, ...] | BaseException | None
"""A tuple has buffers behind the answer."""

Later = Answer | Callable[[], Answer]


def plan_of(*hosts: str, processes: int = 1, **changes: Any) -> Plan:
    """So many processes of JAX on each of these hosts; on this machine where none are named."""
    placement = {}
    if hosts:
        placement["placement"] = choose_placement(
            StartOptions(
                hosts=",".join(hosts), remote_python="python3", controller_address=KERNEL_ADDRESS
            )
        )
    return plan_for(
        hosts=[(name, processes) for name in hosts or (THIS_MACHINE,)],
        devices_per_process=None,
        platform="cpu",
        accelerators=None,
        **{"start_timeout_s": LIMIT_SECONDS, **placement, **changes},
    )


class FakeResult:
    """What ipyparallel gives for a request.

    Args:
      answer: What comes at once, or a function that gives it whenever somebody looks; None: nothing has come.
      sleep: Called where somebody waits in vain.
    """

    def __init__(self, answer: Later, sleep: Callable[[float], None]) -> None:
        self._later = answer if callable(answer) else lambda: answer
        self._sleep = sleep

    @property
    def _answer(self) -> Answer:
        return self._later()

    def ready(self) -> bool:
        return self._answer is not None

    def wait(self, timeout_s: float | None = None) -> None:
        if self._answer is None:
            self._sleep(0.0)

    def get(self, timeout_s: float | None = None) -> list[Any]:
        answer = self._answer
        if isinstance(answer, BaseException):
            error = {"type": type(answer).__name__, "text": str(answer)}
            return [json.dumps({"error": error})]
        if answer is None:
            raise TimeoutError
        facts, *buffers = answer if isinstance(answer, tuple) else (answer,)
        return [json.dumps({"ok": encode(facts)}), *buffers]


class FakeClient:
    """ipyparallel's client: engines have ids in the order in which they came, not those of their processes."""

    def __init__(self, hosts: FakeHosts) -> None:
        self._hosts = hosts
        self.processes: dict[int, int] = {}
        self.closed = False

    @property
    def ids(self) -> list[int]:
        return list(self.processes)

    def __getitem__(self, engine: int) -> Any:
        process_id = self.processes[engine]

        def apply(call: SentCall, *buffers: bytes) -> FakeResult:
            arguments = json.loads(call.arguments)
            # Those of the framework, where they are.
            arguments = arguments.get("stage", arguments)
            self._hosts.asked.append((process_id, call.name, arguments))
            answer = self._hosts.answers[call.name](process_id, arguments)
            return FakeResult(answer, self._hosts.clock.sleep)

        view = SimpleNamespace(targets=engine, apply_async=apply)
        return SimpleNamespace(set_flags=lambda **_: view, targets=engine)

    def come(self, process_id: int) -> None:
        """An engine registers."""
        self.processes[len(self.processes) + 7] = process_id

    def close(self) -> None:
        self.closed = True


class FakeHosts:
    """All that a start needs of other programs.

    `does` says what the agent of a host does with orders of a kind, by `(host, kind)`; without an entry it does as
    a real one where all is well. `answers` says what the engines answer to each call.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock = PatientClock(self.quiet, self._tick)
        self.agents: dict[str, FakeChannel] = {}
        self.does: dict[tuple[str, str], Does] = {}
        self.client = FakeClient(self)
        self.asked: list[tuple[int, str, dict[str, Any]]] = []
        self.answers: dict[str, Callable[[int, dict[str, Any]], Later]] = {
            "hello": self._hello,
            "initialize": lambda p, arguments: {"process_id": p, "version": "0.10.2"},
        }
        self.progress: list[tuple[str, int, int]] = []
        self.started: list[Any] = []
        self._names: list[str] = []
        self._threads = set(threading.enumerate())
        self._folders: list[Path] = []
        monkeypatch.setattr(agent_handle, "Pipes", self._channel)
        monkeypatch.setattr(preflight, "kernel_facts", lambda asked: kernel())
        monkeypatch.setattr(connect, "Client", lambda path, **options: self.client)
        for module in (
            agent_handle,
            connect,
            initialize,
            kernel_link,
            hosts,
            spawn,
        ):
            monkeypatch.setattr(module, "time", self.clock)
        monkeypatch.setattr(initialize, "wait_for_coordinator", lambda rendezvous: None)
        made = spawn.folders.make

        def make() -> str:
            self._folders.append(Path(made()))
            return str(self._folders[-1])

        monkeypatch.setattr(spawn.folders, "make", make)

    def spawn(self, plan: Plan) -> Cluster:
        """The first step of a start."""
        self._names = [host.name for host in plan.placement.hosts if not host.local]
        cluster = spawn.spawn(plan, session="s")
        self.started.append(cluster)
        return cluster

    def start(self, plan: Plan) -> Cluster:
        """A start as far as its engines are connected."""
        cluster = self.spawn(plan)
        connect.start(cluster, progress=self.receive)
        return cluster

    def join(self, plan: Plan) -> tuple[Any, dict[int, dict[str, Any]]]:
        """A start to its end; the engines, and what they answered."""
        cluster = self.start(plan)
        return cluster, initialize.join(cluster, progress=self.receive)

    def receive(self, stage: str, done: int, total: int) -> None:
        """A `StartProgress`."""
        self.progress.append((stage, done, total))

    def quiet(self) -> bool:
        """Whether the kernel has taken all that the agents have said."""
        return not any(agent.unread for agent in self.agents.values())

    def left(self) -> list[str]:
        """What of this is still there: agents, folders, threads."""
        agents = [name for name, agent in self.agents.items() if agent.running]
        threads = set(threading.enumerate()) - self._threads
        if not agents:
            for thread in threads:  # those that have been asked to end may need a moment
                thread.join(ENDS_SECONDS)
        return [
            *(f"agent of {name}" for name in agents),
            *(f"channel to {name}" for name, agent in self.agents.items() if not agent.closed),
            *(f"folder {folder}" for folder in self._folders if folder.exists()),
            *(f"thread {thread.name}" for thread in threads if thread.is_alive()),
        ]

    def stop(self) -> None:
        """Ends what a test has left."""
        for one in self.started:
            one.stop()

    def exited(
        self, name: str, process_id: int, *, code: int = 1, words: Sequence[str] = ()
    ) -> None:
        """A process of a host ends."""
        self.agents[name].say(
            "exited",
            process_id=process_id,
            pid=100 + process_id,
            code=code,
            oom=False,
            last_lines=list(words),
        )

    def _tick(self) -> None:
        for agent in self.agents.values():
            if agent.running and not agent.silent:
                agent.say("alive")

    def _channel(
        self, command: Sequence[str], environment: Mapping[str, str] | None, log: Path
    ) -> FakeChannel:
        agent = FakeChannel(self._name(log), log, self._obey, self.clock.sleep)
        self.agents[agent.name] = agent
        return agent

    def _name(self, log: Path) -> str:
        number = log.stem.partition("-")[2]
        log.touch()
        return self._names[int(number)] if number else "home"

    def _obey(self, agent: FakeChannel, order: Order) -> None:
        kind = order["order"]
        if hasattr(self, f"_{kind}"):
            self.does.get((agent.name, kind), getattr(self, f"_{kind}"))(agent, order)

    def _assign(self, agent: FakeChannel, order: Order) -> None:
        self.introduce(agent, order)
        agent.say("preloaded", seconds=0.0)

    def introduce(self, agent: FakeChannel, order: Order, **changes: Any) -> None:
        """The agent says who it is; the one of this machine has started the controller."""
        number = [*self.agents].index(agent.name)
        reported = {
            "host": THIS_MACHINE if agent.name == "home" else agent.name,
            "pid": agent.pid,
            "nbdist": __version__,
            "folder": order["folder"] or "/tmp/nbdist-there",
            "cwd": "/home/ada",
            "address": f"192.0.2.{11 + number}",
            "listening": 5000 + number,
            "ports": list(range(6000, 6000 + order["ports"])),
            "checks": None,
        }
        agent.say("host", **{**reported, **changes})
        if order["controller_arguments"] is not None:
            agent.say("started", process_id=CONTROLLER, pid=99)
            self.open_controller(order["folder"])

    @staticmethod
    def open_controller(folder: str) -> None:
        """The controller writes where it is."""
        engine = engine_connection(folder, "nbdist")
        write_private(engine, CONNECTION)
        write_private(engine.with_name("ipcontroller-nbdist-client.json"), CONNECTION)

    def _start(self, agent: FakeChannel, order: Order) -> None:
        for process in order["processes"]:
            process_id = process["process_id"]
            agent.say("started", process_id=process_id, pid=100 + process_id)
            self.client.come(process_id)

    def _reserve_ports(self, agent: FakeChannel, order: Order) -> None:
        number, count = order["number"], order["count"]
        first = 6000 + 100 * number
        agent.say("reserved", number=number, ports=list(range(first, first + count)))

    def _coordinate(self, agent: FakeChannel, service: dict[str, Any]) -> None:
        address = f"{service['host']}:{service['port'] or 7000}"
        agent.say("coordinating", number=service["number"], address=address, last_lines=[])

    def _relay(self, agent: FakeChannel, order: Order) -> None:
        agent.say("relaying", number=order["number"], port=RELAY_PORT)

    def _reach(self, agent: FakeChannel, order: Order) -> None:
        agent.say("reached", answers=[{"ms": 1.0} for _ in order["targets"]])

    def _signal(self, agent: FakeChannel, order: Order) -> None:
        for process_id in order["process_ids"]:
            self.exited(agent.name, process_id, code=-order["number"])

    def _connect(self, agent: FakeChannel, order: Order) -> None:
        """It is written there."""

    def _hello(self, process_id: int, arguments: dict[str, Any]) -> Answer:
        return {
            "process_id": process_id,
            "host": "there",
            "nbdist": __version__,
            "protocol": PROTOCOL,
            "python": "3.13.0",
            "ident": f"engine-{process_id}",
            "pid": 100 + process_id,
        }
