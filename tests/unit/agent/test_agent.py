"""Threads on the engines, and the parent of a host: one message that cannot be handled is not the last."""

from __future__ import annotations

import io
import json
import os
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nbdist.agent import agent as host
from nbdist.agent.agent import Agent
from nbdist.agent.children import Children
from nbdist.agent.heartbeat import Pulse
from nbdist.contract.asides import Aside
from nbdist.contract.events import Events
from nbdist.engine.cell import descriptors, gloo
from nbdist.engine.cell.descriptors import Descriptors
from nbdist.engine.cell.echo import DELIMITER, Echo
from nbdist.engine.kernel.resident import Resident
from tests.unit.engine.cell.test_gloo import MESSAGE

WAIT_SECONDS = 10.0
ASSIGNMENT = {"cluster_id": "c", "preload": [], "fork": True, "environment": {}}


def wait_for(condition: Callable[[], object]) -> None:
    until = time.monotonic() + WAIT_SECONDS
    while not condition() and time.monotonic() < until:
        time.sleep(0.01)
    assert condition()


def frames(text: str, number: int = 1) -> list[bytes]:
    header = {"msg_id": f"m{number}", "msg_type": "stream"}
    parts = (header, {"msg_id": "r"}, {}, {"name": "stdout", "text": text})
    return [b"engine.0.stdout", DELIMITER, b"s", *(json.dumps(part).encode() for part in parts)]


class Publisher:
    """Stands for ipykernel's IOPubThread."""

    def __init__(self) -> None:
        self.sent: list[Any] = []

    def send_multipart(self, frames: Any) -> None:
        self.sent.append(frames)


def test_output_that_cannot_be_kept_is_shown_and_what_comes_next_is_kept() -> None:
    publisher = Publisher()
    echo = Echo(publisher)
    echo.install()
    for bad in (
        [b"engine.0.stdout", DELIMITER],
        [b"engine.0.x", DELIMITER, b"s", b"{", b"", b"", b""],
        ["text"],
    ):
        publisher.send_multipart(bad)
    publisher.send_multipart(frames("good"))
    assert len(publisher.sent) == 4
    assert [m["content"]["text"] for m in echo.of()["messages"]] == ["good"]


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file to which a process's descriptors lead."""
    file = tmp_path / "process-0.log"
    file.touch()
    monkeypatch.setenv("NBDIST_LOG", str(file))
    return file


