"""ipyparallel's client hands on what comes of requests that it has forgotten, and only that."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import ipyparallel
import pytest
from jupyter_client.session import DELIM, Session

from nbdist.launch.start import client as ours
from nbdist.launch.start.client import Client, request_of

KEY = b"secret"


class Bare(Client):
    """A client without sockets; what ipyparallel itself takes is kept."""

    def __init__(self) -> None:
        self.taken: list[Any] = []
        self._listeners = ours.OrderedDict()
        self._late = ours.MessageGuard("Late output", ours.logger)
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
    heard: list[str] = []
    client.listen("r", lambda message: heard.append(message["content"]["text"]))
    for text in ("one", "two"):
        client._dispatch_iopub([SimpleFrame(part) for part in frames(text)])
    assert heard == ["one", "two"]
    assert len(client.taken) == 2
    assert client.collected == {}


class SimpleFrame(bytes):
    """As zmq gives frames: something that `bytes` can be made of."""


def test_messages_that_ipyparallel_still_waits_for_are_its_own(client: Bare) -> None:
    heard: list[Any] = []
    client.listen("r", heard.append)
    client.known["r"] = SimpleNamespace()
    client._dispatch_iopub(frames("one"))
    client._dispatch_iopub(frames("two", request="another"))
    assert heard == []
    assert len(client.taken) == 2


def test_forged_and_broken_messages_and_failing_listeners_end_nothing(client: Bare) -> None:
    heard: list[str] = []

    def take(message: dict[str, Any]) -> None:
        heard.append(message["content"]["text"])
        raise RuntimeError("a fault of whoever listens")

    client.listen("r", take)
    for bad in (frames("x", key=b"wrong"), [], [b"engine"], [DELIM], [b"a", DELIM, b"", b"", b"{"]):
        client._dispatch_iopub(bad)
    client._dispatch_iopub(frames("one"))
    client._dispatch_iopub(frames("two"))
    assert heard == ["one", "two"]
    assert len(client.taken) == 7


def test_without_the_private_name_nothing_counts_as_late(
    client: Bare, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[Any] = []
    client.listen("r", heard.append)
    monkeypatch.delattr(Bare, "_futures")
    monkeypatch.delattr(ipyparallel.Client, "_futures")
    client._dispatch_iopub(frames("one"))
    assert (heard, len(client.taken)) == ([], 1)


def test_the_private_names_are_what_ipyparallel_has() -> None:
    assert callable(ipyparallel.Client._dispatch_iopub)
    assert "_futures" in ipyparallel.Client.class_trait_names()


def test_only_the_newest_requests_are_listened_for(
    client: Bare, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ours, "MOST_REQUESTS", 2)
    heard: list[Any] = []
    for request in ("r", "s", "t"):
        client.listen(request, heard.append)
    client._dispatch_iopub(frames("one"))
    assert heard == []
    client._dispatch_iopub(frames("two", request="s"))
    assert len(heard) == 1


@pytest.mark.parametrize("parent", [[], "r", {"msg_id": 3}, {}, None])
def test_a_parent_of_a_wrong_shape_is_no_request(parent: Any) -> None:
    assert request_of([DELIM, b"", b"{}", json.dumps(parent).encode(), b"{}", b"{}"]) is None
