"""A request to one engine: how it is sent, and what its answer is or raises."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from ipyparallel.error import NoEnginesRegistered, RemoteError, TaskAborted

from nbdist.contract.calls.engine import Look, Looked
from nbdist.errors import (
    ArrayError,
    GoneError,
    NotRunError,
    SessionError,
    WireError,
)
from nbdist.launch.start.pending import Pending, Repeated, ask

LOOK = Look(timeout_s=0.5)


def failed(name: str) -> Pending[Looked]:
    def get(timeout_s: float | None) -> Any:
        raise RemoteError(name, "it says why", "", {})

    return Pending(LOOK, SimpleNamespace(get=get, ready=lambda: True), "process 1 (host h1)")


def test_a_process_that_has_ended_is_not_taken_for_one_that_failed() -> None:
    with pytest.raises(GoneError, match=r"^process 1 \(host h1\) has ended\.$"):
        failed("EngineError").get()
    with pytest.raises(SessionError) as raised:
        failed("TypeError").get()
    assert type(raised.value) is SessionError


@pytest.mark.parametrize(
    "raised",
    [IndexError("No such engine: 1"), KeyError(1), NoEnginesRegistered("Can't build targets")],
)
def test_a_process_whose_engine_leaves_while_it_is_asked_has_ended(raised: Exception) -> None:
    class Leaving:
        def set_flags(self, **_: Any) -> Leaving:
            return self

        def apply_async(self, *_: Any) -> Any:
            raise raised

    request = ask({1: Leaving()}, 1, LOOK, where="process 1 (host h1)")
    assert request.ready()
    request.wait(60)
    with pytest.raises(GoneError, match=r"^process 1 \(host h1\) has ended\.$"):
        request.get()


def answering(content: Any, *buffers: bytes) -> Pending[Looked]:
    found = [json.dumps(content), *buffers]
    there = SimpleNamespace(get=lambda timeout_s: found, ready=lambda: True)
    return Pending(LOOK, there, "process 1 (host h1)")


def test_an_answer_comes_with_its_buffers_and_says_whether_others_devices_were_used() -> None:
    request = answering({"ok": {"sequence": 1}}, b"raw")
    assert request.get() == (Looked(sequence=1), [b"raw"])
    assert not request.computed
    request = answering({"ok": {"sequence": 2}, "computed": True})
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
    view = SimpleNamespace(apply_async=lambda *given: sent.append(given))
    flags: list[Any] = []
    before = SimpleNamespace(set_flags=lambda **given: flags.append(given) or view)
    ask({7: before}, 7, LOOK, b"raw")
    ((call, buffer),) = sent
    assert (call.name, json.loads(call.arguments), buffer) == (
        "look",
        {"timeout_s": 0.5, "again": False},
        b"raw",
    )
    assert flags == [{"label": call.label}]


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ({"ok": {"sequence": "7"}}, "Looked.sequence: expected int, got str."),
        ({"ok": {}}, "Looked: object missing required field sequence."),
        ({"ok": {"sequence": 7, "more": 1}}, "Looked: object contains unknown field more."),
        ({"ok": None}, "Looked: expected object, got null."),
        ({"well": {}}, "Reply: object contains unknown field well."),
        ({"error": "no such array"}, "Reply.error: expected object | null, got str."),
        ([1, 2], "Reply: expected object, got array."),
    ],
)
def test_an_answer_of_a_wrong_shape_is_one_error_that_names_the_process_and_the_place(
    content: Any, text: str
) -> None:
    with pytest.raises(WireError) as raised:
        answering(content).get()
    assert str(raised.value).startswith(
        "process 1 (host h1) has answered 'look' in another shape than this kernel reads: "
    )
    assert text in str(raised.value)


def test_that_an_engine_could_not_take_a_call_is_said_with_the_process() -> None:
    text = "Look.timeout_s: expected float, got str."
    with pytest.raises(WireError) as raised:
        answering({"error": {"type": "WireError", "text": text}}).get()
    assert str(raised.value) == f"process 1 (host h1) could not take or answer 'look': {text}"


def test_a_call_that_cannot_be_sent_is_an_error_before_anything_is() -> None:
    view = SimpleNamespace(set_flags=lambda **_: pytest.fail("something was sent"))
    with pytest.raises(WireError, match=r"^Look cannot be sent: "):
        ask({7: view}, 7, Look(timeout_s=float("inf")))


class Asked:
    """What ipyparallel gives for one request: an answer, an error, or None while there is neither."""

    def __init__(self, stands: Any = None) -> None:
        self.stands = stands

    def ready(self) -> bool:
        return self.stands is not None

    def wait(self, timeout_s: float) -> None:
        """The test says when."""

    def get(self, timeout_s: float | None) -> Any:
        if isinstance(self.stands, Exception):
            raise self.stands
        return self.stands


ANSWER = [json.dumps({"ok": {"sequence": 1}})]


@pytest.mark.parametrize(
    ("stands", "answered"),
    [
        (None, False),
        (RemoteError("EngineError", "it died", "", {}), False),
        (RemoteError("KeyError", "'x'", "", {}), True),
        (TaskAborted("before it began"), True),
        (ANSWER, True),
    ],
)
def test_one_that_has_ended_has_not_answered(stands: Any, answered: bool) -> None:
    assert Pending(LOOK, Asked(stands), "process 1").answered() is answered


@pytest.mark.parametrize(
    ("stands", "raised"),
    [
        (TaskAborted("before it began"), NotRunError),
        (RemoteError("TaskAborted", "m", "", {}), NotRunError),
        (RemoteError("EngineError", "it died", "", {}), GoneError),
        (RemoteError("WireError", "no data", "", {}), WireError),
        (RemoteError("KeyError", "'x'", "", {}), SessionError),
    ],
)
def test_each_way_not_to_answer_is_an_error_of_its_own_class(
    stands: Exception, raised: type[Exception]
) -> None:
    with pytest.raises(raised, match="process 1") as found:
        Pending(LOOK, Asked(stands), "process 1").get()
    assert type(found.value) is raised


class Lossy:
    """A client of one engine: what becomes of its requests, in turn; an exception is raised instead of sending."""

    def __init__(self, *becomes: Any) -> None:
        self.becomes = list(becomes)

    def __getitem__(self, engine: int) -> Lossy:
        return self

    def set_flags(self, **_: Any) -> Lossy:
        return self

    def apply_async(self, *_: Any) -> Any:
        next_one = self.becomes.pop(0)
        if isinstance(next_one, Exception):
            raise next_one
        return next_one


def test_what_is_lost_on_its_way_is_sent_again_and_any_answer_counts() -> None:
    first, second = Asked(), Asked()
    repeated = Repeated(Lossy(first, second), 1, LOOK, again_s=0.0)
    assert repeated.answer(within_s=0.0) is None
    first.stands = ANSWER
    answer = repeated.answer(within_s=0.0)
    assert answer is not None and answer.get()[0] == Looked(sequence=1)


def test_nothing_is_sent_again_before_its_time() -> None:
    client = Lossy(Asked(), Asked())
    repeated = Repeated(client, 1, LOOK, again_s=3600.0)
    assert [repeated.answer(within_s=0.0) for _ in range(3)] == [None] * 3
    assert len(client.becomes) == 1


def test_an_engine_that_is_not_there_yet_is_asked_again_and_has_not_answered() -> None:
    client = Lossy(IndexError("No such engine: 1"), Asked(ANSWER))
    repeated = Repeated(client, 1, LOOK, again_s=0.0)
    assert repeated.answer(within_s=0.001) is None
    assert repeated.answer(within_s=0.001) is not None
