"""A request to one engine: how it is sent, and what its answer is or raises."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from ipyparallel.error import RemoteError

from nbdist.errors import ArrayError, GoneError, SessionError
from nbdist.launch.start.request import Request, ask


def failed(name: str) -> Request:
    def get(timeout_s: float | None) -> Any:
        raise RemoteError(name, "it says why", "", {})

    return Request(SimpleNamespace(get=get), "process 1 (host h1)")


def test_a_process_that_has_ended_is_told_from_one_that_failed() -> None:
    with pytest.raises(GoneError, match=r"process 1 \(host h1\): EngineError: it says why"):
        failed("EngineError").get()
    with pytest.raises(SessionError) as raised:
        failed("TypeError").get()
    assert type(raised.value) is SessionError


def answering(content: dict[str, Any], *buffers: bytes) -> Request:
    found = [json.dumps(content), *buffers]
    return Request(SimpleNamespace(get=lambda timeout_s: found), "process 1 (host h1)")


def test_an_answer_comes_with_its_buffers_and_says_whether_others_devices_were_used() -> None:
    request = answering({"ok": {"x": 1}}, b"raw")
    assert request.get() == ({"x": 1}, [b"raw"])
    assert not request.computed
    request = answering({"ok": {}, "computed": True})
    request.get()
    assert request.computed


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        ({"type": "ArrayError", "text": "no such array"}, ArrayError, "no such array"),
        (
            {"type": "KeyError", "text": "'x'"},
            SessionError,
            "process 1 (host h1): KeyError: 'x'",
        ),
        # A name of the module that is no error of ours.
        (
            {"type": "annotations", "text": "t"},
            SessionError,
            "process 1 (host h1): annotations: t",
        ),
    ],
)
def test_what_an_engine_raised_is_raised_as_the_same_class_where_it_is_one_of_ours(
    error: dict[str, str], kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind) as raised:
        answering({"error": error}).get()
    assert (type(raised.value), str(raised.value)) == (kind, text)


def test_a_request_goes_to_the_one_engine_under_its_name_with_its_arguments() -> None:
    sent: list[Any] = []
    view = SimpleNamespace(targets=7, apply_async=lambda *given: sent.append(given))
    flags: list[Any] = []
    before = SimpleNamespace(targets=7, set_flags=lambda **given: flags.append(given) or view)
    ask(before, "look", b"raw", timeout_s=0.5)
    ((call, buffer),) = sent
    assert (call.name, json.loads(call.arguments), buffer) == ("look", {"timeout_s": 0.5}, b"raw")
    assert flags == [{"label": call.label}]
