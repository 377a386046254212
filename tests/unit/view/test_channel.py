"""The channel: broadcasts on iopub, answers what a front end asks, and repeats the outputs of running cells."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from types import SimpleNamespace
from typing import Any

import comm as comms
import pytest
from ipykernel.comm.comm import BaseComm

from nbdist.contract.page import COMM_ID, TARGET, AskValues, CellOutputs, Hello, read_request
from nbdist.contract.snapshot import Snapshot
from nbdist.contract.wire import encode
from nbdist.errors import SessionError
from nbdist.view.channel import (
    BYTES_PER_SECOND,
    UNCHANGED_SECONDS,
    Broadcast,
    RepeatedOutputs,
    answer_values,
    forget_reply_shell,
    running_kernel,
)
from nbdist.view.feed import Feed
from tests.waiting import wait_for

IDLE = Snapshot(session="s", sequence=1, time=1.0, state="idle")


class Kernel:
    """Records what is sent on iopub."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []
        self.iopub_socket = "iopub"
        self.session = SimpleNamespace(send=self._send)

    def _send(self, socket: str, kind: str, content: dict[str, Any], **options: Any) -> None:
        self.sent.append({"socket": socket, "kind": kind, "content": content, **options})


@pytest.fixture
def kernel() -> Iterator[Kernel]:
    targets = dict(comms.get_comm_manager().targets)
    yield Kernel()
    comms.get_comm_manager().targets.clear()
    comms.get_comm_manager().targets.update(targets)


@pytest.fixture
def feed() -> Iterator[Feed]:
    made = Feed()
    yield made
    made.close()


def _wait_for(kernel: Kernel, count: int) -> None:
    wait_for(lambda: len(kernel.sent) >= count)


def test_frames_are_comm_messages_of_the_fixed_id_without_a_parent(
    kernel: Kernel, feed: Feed
) -> None:
    Broadcast(feed, kernel).open()
    feed.push(IDLE)
    _wait_for(kernel, 1)
    sent = kernel.sent[0]
    assert (sent["socket"], sent["kind"], sent["parent"]) == ("iopub", "comm_msg", None)
    assert sent["ident"] == b"comm-nbdist"
    assert sent["content"]["comm_id"] == COMM_ID
    assert sent["content"]["data"]["snapshot"]["state"] == "idle"


def test_opening_twice_sends_everything_once(kernel: Kernel, feed: Feed) -> None:
    Broadcast(feed, kernel).open()
    Broadcast(feed, kernel).open()
    feed.push(IDLE)
    feed.close()
    assert len(kernel.sent) == 1


def test_a_closed_channel_is_silent(kernel: Kernel, feed: Feed) -> None:
    channel = Broadcast(feed, kernel)
    channel.open()
    channel.close()
    feed.push(IDLE)
    feed.close()
    assert kernel.sent == []


def test_full_frames_are_followed_by_the_mode_of_plain_cells(kernel: Kernel, feed: Feed) -> None:
    channel = Broadcast(feed, kernel, on_processes=lambda: True)
    channel.open()
    feed.push(IDLE)
    _wait_for(kernel, 2)
    frame, mode = (sent["content"]["data"] for sent in kernel.sent[:2])
    assert frame["base"] is None
    assert mode == {"type": "mode", "on_processes": True}
    channel.say_mode()
    assert kernel.sent[-1]["content"]["data"] == mode


def test_a_hello_brings_a_full_frame_at_once(kernel: Kernel, feed: Feed) -> None:
    Broadcast(feed, kernel).open()
    feed.push(IDLE)
    _wait_for(kernel, 1)
    received: list[Any] = []
    comm = SimpleNamespace(on_msg=received.append, _reply_subshell_id="busy")
    opened = comms.get_comm_manager().targets[TARGET]
    opened(comm, {"content": {"data": {"type": "hello"}}})  # type: ignore[operator]
    _wait_for(kernel, 2)
    assert kernel.sent[1]["content"]["data"]["base"] is None
    assert not hasattr(comm, "_reply_subshell_id")
    received[0]({"content": {"data": {"type": "something else"}}})
    received[0]({"content": {"data": {"type": "hello"}}})
    _wait_for(kernel, 3)


def test_without_a_kernel_nothing_is_sent_or_registered(feed: Feed) -> None:
    assert running_kernel() is None
    before = dict(comms.get_comm_manager().targets)
    Broadcast(feed).open()
    feed.push(IDLE)
    assert comms.get_comm_manager().targets == before


