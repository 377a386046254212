"""Hosts of a session that lives: their processes report, and do with cells what a test has chosen."""

from __future__ import annotations

import itertools
import signal
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ipyparallel.error import RemoteError

from nbdist.contract.asides import Answer, Aside, question_from
from nbdist.contract.calls.engine import CellEnd, Completions, Recalled
from nbdist.contract.calls.stepping import Proven, Versions
from nbdist.contract.cells import label_from
from nbdist.contract.iopub import AsideAnswer, Kept, content_of
from nbdist.contract.snapshot import Snapshot
from nbdist.contract.wire import answer_type, encode
from nbdist.launch.agents import agent_handle
from nbdist.launch.model.start_options import Rules
from nbdist.launch.sessions import registry
from nbdist.launch.start.client import wire
from nbdist.monitor import monitor
from nbdist.session.cells import attached_cell
from nbdist.session.engine_group import EngineGroup
from nbdist.session.session import Session
from tests.builders.agents import FakeChannel, Order
from tests.builders.engines import sent, trail
from tests.builders.hosts import CONNECTION, FakeClient, FakeHosts, plan_of
from tests.builders.reports import report
from tests.builders.sockets import FakeSocket

NUMBERS = itertools.count(1)


class SentCell:
    """A cell on one process, which ends when a test, or an interrupt, has it end."""

    def __init__(self, process_id: int, code: str, label: str) -> None:
        self.process_id = process_id
        self.code = code
        self.label = label_from(label)
        self.begun = False
        self.reply: Any = Future()
        self.reply.msg_id = f"request-{next(NUMBERS)}"
        self.reply.iopub_callbacks = []
        self.reply.output = Future()
        self.reply.output.metadata = {"stdout": "", "stderr": "", "outputs": []}

    @property
    def ended(self) -> bool:
        return bool(self.reply.done())

    def say(self, kind: str, **content: Any) -> None:
        """A message of its output."""
        for take in self.reply.iopub_callbacks:
            take({"msg_type": kind, "content": content})

    def begin(self) -> None:
        """The process is in it."""
        self.begun = True
        self.say("execute_input")

    def finish(self, text: str = "") -> None:
        """It goes through, with this output."""
        if text:
            self.say("stream", name="stdout", text=text)
        self._end({"status": "ok"})

    def fail(self, name: str, value: str = "") -> None:
        """It raises this."""
        self._end(RemoteError(name, value, f"{name}: {value}", {"engine_id": self.process_id}))

    def _end(self, reply: Any) -> None:
        self.reply.output.set_result(None)
        if isinstance(reply, BaseException):
            self.reply.set_exception(reply)
        else:
            self.reply.set_result(reply)


class LiveClient(FakeClient):
    """ipyparallel's client, as far as cells need it."""

    def __init__(self, hosts: LiveHosts) -> None:
        super().__init__(hosts)
        self._live = hosts
        self.listening: list[str] = []

    def __getitem__(self, engine: int) -> Any:
        view = super().__getitem__(engine)
        view._socket = "the channel to all"
        return view

    def send_execute_request(
        self,
        socket: str,
        code: str,
        *,
        ident: bytes,
        message_future_hook: Callable[[Any], None],
        metadata: dict[str, str],
        **_: Any,
    ) -> Any:
        process_id = int(ident.decode().removeprefix("engine-"))
        return self._live.submit(process_id, code, metadata["label"], message_future_hook)

    def abort(self, requests: list[str], **_: Any) -> Any:
        """Each process says whether it has begun what is taken back."""
        cells = [cell for cell in self._live.sent if cell.reply.msg_id in requests]
        reply: Any = Future()
        taken = [cell.reply.msg_id for cell in cells if cell.begun]
        reply.set_result([{"content": {"taken": taken}}])
        return reply

    def listen(self, request: str, take: Any) -> None:
        self.listening.append(request)


