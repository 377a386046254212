"""The monitor's thread: it reads on, whatever comes and whoever fails."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest
import zmq
from msgspec import structs

from nbdist.contract.asides import StepsBegun
from nbdist.contract.iopub import AsideAnswer
from nbdist.contract.snapshot import VERSION, Snapshot
from nbdist.contract.wire import encode
from nbdist.errors import Notice
from nbdist.launch.start.client import wire
from nbdist.monitor import monitor as module
from nbdist.monitor.monitor import (
    IDLE_PERIOD_SECONDS,
    MOST_FAULTS,
    PERIOD_SECONDS,
    Monitor,
)
from nbdist.monitor.states import ExpectedProcess, Known
from tests.builders.clock import PatientClock
from tests.builders.reports import IDLE, RUNNING, report
from tests.builders.sockets import FakeSocket
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
            planned=tuple(
                ExpectedProcess(process_id=p, host="h1", role="worker") for p in range(4)
            ),
            connection=connection,
            publish=lambda snapshot: self.publish(snapshot),
        )
        self.monitor.start()
        self.number = 0
        wait_for(self.is_received)

    def is_received(self) -> bool:
        """Whether a good report arrives; a subscription takes a moment."""
        self.number += 1
        self.send(encode(structs.replace(report(0), sequence=self.number)))
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
    wait_for(engines.is_received)
    (fault,) = engines.faults
    assert fault.text.startswith("A report ")
    engines.send(content)
    wait_for(engines.is_received)
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
    wait_for(engines.is_received)
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
    wait_for(engines.is_received)
    assert "RuntimeError" in engines.faults[0].text


def test_faults_are_shown_beside_other_notices_once_and_a_few_at_most(engines: Engines) -> None:
    other = Notice(level="warn", title="other", text="")
    engines.monitor.know(Known(notices=(other,)))
    for number in (1, 1, *range(2 * MOST_FAULTS)):
        engines.monitor.fault(f"fault {number}")
    notices = engines.monitor.snapshot().notices
    assert notices[0] == other
    assert len(engines.faults) == len({one.text for one in engines.faults}) == MOST_FAULTS


class LatestActivity:
    """A monitor whose socket and clock are of a test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock = PatientClock(look_s=0.001)
        self.socket = FakeSocket(self.pass_by)
        monkeypatch.setattr(module, "time", self.clock)
        monkeypatch.setattr(module, "subscriber", lambda *_: self.socket)
        connection = {"key": "secret", "signature_scheme": "hmac-sha256"}
        self.wire = wire(connection)
        self.published: list[float] = []
        self.monitor = Monitor(
            session="s",
            planned=tuple(
                ExpectedProcess(process_id=p, host="h1", role="worker") for p in range(2)
            ),
            connection=connection,
            publish=lambda snapshot: self.published.append(self.clock.now),
        )

    def pass_by(self, milliseconds: int) -> None:
        """Time passes for whoever waits for a message."""
        time.sleep(0.0002)
        self.clock.now += milliseconds / 1000

    def message(self, content: Any, kind: str = "nbdist_report") -> list[bytes]:
        return [b"nbdist.0", *self.wire.serialize(self.wire.msg(kind, content))]

    def receive(self, process_id: int, sequence: int, **changes: Any) -> None:
        """A report comes and is taken."""
        self.socket.put(self.message(encode(report(process_id, sequence=sequence, **changes))))
        wait_for(lambda: self.monitor.wait_for({process_id: sequence}, timeout_s=1.0))


@pytest.fixture
def latest(monkeypatch: pytest.MonkeyPatch) -> Iterator[LatestActivity]:
    made = LatestActivity(monkeypatch)
    made.monitor.start()
    yield made
    made.monitor.stop()
    assert made.socket.closed


def still(latest: LatestActivity) -> LatestActivity:
    """From now on no time passes while nothing comes."""
    latest.pass_by = lambda milliseconds: time.sleep(0.0002)  # type: ignore[method-assign]
    latest.socket._wait = latest.pass_by
    return latest


def test_of_a_process_that_has_said_nothing_nothing_is_known(latest: LatestActivity) -> None:
    assert latest.monitor.activity(1) is None
    assert latest.monitor.silence(1) == 0.0
    assert not latest.monitor.wait_for({1: 1}, timeout_s=0.0)


def test_what_a_running_process_said_grows_older_and_what_an_idle_one_said_does_not(
    latest: LatestActivity,
) -> None:
    still(latest).receive(0, 1, activity=RUNNING)
    idle = structs.replace(IDLE, cell_seconds=2.0, line_seconds=1.0)
    latest.receive(1, 1, activity=idle)
    latest.clock.now += 5
    running = latest.monitor.activity(0)
    assert running is not None
    silence_s = latest.monitor.silence(0)
    assert 5 <= silence_s < 6
    assert running.cell_seconds == pytest.approx(3.2 + silence_s)
    assert running.line_seconds == pytest.approx(3.0 + silence_s)
    assert latest.monitor.activity(1) == idle


