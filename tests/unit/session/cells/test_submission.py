"""A cell is sent to several engines: in order, with all numbers known before, and as far as there are engines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest

from nbdist.session.cells import submission
from nbdist.session.cells.submission import Recipient, submit

Log = list[tuple[str, Any]]


class FakeClient:
    """ipyparallel's client: a request has its number, then its hook is called, then it is sent.

    Engines 8 and 9 have left, 8 while it is asked for. `log` has what happens, in order.
    """

    def __init__(self, log: Log, *, socket: str | None = "mux") -> None:
        self.log = log
        self._view = SimpleNamespace(execute=self._execute)
        if socket is not None:
            self._view._socket = socket
        self._numbers = count()
        self.ids = range(9)

    def __getitem__(self, engine: int) -> Any:
        if engine >= 8:
            raise IndexError(f"No such engine: {engine}")
        return self._view

    def send_execute_request(
        self, socket: str, code: str, *, ident: bytes, message_future_hook: Any, **_: Any
    ) -> Any:
        future: Any = Future()
        future.msg_id, future.iopub_callbacks = f"m{next(self._numbers)}", []
        future.output = Future()
        future.output.metadata = {"stdout": "", "stderr": "", "outputs": []}
        message_future_hook(future)
        self.log.append(("sent", ident.decode()))
        return future

    def _execute(self, code: str, **_: Any) -> Any:
        result: Any = Future()
        result.msg_ids = [f"m{next(self._numbers)}"]
        self.log.append(("executed", result.msg_ids[0]))
        return result


@pytest.fixture
def log() -> Log:
    return []


def send(client: FakeClient, engines: Mapping[int, int], take: Callable[..., None] = print) -> Any:
    recipients = {p: Recipient(e, str(p).encode(), take) for p, e in engines.items()}
    noted = lambda requests: client.log.append(("noted", requests))  # noqa: E731
    return submit(client, recipients, "x = 1", "label", noted)


def test_all_numbers_are_known_before_the_first_is_sent_and_the_first_is_sent_first(
    log: Log,
) -> None:
    sent = send(FakeClient(log), {0: 0, 1: 1, 2: 2})
    assert list(sent) == [0, 1, 2]
    numbers = {p: one.future.msg_id for p, one in sent.items()}
    assert log == [("noted", numbers), ("sent", "0"), ("sent", "1"), ("sent", "2")]


def test_many_are_sent_in_parts_each_noted_before_it(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submission, "MOST_AT_ONCE", 2)
    send(FakeClient(log), {p: p for p in range(3)})
    assert [(kind, sorted(what)) for kind, what in log if kind == "noted"] == [
        ("noted", [0, 1]),
        ("noted", [0, 1, 2]),
    ]
    assert [what if kind == "sent" else kind for kind, what in log] == (
        ["noted", "0", "1", "noted", "2"]
    )


def test_as_many_as_are_sent_at_once_leave_room_on_the_stack(log: Log) -> None:
    send(FakeClient(log), dict.fromkeys(range(300), 0))
    assert [what for kind, what in log if kind == "sent"] == [str(p) for p in range(300)]


def test_one_to_an_engine_that_has_left_fails_and_the_others_are_sent(log: Log) -> None:
    sent = send(FakeClient(log), {0: 0, 1: 9, 2: 2})
    assert isinstance(sent[1].error(), IndexError)
    assert sent[1].replied and sent[1].output.done()
    assert [what for kind, what in log if kind == "sent"] == ["0", "2"]
    assert [sorted(what) for kind, what in log if kind == "noted"] == [[0, 2]]


def test_where_all_have_left_nothing_is_sent(log: Log) -> None:
    sent = send(FakeClient(log), {0: 9, 1: 9})
    assert [type(one.error()) for one in sent.values()] == [IndexError, IndexError]
    assert log == []


@pytest.mark.parametrize("socket", ["mux", None])
def test_one_that_leaves_while_it_is_asked_for_keeps_no_other_from_getting_the_cell(
    log: Log, socket: str | None
) -> None:
    sent = send(FakeClient(log, socket=socket), {0: 8, 1: 1})
    assert sorted(sent) == [0, 1]
    assert [kind for kind, _ in log if kind != "noted"] == (
        ["sent", "sent"] if socket else ["executed"]
    )


def test_without_the_private_channel_cells_run_and_are_noted_before_and_after(log: Log) -> None:
    sent = send(FakeClient(log, socket=None), {0: 0, 1: 1})
    assert list(sent) == [0, 1]
    assert log == [
        ("noted", {}),
        ("executed", "m0"),
        ("noted", {0: "m0"}),
        ("executed", "m1"),
        ("noted", {0: "m0", 1: "m1"}),
    ]


def test_each_takes_its_own_messages_and_ipyparallel_keeps_none(log: Log) -> None:
    taken: list[Any] = []
    (sent,) = send(FakeClient(log), {0: 0}, taken.append).values()
    sent.output.metadata["outputs"].append("a copy")
    for callback in sent.future.iopub_callbacks:
        callback({"msg_type": "stream"})
    assert taken == [{"msg_type": "stream"}]
    assert sent.output.metadata["outputs"] == []