class LiveHosts(FakeHosts):
    """Hosts whose processes report when they are asked to, and run cells.

    `runs` is what a process does with a cell; all finish it at once where a test does not say otherwise. `sent`
    are all the cells. `holds` are the arrays that a process reports. An interrupt raises
    `KeyboardInterrupt` in those that have not ended. `says` is what a process answers past its main thread to a
    question of a kind, None being silence.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(monkeypatch)
        self.socket = FakeSocket(self._no_message)
        monkeypatch.setattr(monitor, "subscriber", lambda *_: self._subscribe())
        monkeypatch.setattr(attached_cell, "subscriber", lambda *_: FakeSocket(self._no_message))
        monkeypatch.setattr(attached_cell, "ECHO_SECONDS", 0.0)
        self._wire = wire(CONNECTION)
        self._sequence = 0
        self._reads = 0
        self.published: list[Snapshot] = []
        self.sent: list[SentCell] = []
        self.says: dict[type[Aside[Any]], Callable[[int, Any], Answer | None]] = {}
        self.holds: dict[int, tuple[Any, ...]] = {}
        self.runs: Callable[[SentCell], None] = SentCell.finish
        self.client = LiveClient(self)
        monkeypatch.setattr(agent_handle, "LastingChild", self._kept_channel())
        self.answers |= {
            "initialize": lambda p, _: {
                "process_id": p,
                "version": "0.10.2",
                "everywhere": 4,
                "ports": [8000 + p],
            },
            "meet": lambda p, _: {},
            "prove": lambda p, _: Proven(passed=True, alike=True),
            "step": lambda p, _: trail(sent()),
            "versions": lambda p, _: Versions(versions={}, reasons={}, unnamed=(), generation=0),
            "complete": lambda p, _: Completions(text="", matches=()),
            "recall": self._recall,
            "refuse_earlier": lambda p, _: {},
            "let_go": lambda p, _: {},
            "look": self._look,
        }

    def _look(self, process_id: int, arguments: dict[str, Any]) -> dict[str, Any]:
        self._sequence += 1
        arrays = self.holds.get(process_id, ())
        content = encode(report(process_id, *arrays, sequence=self._sequence))
        self._publish("nbdist_report", content)
        return {"sequence": self._sequence}

    @staticmethod
    def _no_message(milliseconds: int) -> None:
        time.sleep(0.0005)

    def _subscribe(self) -> FakeSocket:
        self.socket = FakeSocket(self._read_all)
        return self.socket

    def _read_all(self, milliseconds: int) -> None:
        self._reads += 1
        self._no_message(milliseconds)

    def _recall(self, process_id: int, arguments: dict[str, Any]) -> Callable[[], Any]:
        (cell,) = [one for one in self.sent if one.reply.msg_id == arguments["request"]]

        def answer() -> Recalled | None:
            if not cell.ended:
                return None
            failed = cell.reply.exception()
            error = None if failed is None else f"{failed.ename}: {failed.evalue}"
            end = CellEnd(request=arguments["request"], error=error, time=time.time())
            return Recalled(end=end, kept=Kept(messages=(), lost={}))

        return answer

    def _publish(self, kind: str, content: Any) -> None:
        message = self._wire.msg(kind, content)
        self.socket.put([b"nbdist.0", *self._wire.serialize(message)])
        before = self._reads
        # It has been handled when the monitor has looked for the next in vain; no time limit begins before that.
        while not self.socket.closed and self._reads < before + 2:
            time.sleep(0.0005)

    def begin(self, *names: str, **options: Any) -> EngineGroup:
        cluster = self.spawn(plan_of(*names, **options))
        group = EngineGroup.begin(cluster, progress=self.receive, publish=self.published.append)
        self.started.append(group)
        return group

    def session(self, *names: str, rules: Rules | None = None, **options: Any) -> Session:
        """A session of such a start; `keep` as an option has it outlive its kernel."""
        cluster = self.spawn(plan_of(*names, **options))
        session = Session(cluster, rules=rules or Rules(grace_s=0.0), progress=self.receive)
        self.started.append(SimpleNamespace(stop=session.shutdown))
        return session

    def attach(self, session: Session, **changes: Any) -> Session:
        """Another session of the same processes, which the first has left."""
        cluster = session._life.engines.cluster
        self.client = LiveClient(self)
        self.client.processes = {engine: p for p, engine in cluster.engines.items()}
        rules = changes.pop("rules", Rules(grace_s=0.0))
        again = replace(cluster, client=self.client, began=time.monotonic(), **changes)
        made = Session(again, rules=rules, progress=self.receive)
        self.started.append(SimpleNamespace(stop=made.shutdown))
        return made

    def cells(self, process_id: int) -> list[SentCell]:
        """Those that a process was sent."""
        return [cell for cell in self.sent if cell.process_id == process_id]

    def recorded(self) -> list[registry.Record]:
        """The sessions that are written down."""
        found = (registry.read(path) for path in registry.folder().glob("*.json"))
        return [record for record in found if record is not None]

    def _kept_channel(self) -> type[FakeChannel]:
        hosts = self

        class KeptChannel(FakeChannel):
            """A channel to an agent that outlives the kernel."""

            spot = None

            def __init__(self, command: Any, environment: Any, log: Path, *, first: bytes) -> None:
                super().__init__(hosts._name(log), log, hosts._obey, hosts.clock.sleep)
                hosts.agents[self.name] = self
                self.kept = False
                self.send(first)

            def keep(self) -> None:
                self.kept = True

        return KeptChannel

    def submit(self, process_id: int, code: str, label: str, hook: Callable[[Any], None]) -> Any:
        """A process is sent a cell."""
        cell = SentCell(process_id, code, label)
        hook(cell.reply)
        if all(other.ended for other in self.cells(process_id)):
            cell.begin()
        self.sent.append(cell)
        self.runs(cell)
        return cell.reply

    def _obey(self, agent: FakeChannel, order: Order) -> None:
        question = question_from(order["question"]) if order["order"] == "ask" else None
        if question is not None and answer_type(type(question.aside)) is not None:
            started = [p["process_id"] for o in agent.ordered("start") for p in o["processes"]]
            for process_id in sorted({*started}.intersection(order["process_ids"])):
                answer = self.says[type(question.aside)](process_id, question.aside)
                if answer is not None:
                    said = AsideAnswer(process_id=process_id, number=question.number, answer=answer)
                    self._publish(*content_of(said))
            return
        super()._obey(agent, order)

    def _signal(self, agent: FakeChannel, order: Order) -> None:
        if order["number"] != signal.SIGINT:
            super()._signal(agent, order)
            return
        for cell in self.sent:
            if cell.process_id in order["process_ids"] and cell.begun and not cell.ended:
                cell.fail("KeyboardInterrupt")

    def asked_of(self, name: str) -> dict[int, dict[str, Any]]:
        return {p: arguments for p, asked, arguments in self.asked if asked == name}
