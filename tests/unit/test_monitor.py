"""The monitor's thread: it reads on, whatever comes and whoever fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import zmq

from nbdist.contract.snapshot import VERSION, Notice, Snapshot
from nbdist.contract.wire import encode
from nbdist.launch.start.iopub import wire
from nbdist.merge import Known, Planned
from nbdist.monitor import MOST_FAULTS, Monitor
from tests.builders.reports import report
from tests.waiting import wait_for


class Engines:
    """A socket on which reports are published, and a monitor that listens to it."""

    def __init__(self) -> None:
        self.context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.socket = self.context.socket(zmq.PUB)
        self.socket.LINGER = 0
        port = self.socket.bind_to_random_port("tcp://127.0.0.1")
        connection = {
            "key": "secret",
            "signature_scheme": "hmac-sha256",
            "interface": "tcp://127.0.0.1",
            "iopub": port,
        }
        self.wire = wire(connection)
        self.published: list[Snapshot] = []
        self.publish: Callable[[Snapshot], None] = self.published.append
        self.monitor = Monitor(
            session="s",
            planned=tuple(Planned(process_id=p, host="h1", role="worker") for p in range(4)),
            connection=connection,
            publish=lambda snapshot: self.publish(snapshot),
        )
        self.monitor.start()
        self.number = 0
        wait_for(lambda: self.is_heard())

    def is_heard(self) -> bool:
        """Whether a good report arrives; a subscription takes a moment."""
        self.number += 1
        self.send(encode(replace(report(0), sequence=self.number)))
        return self.monitor.wait_for({0: self.number}, timeout_s=0.2)

    def send(self, content: Any) -> None:
        message = self.wire.msg("nbdist_report", content)
        self.socket.send_multipart([b"nbdist.0", *self.wire.serialize(message)])

    def close(self) -> None:
        self.monitor.stop()
        self.socket.close()
        self.context.term()

    @property
    def faults(self) -> list[Notice]:
        title = "nbdist could not handle something."
        return [one for one in self.monitor.snapshot().notices if one.title == title]


@pytest.fixture
def engines() -> Iterator[Engines]:
    found = Engines()
    yield found
    found.close()


@pytest.mark.parametrize(
    "content",
    [
        {},
        None,
        b"[1, 2]",
        {"version": VERSION},
        {**encode(report(0)), "process_id": "zero"},
        {**encode(report(0)), "activity": {"state": "asleep"}},
        {**encode(report(0)), "version": VERSION + 1},
        {**encode(report(0)), "sequence": None},
    ],
)
def test_a_report_of_a_wrong_shape_is_named_and_the_next_is_read(
    engines: Engines, content: Any
) -> None:
    engines.send(content)
    assert engines.is_heard()
    (fault,) = engines.faults
    assert fault.text.startswith("A report of a process could not be handled")
    engines.send(content)
    assert engines.is_heard()
    assert engines.faults == [fault]


@pytest.mark.parametrize(
    "frames",
    [
        [b"nbdist"],
        [b"nbdist.0", b"<IDS|MSG>"],
        [b"nbdist.0", b"<IDS|MSG>", b"", b"", b"", b"", b""],
        [b"nbdist.0", b"<IDS|MSG>", b"forged", b"{}", b"{}", b"{}", b"{}"],
        [b"nbdist.0", b"\xff\xfe", b"{"],
    ],
)
def test_frames_that_nobody_has_signed_are_left_out_in_silence(
    engines: Engines, frames: list[bytes]
) -> None:
    engines.socket.send_multipart(frames)
    assert engines.is_heard()
    assert engines.faults == []


def test_whoever_takes_snapshots_may_fail_and_the_thread_goes_on(engines: Engines) -> None:
    calls = 0

    def publish(snapshot: Snapshot) -> None:
        nonlocal calls
        calls += 1
        raise RuntimeError("a view that cannot be drawn")

    engines.publish = publish
    wait_for(lambda: calls > 1)
    engines.publish = engines.published.append
    engines.published.clear()
    wait_for(lambda: engines.published)
    assert engines.is_heard()
    assert "RuntimeError: a view that cannot be drawn" in engines.faults[0].text


def test_a_merge_that_fails_leaves_the_thread_and_what_was_known(
    engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    update = engines.monitor._merger.update

    def failing(*args: Any, **options: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(engines.monitor._merger, "update", failing)
    assert not engines.is_heard()
    monkeypatch.setattr(engines.monitor._merger, "update", update)
    assert engines.is_heard()


def test_faults_are_shown_beside_other_notices_once_and_a_few_at_most(engines: Engines) -> None:
    other = Notice(level="warn", title="other", text="")
    engines.monitor.know(Known(notices=(other,)))
    for number in (1, 1, *range(2 * MOST_FAULTS)):
        engines.monitor.fault(f"fault {number}")
    notices = engines.monitor.snapshot().notices
    assert notices[0] == other
    assert len(engines.faults) == len({one.text for one in engines.faults}) == MOST_FAULTS
