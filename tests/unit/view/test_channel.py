"""The channel: broadcasts on iopub, and answers what a front end asks."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from comm import get_comm_manager
from ipykernel.comm.comm import BaseComm

from nbdist.contract.page import COMM_ID, TARGET
from nbdist.contract.snapshot import Snapshot
from nbdist.view.channel import Broadcast, broadcast, forget_reply_shell, running_kernel
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
    targets = dict(get_comm_manager().targets)
    yield Kernel()
    get_comm_manager().targets.clear()
    get_comm_manager().targets.update(targets)


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


def test_a_hello_brings_a_full_frame_at_once(kernel: Kernel, feed: Feed) -> None:
    Broadcast(feed, kernel).open()
    feed.push(IDLE)
    _wait_for(kernel, 1)
    received: list[Any] = []
    comm = SimpleNamespace(on_msg=received.append, _reply_subshell_id="busy")
    opened = get_comm_manager().targets[TARGET]
    opened(comm, {"content": {"data": {"type": "hello"}}})  # type: ignore[operator]
    _wait_for(kernel, 2)
    assert kernel.sent[1]["content"]["data"]["base"] is None
    assert not hasattr(comm, "_reply_subshell_id")
    received[0]({"content": {"data": {"type": "something else"}}})
    received[0]({"content": {"data": {"type": "hello"}}})
    _wait_for(kernel, 3)


def test_without_a_kernel_nothing_is_sent_or_registered(feed: Feed) -> None:
    assert running_kernel() is None
    before = dict(get_comm_manager().targets)
    Broadcast(feed).open()
    feed.push(IDLE)
    assert get_comm_manager().targets == before


@pytest.mark.skipif(
    not hasattr(BaseComm, "_reply_subshell_for"), reason="ipykernel before 7.4 remembers no shell"
)
def test_forgetting_the_reply_shell_leaves_ipykernel_to_use_the_one_asked_for() -> None:
    comm = BaseComm(primary=False)
    comm._reply_subshell_id = None
    forget_reply_shell(comm)
    assert comm._reply_subshell_for(None, "asked for") == "asked for"


def test_forgetting_the_reply_shell_does_nothing_where_ipykernel_remembers_none() -> None:
    comm = SimpleNamespace()
    forget_reply_shell(comm)
    assert vars(comm) == {}


def test_a_broadcast_names_the_comm_as_topic(kernel: Kernel) -> None:
    broadcast(kernel, "abc", {"method": "custom"})
    assert kernel.sent[0]["ident"] == b"comm-abc"
