"""Output of cells that another kernel has sent: each message once and in order, whichever way it comes."""

from __future__ import annotations

import time
from typing import Any

import zmq

from nbdist.contract.iopub import Kept, KeptMessage
from nbdist.launch.start.client import wire
from nbdist.session.cells.attached_cell import ForeignOutput

CONNECTION = {"key": "secret", "signature_scheme": "hmac-sha256"}


class Engine:
    """Two processes that publish, and a kernel that listens to requests `a` and `b` of theirs."""

    def __init__(self) -> None:
        self.reports: list[tuple[int, str]] = []
        self.wire = wire(CONNECTION)
        self.kept: dict[str, list[KeptMessage]] = {"a": [], "b": []}
        self.overheard = ForeignOutput(
            CONNECTION,
            {"a": 0, "b": 1},
            lambda p, m: self.reports.append((p, m["content"]["text"])),
        )

    def publish(self, request: str, text: str, *, live: bool = True, key: str = "secret") -> None:
        content = {"name": "stdout", "text": text}
        message = self.wire.msg("stream", content, parent={"msg_id": request})
        if request in self.kept:
            name = message["header"]["msg_id"]
            self.kept[request].append(
                KeptMessage(id=name, parent=request, kind="stream", content=content)
            )
        if live:
            sender = wire({**CONNECTION, "key": key})
            self.overheard._receive([b"engine.0.stdout", *sender.serialize(message)])

    def echo(self, request: str, *, lost: int = 0) -> None:
        kept = Kept(messages=tuple(self.kept[request]), lost={request: lost} if lost else {})
        self.overheard.echo({"a": 0, "b": 1}[request], kept)


def test_what_was_before_comes_first_and_nothing_comes_twice() -> None:
    engine = Engine()
    engine.publish("a", "one", live=False)
    engine.publish("a", "two")  # heard before the echo that has it, too
    assert engine.reports == []
    engine.echo("a")
    engine.publish("a", "three")
    engine.echo("a")  # the answer to how it ended has all of it again
    assert engine.reports == [(0, "one"), (0, "two"), (0, "three")]


def test_what_comes_between_the_echo_and_its_arrival_is_not_lost() -> None:
    engine = Engine()
    engine.publish("a", "one")
    kept = Kept(messages=tuple(engine.kept["a"]), lost={})
    engine.publish("a", "two")
    engine.overheard.echo(0, kept)
    assert engine.reports == [(0, "one"), (0, "two")]


def test_processes_do_not_wait_for_each_other_and_in_the_end_for_nobody() -> None:
    engine = Engine()
    engine.publish("a", "a1")
    engine.publish("b", "b1")
    engine.echo("b", lost=3)
    assert (engine.reports, engine.overheard.waiting) == ([(1, "b1")], (0,))
    assert engine.overheard.lost == {1: 3}
    engine.overheard.go_on()
    engine.publish("a", "a2")
    assert engine.reports == [(1, "b1"), (0, "a1"), (0, "a2")]


def test_other_requests_and_messages_of_strangers_are_not_heard() -> None:
    engine = Engine()
    engine.overheard.go_on()
    engine.publish("c", "of another cell")
    engine.publish("a", "forged", key="wrong")
    assert engine.reports == []


def test_messages_of_a_wrong_shape_are_named_once_and_the_next_are_taken() -> None:
    engine = Engine()
    said: list[str] = []
    engine.overheard = ForeignOutput(
        CONNECTION,
        {"a": 0, "b": 1},
        lambda p, m: engine.reports.append((p, m["content"]["text"])),
        said.append,
    )
    engine.overheard.go_on()
    for content in ({"process_id": 0}, {}, {"process_id": 0, "messages": 3, "lost": []}):
        message = engine.wire.msg("nbdist_echo", content)
        with engine.overheard._guard:
            engine.overheard._receive([b"echo.0", *engine.wire.serialize(message)])
    engine.kept["a"].append(KeptMessage(id="1", parent="a", kind="stream", content={}))
    engine.publish("a", "one", live=False)
    engine.echo("a")
    assert engine.reports == [(0, "one")]
    assert said
    assert all("could not be handled" in text for text in said)
    assert engine.overheard.waiting == ()


def test_the_thread_reads_on_after_a_message_it_could_not_take() -> None:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    socket = context.socket(zmq.PUB)
    port = socket.bind_to_random_port("tcp://127.0.0.1")
    engine = Engine()
    connection = {**CONNECTION, "interface": "tcp://127.0.0.1", "iopub": port}
    taken: list[str] = []

    def take(process_id: int, message: dict[str, Any]) -> None:
        taken.append(message["content"]["text"])
        if taken[-1] == "bad":
            raise RuntimeError("a fault of whoever shows it")

    overheard = ForeignOutput(connection, {"a": 0}, take)
    overheard.go_on()
    overheard.start()
    try:
        until = time.monotonic() + 10
        while taken[-1:] != ["good"] and time.monotonic() < until:
            for text in ("bad", "good"):
                message = engine.wire.msg("stream", {"text": text}, parent={"msg_id": "a"})
                socket.send_multipart([b"engine.0.stdout", *engine.wire.serialize(message)])
            time.sleep(0.05)
        assert "bad" in taken
        assert "good" in taken
    finally:
        overheard.stop()
        socket.close(0)
        context.term()
