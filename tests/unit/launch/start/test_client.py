"""ipyparallel's client hands on what comes of requests that it has forgotten, and only that."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ipyparallel
import pytest
from ipyparallel.serialize import deserialize_object, serialize_object
from jupyter_client.session import DELIM, Session

from nbdist.launch.start import client as ours
from nbdist.launch.start.client import Client, is_data, request_of

KEY = b"secret"


class Bare(Client):
    """A client without sockets; what ipyparallel itself takes is kept."""

    def __init__(self) -> None:
        self.taken: list[Any] = []
        self._listeners = ours.OrderedDict()
        self._late = ours.MessageGuard("Late output", ours.logger)
        self._published = ours.MessageGuard("Published data", ours.logger)
        self._reader = Session(key=KEY)
        self.known: dict[str, Any] = {}
        self.collected: dict[str, Any] = {"r": "all that was printed"}

    @property
    def _futures(self) -> dict[str, Any]:  # type: ignore[override]
        return self.known

    @property
    def metadata(self) -> dict[str, Any]:  # type: ignore[override]
        return self.collected


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Bare:
    monkeypatch.setattr(
        ipyparallel.Client, "_dispatch_iopub", lambda self, frames: self.taken.append(frames)
    )
    return Bare()


def frames(text: str, *, request: str = "r", key: bytes = KEY) -> list[bytes]:
    wire = Session(key=key)
    parent = {"msg_id": request, "session": "s"}
    message = wire.msg("stream", {"name": "stdout", "text": text}, parent=parent)
    return [b"engine.0.stdout", *wire.serialize(message)]


def test_late_messages_are_handed_on_and_not_collected(client: Bare) -> None:
    received: list[str] = []
    client.listen("r", lambda message: received.append(message["content"]["text"]))
    for text in ("one", "two"):
        client._dispatch_iopub([SimpleFrame(part) for part in frames(text)])
    assert received == ["one", "two"]
    assert len(client.taken) == 2
    assert client.collected == {}


class SimpleFrame(bytes):
    """As zmq gives frames: something that `bytes` can be made of."""


def test_messages_that_ipyparallel_still_waits_for_are_its_own(client: Bare) -> None:
    received: list[Any] = []
    client.listen("r", received.append)
    client.known["r"] = SimpleNamespace()
    client._dispatch_iopub(frames("one"))
    client._dispatch_iopub(frames("two", request="another"))
    assert received == []
    assert len(client.taken) == 2


def test_forged_and_broken_messages_and_failing_listeners_end_nothing(client: Bare) -> None:
    received: list[str] = []

    def take(message: dict[str, Any]) -> None:
        received.append(message["content"]["text"])
        raise RuntimeError("a fault of whoever listens")

    client.listen("r", take)
    for bad in (frames("x", key=b"wrong"), [], [b"engine"], [DELIM], [b"a", DELIM, b"", b"", b"{"]):
        client._dispatch_iopub(bad)
    client._dispatch_iopub(frames("one"))
    client._dispatch_iopub(frames("two"))
    assert received == ["one", "two"]
    assert len(client.taken) == 7


def test_without_the_private_name_nothing_counts_as_late(
    client: Bare, monkeypatch: pytest.MonkeyPatch
) -> None:
    received: list[Any] = []
    client.listen("r", received.append)
    monkeypatch.delattr(Bare, "_futures")
    monkeypatch.delattr(ipyparallel.Client, "_futures")
    client._dispatch_iopub(frames("one"))
    assert (received, len(client.taken)) == ([], 1)


def test_the_private_names_are_what_ipyparallel_has() -> None:
    assert callable(ipyparallel.Client._dispatch_iopub)
    assert callable(ipyparallel.Client._handle_apply_reply)
    assert callable(ipyparallel.Client._handle_execute_reply)
    assert callable(ipyparallel.Client._extract_metadata)
    assert "_futures" in ipyparallel.Client.class_trait_names()


def test_only_the_newest_requests_are_listened_for(
    client: Bare, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ours, "MOST_REQUESTS", 2)
    received: list[Any] = []
    for request in ("r", "s", "t"):
        client.listen(request, received.append)
    client._dispatch_iopub(frames("one"))
    assert received == []
    client._dispatch_iopub(frames("two", request="s"))
    assert len(received) == 1


@pytest.mark.parametrize("parent", [[], "r", {"msg_id": 3}, {}, None])
def test_a_parent_of_a_wrong_shape_is_no_request(parent: Any) -> None:
    assert request_of([DELIM, b"", b"{}", json.dumps(parent).encode(), b"{}", b"{}"]) is None


class Planted:
    """Makes a file where it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


def answered(client: Bare, buffers: list[Any]) -> tuple[str, Any]:
    """What becomes of an answer: its status, and what ipyparallel has read, or the text of the error."""
    client.known["r"] = SimpleNamespace()
    message = {
        "content": {"status": "ok"},
        "parent_header": {"msg_id": "r"},
        "buffers": [memoryview(buffer) for buffer in buffers],
    }
    client._handle_apply_reply(message)
    (given,) = client.taken
    client.taken.clear()
    content = given["content"]
    if content["status"] == "ok":
        return "ok", deserialize_object(given["buffers"])[0]
    return content["ename"], content["evalue"]