def test_text_of_descriptors_comes_again_after_text_that_could_not_be_published(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(descriptors, "PERIOD_SECONDS", 0.01)
    published: list[str] = []

    def publish(text: str) -> None:
        published.append(text)
        if "bad" in text:
            raise RuntimeError("the socket is closed")

    Descriptors(publish).start()
    with log.open("a") as file:
        file.write("bad\n")
    wait_for(lambda: published == ["bad\n"])
    with log.open("a") as file:
        file.write("good\n")
    wait_for(lambda: published[-1] == "good\n")


@pytest.mark.parametrize("cut_at", [7, 30, len(MESSAGE) - 2])
def test_a_line_of_gloos_that_is_read_in_two_parts_is_left_out(log: Path, cut_at: int) -> None:
    published: list[str] = []
    reader = Descriptors(published.append)
    reader.start()
    for part in ("mine\n" + MESSAGE[:cut_at], MESSAGE[cut_at:] + "also mine"):
        with log.open("a") as file:
            file.write(part)
        reader.flush()
    wait_for(lambda: "".join(published) == "mine\nalso mine")


def test_a_line_that_only_looks_like_one_comes_when_no_more_does(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gloo, "REST_SECONDS", 0.0)
    published: list[str] = []
    reader = Descriptors(published.append)
    reader.start()
    log.write_text("my [Gloo] of")
    reader.flush()
    wait_for(lambda: published == ["my [Gloo] of"])


def test_a_question_that_could_not_be_answered_is_not_the_last_one() -> None:
    asked, ask = os.pipe()
    answers: list[str] = []

    def send(publisher: object, kind: str, **options: Any) -> None:
        answers.append(kind)
        if len(answers) == 1:
            raise RuntimeError("the socket is busy")

    resident = SimpleNamespace(
        probe=None,
        step=None,
        process_id=0,
        echo=SimpleNamespace(of=dict),
        kernel=SimpleNamespace(session=SimpleNamespace(send=send), iopub_socket=None),
    )
    resident._do = lambda asked: Resident._do(resident, asked)  # type: ignore[arg-type]
    resident._say_again = lambda: Resident._say_again(resident)  # type: ignore[arg-type]
    thread = threading.Thread(target=Resident._answer, args=(resident, asked))
    thread.start()
    for count in (1, 2):
        os.write(ask, Aside.REPEAT.encode())
        wait_for(lambda count=count: len(answers) == count)  # type: ignore[misc]
    os.close(ask)
    thread.join(WAIT_SECONDS)
    assert not thread.is_alive()
    os.close(asked)


@pytest.mark.parametrize(
    ("asked", "leaving", "waits", "in_threading", "cuts"),
    [
        (Aside.CUT, True, False, False, 1),
        (Aside.FREE, False, True, False, 1),
        (Aside.FREE, False, None, False, 1),  # where the system does not say
        (Aside.FREE, False, False, False, 0),
        (Aside.FREE, False, True, True, 0),
        (Aside.FREE, True, True, False, 0),
    ],
)
def test_what_a_signal_reaches_is_not_cut_but_for_a_repair(
    asked: Aside, leaving: bool, waits: bool | None, in_threading: bool, cuts: int
) -> None:
    cut: list[bool] = []
    resident = SimpleNamespace(
        step=SimpleNamespace(cut=lambda: cut.append(True)),
        interrupts=SimpleNamespace(leaving=leaving),
        _main_thread=SimpleNamespace(
            waits_for_a_thread=lambda: waits, waits_in_threading=lambda: in_threading
        ),
    )
    resident._is_out_of_reach = lambda: Resident._is_out_of_reach(resident)  # type: ignore[arg-type]
    Resident._do(resident, {asked})  # type: ignore[arg-type]
    assert len(cut) == cuts


class Parent(Agent):
    """A parent whose events are kept, and that has an assignment already."""

    def __init__(self) -> None:
        self.written = io.StringIO()
        events = Events(self.written)
        super().__init__(children=Children(events), events=events, orders=0)

    def said(self, kind: str) -> list[dict[str, Any]]:
        events = [json.loads(line) for line in self.written.getvalue().splitlines()]
        return [event for event in events if event["event"] == kind]


@pytest.mark.parametrize(
    "order",
    [
        b"{",
        b"\xff\xfe",
        b"null",
        b"3",
        b'{"start": 3}',
        b'{"sync": {}}',
    ],
)
def test_an_order_of_a_wrong_shape_is_told_and_the_next_is_obeyed(order: bytes) -> None:
    parent = Parent()
    parent.assignment = SimpleNamespace()  # type: ignore[assignment]
    parent._take(order + b'\n{"keep": 1}\n')
    assert parent.kept
    assert parent.unread == b""
    (fault,) = parent.said("fault")
    assert fault["text"].startswith(f"An order to the parent on {socket.gethostname()} could not")


def test_a_parent_that_cannot_read_what_it_is_for_ends() -> None:
    with pytest.raises(TypeError):
        Parent()._take(json.dumps({**ASSIGNMENT, "of another version": 1}).encode() + b"\n")


@pytest.mark.parametrize("listens", [True, False])
def test_a_parent_says_that_it_is_there_while_it_waits_for_a_service(
    listens: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "PERIOD_SECONDS", 0.01)
    parent = Parent()
    parent.pulse = Pulse(parent.events, 0, silence_s=WAIT_SECONDS)
    parent.pulse.period_s = 0.0
    ready, serving = os.pipe()

    def serve() -> None:
        wait_for(lambda: len(parent.said("alive")) > 1)
        if listens:
            os.write(serving, b"1")
        os.close(serving)

    thread = threading.Thread(target=serve)
    thread.start()
    assert parent._listens(ready) is listens
    thread.join()
    monkeypatch.setattr(host, "SERVES_SECONDS", 0.05)
    silent, nobody = os.pipe()
    assert not parent._listens(silent)
    for descriptor in (ready, silent, nobody):
        os.close(descriptor)
