"""The agent of a host: an order that it cannot obey is not the last."""

from __future__ import annotations

import io
import json
import os
import socket
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from nbdist.agent import agent as host
from nbdist.agent.agent import Agent
from nbdist.agent.children import Children
from nbdist.agent.heartbeat import Pulse
from nbdist.contract.lines import Events
from nbdist.contract.orders import Assignment, Keep, to_line
from nbdist.contract.wire import encode
from nbdist.errors import WireError
from nbdist.version import __version__
from tests.waiting import WAIT_SECONDS, wait_for

ASSIGNMENT = Assignment(nbdist=__version__, cluster_id="c", preload=(), fork=True)


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
        b'{"order": "start", "processes": 3}',
        b'{"order": "write_file", "id": "a"}',
        b'{"order": "fly"}',
        b'{"keep": 1}',
    ],
)
def test_an_order_of_a_wrong_shape_is_told_and_the_next_is_obeyed(order: bytes) -> None:
    parent = Parent()
    parent.assignment = SimpleNamespace()  # type: ignore[assignment]
    parent._take(order + b"\n" + to_line(Keep()))
    assert parent.kept
    assert parent.unread == b""
    (fault,) = parent.said("fault")
    assert fault["text"].startswith(f"An order to the parent on {socket.gethostname()} could not")


def test_a_parent_that_cannot_read_what_it_is_for_ends() -> None:
    with pytest.raises(WireError, match=r"more is 1; allowed: no such field"):
        Parent()._take(json.dumps({**encode(ASSIGNMENT), "more": 1}).encode() + b"\n")


def test_an_agent_of_another_version_says_so_and_reads_no_further() -> None:
    parent = Parent()
    with pytest.raises(SystemExit):
        parent._take(b'{"order": "assign", "nbdist": "0.0.1", "what": "nobody knows"}\n')
    (said,) = parent.said("other_version")
    assert (said["host"], said["nbdist"]) == (socket.gethostname(), __version__)


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