@pytest.fixture
def answers(client: Bare, monkeypatch: pytest.MonkeyPatch) -> Bare:
    monkeypatch.setattr(
        ipyparallel.Client, "_handle_apply_reply", lambda self, message: self.taken.append(message)
    )
    return client


def test_answers_are_text_and_buffers_large_and_small(answers: Bare) -> None:
    for size in (0, 1, 1 << 20):
        status, (text, buffer) = answered(answers, [b'{"ok": {}}', bytes(size)])
        assert (status, text, bytes(buffer)) == ("ok", '{"ok": {}}', bytes(size))


def test_an_engine_without_nbdist_answers_plain_data(answers: Bare) -> None:
    assert answered(answers, serialize_object("h1")) == ("ok", "h1")
    assert answered(answers, serialize_object(['{"ok": 1}'])) == ("ok", ['{"ok": 1}'])


@pytest.mark.parametrize("wrap", [lambda it: it, lambda it: [it], lambda it: {"a": it}])
def test_an_answer_that_would_run_something_is_refused_and_runs_nothing(
    answers: Bare, tmp_path: Path, wrap: Callable[[Any], Any]
) -> None:
    path = tmp_path / "planted"
    buffers = serialize_object(wrap(Planted(path)))
    status, text = answered(answers, buffers)
    assert status == "WireError" and "in this notebook's kernel; it was refused" in text
    assert not path.exists()
    deserialize_object(buffers)
    assert path.exists()  # where ipyparallel reads it, it runs


@pytest.mark.parametrize("buffers", [[], [b""], [b"\x80\x05"], [b"{\xff"], [b"junk"]])
def test_an_answer_of_a_wrong_shape_fails_its_request(answers: Bare, buffers: list[bytes]) -> None:
    assert answered(answers, buffers)[0] == "WireError"


def test_replies_to_the_client_of_another_controller_are_left_out(
    answers: Bare, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        ipyparallel.Client,
        "_handle_execute_reply",
        lambda self, message: self.taken.append(message),
    )
    message = {
        "content": {"status": "ok"},
        "parent_header": {"msg_id": "of another"},
        "buffers": [],
    }
    answers._handle_apply_reply(message)
    answers._handle_execute_reply(message)
    assert answers.taken == []
    answers.known["of another"] = SimpleNamespace()
    answers._handle_execute_reply(message)
    assert answers.taken == [message]


def test_published_data_is_left_out(client: Bare, tmp_path: Path) -> None:
    path = tmp_path / "planted"
    wire = Session(key=KEY)
    message = wire.msg("data_message", {}, parent={"msg_id": "r", "session": "s"})
    published = [
        b"engine.0.data",
        *wire.serialize(message),
        *serialize_object({"a": Planted(path)}),
    ]
    client._dispatch_iopub(published)
    assert client.taken == [] and not path.exists()
    for text in ("one", "data_message"):
        client._dispatch_iopub(frames(text))
    assert len(client.taken) == 2


@pytest.mark.parametrize("header", [b"data_message", b'"data_message"', b'["data_message"]', b"{}"])
def test_what_only_looks_like_published_data_is_none(header: bytes) -> None:
    assert not is_data([b"topic", DELIM, b"", header, b"{}", b"{}", b"{}"])
    assert not is_data([b"topic", DELIM, b""])
    assert not is_data([b"topic"])


def test_a_client_whose_thread_waits_for_ever_is_closed_all_the_same(
    client: Bare, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    closing: list[Any] = []
    for_ever = threading.Event()

    def close(self: Any, linger: int | None = None) -> None:
        closing.append(linger)
        for_ever.wait()

    monkeypatch.setattr(ours, "CLOSE_SECONDS", 0.01)
    monkeypatch.setattr(ipyparallel.Client, "close", close)
    client.close(linger=3)
    client.close()  # as when it is collected
    for_ever.set()
    assert closing == [3]
    assert "within 0.01 s" in caplog.text


@pytest.mark.parametrize("aware", ["2026-03-01T10:20:30.123456+00:00", "2026-03-01T10:20:30Z"])
@pytest.mark.filterwarnings("ignore:Interpreting na:DeprecationWarning")
def test_when_a_request_was_begun_is_what_ipyparallel_reads(aware: str) -> None:
    client = ours.Client.__new__(ours.Client)
    for started in (aware, aware[:19], "yesterday", None):
        message = {
            "header": {"date": "now"},
            "parent_header": {"msg_id": "r", "date": "before"},
            "metadata": {"started": started, "label": "x"},
            "content": {"status": "ok"},
        }
        theirs = ipyparallel.Client._extract_metadata(client, message)
        found = client._extract_metadata(message)
        assert {**found, "received": None} == {**theirs, "received": None}
        assert found["started"] == theirs["started"]
        assert message["metadata"] == {"started": started, "label": "x"}