def test_a_process_that_has_replied_to_its_cell_is_idle_before_it_says_so(
    latest: LatestActivity,
) -> None:
    still(latest).receive(0, 1, activity=RUNNING)
    latest.monitor.rest([0, 1], RUNNING.cell + 1)
    states = [latest.monitor.activity(0)]
    latest.monitor.rest([0, 1], RUNNING.cell)
    states.append(latest.monitor.activity(0))
    assert [one and one.state for one in states] == ["running", "idle"]


def test_all_have_told_their_devices_when_the_last_has(latest: LatestActivity) -> None:
    latest.receive(0, 1)
    assert not latest.monitor.wait_for_all(timeout_s=0.1)
    latest.receive(1, 1)
    assert latest.monitor.wait_for_all(timeout_s=5.0)


def test_an_answer_is_no_report_and_goes_to_whoever_has_asked(latest: LatestActivity) -> None:
    answers: list[Any] = []
    latest.monitor.on_answer = answers.append
    answer = AsideAnswer(process_id=0, number=3, answer=StepsBegun(steps=2))
    latest.socket.put(latest.message(encode(answer), "nbdist_answer"))
    latest.receive(0, 1)
    assert answers == [answer]


@pytest.mark.parametrize(
    ("content", "kind", "text"),
    [
        ({}, "nbdist_answer", "AsideAnswer: object missing required field process_id"),
        (
            {"process_id": 0, "number": 3, "answer": {"kind": "x"}},
            "nbdist_answer",
            "kind: invalid value 'x'",
        ),
        ({"process_id": "0"}, "nbdist_report", "Report."),
        ({}, "nbdist_else", "it is of the type 'nbdist_else'"),
        ({"number": 1}, "nbdist_step", "CellStep"),
    ],
)
def test_a_message_of_a_wrong_shape_is_one_notice_that_names_the_process_and_the_next_is_read(
    latest: LatestActivity, content: Any, kind: str, text: str
) -> None:
    answers: list[Any] = []
    latest.monitor.on_answer = answers.append
    latest.socket.put(latest.message(content, kind))
    latest.receive(0, 1)
    (fault,) = latest.monitor.snapshot().notices
    assert "WireError: Process 0 " in fault.text and text in fault.text
    assert answers == []


def test_whoever_takes_answers_may_fail_and_the_next_message_is_read(
    latest: LatestActivity,
) -> None:
    def fails(answer: Any) -> None:
        raise LookupError("nobody has asked")

    latest.monitor.on_answer = fails
    answer = AsideAnswer(process_id=0, number=3, answer=StepsBegun(steps=2))
    latest.socket.put(latest.message(encode(answer), "nbdist_answer"))
    latest.receive(0, 1)
    (fault,) = latest.monitor.snapshot().notices
    assert "LookupError" in fault.text


def test_a_socket_that_cannot_be_read_for_a_moment_is_read_again(
    latest: LatestActivity, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "AFTER_FAILURE_SECONDS", 0.0)
    latest.socket.put(zmq.ZMQError(zmq.ETERM), zmq.ZMQError(zmq.EAGAIN))
    latest.receive(0, 1)
    assert latest.socket.taken == 3


def test_snapshots_are_rare_while_nothing_is_new_and_ten_a_second_at_most(
    latest: LatestActivity,
) -> None:
    wait_for(lambda: len(latest.published) > 4)
    rests = [after - before for before, after in pairwise(latest.published)]
    assert min(rests[1:4]) >= IDLE_PERIOD_SECONDS
    still(latest)
    latest.published.clear()
    began = latest.clock.now
    for sequence in range(1, 101):
        latest.clock.now += PERIOD_SECONDS / 10
        latest.receive(0, sequence)
    assert 0 < len(latest.published) <= (latest.clock.now - began) / PERIOD_SECONDS + 2


def test_reports_that_come_without_end_are_shown_meanwhile(
    latest: LatestActivity, monkeypatch: pytest.MonkeyPatch
) -> None:
    flood = [latest.message(encode(report(0, sequence=n))) for n in range(1, 501)]
    take = latest.socket.recv_multipart

    def recv_multipart() -> Any:
        if flood:
            latest.socket.put(flood.pop(0))  # the next is there before this one is taken
        latest.clock.now += PERIOD_SECONDS / 10
        return take()

    monkeypatch.setattr(latest.socket, "recv_multipart", recv_multipart)
    still(latest)
    latest.published.clear()
    latest.socket.put(latest.message(encode(report(0, sequence=0))))
    wait_for(lambda: not flood)
    assert len(latest.published) >= 10


def test_what_the_kernel_knows_is_shown_without_a_report(latest: LatestActivity) -> None:
    still(latest)
    wait_for(lambda: latest.published)
    latest.published.clear()
    latest.clock.now += IDLE_PERIOD_SECONDS / 2
    latest.monitor.know(Known(notices=(Notice(level="warn", title="a fault", text=""),)))
    wait_for(lambda: latest.published)
    assert [notice.title for notice in latest.monitor.snapshot().notices] == ["a fault"]


def test_the_end_publishes_once_more(latest: LatestActivity) -> None:
    still(latest)
    wait_for(lambda: latest.socket.read)
    latest.monitor.stop()
    before = len(latest.published)
    latest.monitor.stop()
    assert len(latest.published) == before + 1