@pytest.mark.skipif(
    not hasattr(BaseComm, "_reply_subshell_for"), reason="ipykernel before 7.4 remembers no shell"
)
def test_ipykernel_without_a_remembered_shell_uses_the_one_asked_for() -> None:
    comm = BaseComm(primary=False)
    comm._reply_subshell_id = None
    forget_reply_shell(comm)
    assert comm._reply_subshell_for(None, "asked for") == "asked for"
    forget_reply_shell(SimpleNamespace())


def answers(feed: Feed, path: str) -> list[dict[str, Any]]:
    """What a view that has asked for values gets between two cells, and not before."""
    calls: list[Any] = []
    sent: list[dict[str, Any]] = []
    loop = SimpleNamespace(io_loop=SimpleNamespace(add_callback=calls.append))
    answer_values(feed, loop, path, sent.append)
    assert sent == []
    for call in calls:
        call()
    return sent


def test_a_view_is_answered_between_cells_with_values_or_the_error(feed: Feed) -> None:
    (nobody,) = answers(feed, "w")
    assert nobody["error"] == "No session is running."
    drawn = {"rows": 1, "columns": 1, "low": 1.0, "high": 9.0, "values": [0.0]}
    feed.values = lambda path: {"text": f"of {path}", "picture": drawn}
    assert answers(feed, "w") == [
        {"type": "values", "path": "w", "text": "of w", "picture": drawn, "error": None}
    ]

    def busy(path: str) -> dict[str, Any]:
        raise SessionError("busy")

    feed.values = busy
    (failed,) = answers(feed, "w")
    assert (failed["text"], failed["error"]) == (None, "busy")


@pytest.mark.parametrize(
    ("data", "read"),
    [
        ({"type": "hello"}, Hello()),
        ({"type": "values", "path": "w"}, AskValues(path="w")),
        *(
            (wrong, None)
            for wrong in (
                *(None, 3, [], {}, {"type": []}, {"type": "frame"}, {"type": "values"}),
                {"type": "values", "path": 3},
                {"type": "hello", "more": 1},
            )
        ),
    ],
)
def test_requests_are_read_and_all_else_is_none(data: object, read: object) -> None:
    assert read_request(data) == read


class Cells:
    """The cells of a kernel, as `ShownCells.of` answers them."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.running: set[str] = set()

    def of(self, wanted: Collection[str]) -> list[CellOutputs]:
        return [
            CellOutputs(cell=cell, running=cell in self.running, outputs=({"text": text},))
            for cell, text in self.texts.items()
            if cell in self.running or cell in wanted
        ]


def test_nothing_is_sent_while_no_cell_runs() -> None:
    cells = Cells()
    cells.texts["a"] = "ended long ago"
    assert RepeatedOutputs().due(cells.of, 0.0) is None


def test_a_running_cell_is_sent_when_it_changes_and_once_more_when_it_has_ended() -> None:
    cells, repeated = Cells(), RepeatedOutputs()
    cells.texts["a"], cells.running = "1", {"a"}
    assert repeated.due(cells.of, 0.0) == {"type": "outputs", "cells": encode(cells.of([]))}
    cells.texts["a"] = "1 2"
    assert repeated.due(cells.of, 2.0) == {"type": "outputs", "cells": encode(cells.of([]))}
    cells.running = set()
    ended = repeated.due(cells.of, 4.0)
    assert ended is not None
    assert [cell["running"] for cell in ended["cells"]] == [False]
    assert repeated.due(cells.of, 6.0) is None


def test_what_has_not_changed_is_sent_more_rarely() -> None:
    cells, repeated = Cells(), RepeatedOutputs()
    cells.texts["a"], cells.running = "1", {"a"}
    assert repeated.due(cells.of, 0.0)
    assert repeated.due(cells.of, 0.9 * UNCHANGED_SECONDS) is None
    assert repeated.due(cells.of, UNCHANGED_SECONDS)


def test_large_outputs_take_no_more_than_so_many_bytes_in_the_mean() -> None:
    cells, repeated = Cells(), RepeatedOutputs()
    cells.texts["a"], cells.running = "x" * (5 * BYTES_PER_SECOND), {"a"}
    assert repeated.due(cells.of, 0.0)
    cells.texts["a"] += "more"
    assert repeated.due(cells.of, 4.9) is None
    assert repeated.due(cells.of, 5.1)
