"""Connections of processes to a service through their agent, which go on when the service has ended."""

from __future__ import annotations

import os
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from nbdist.agent.coordination import (
    CANCEL,
    DATA,
    END_STREAM,
    HEAD,
    HEADERS,
    MOST_WAITING,
    PREFACE,
    RST_STREAM,
    Relays,
    Requests,
)
from tests.waiting import wait_for

SETTINGS = 0x4


class Running:
    """Relays that a thread pumps as an agent does."""

    def __init__(self) -> None:
        self.relays = Relays()
        self._wanted, self._want = os.pipe()
        self._work: list[Callable[[], None]] = []
        self._over = False
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def do(self, work: Callable[[], None]) -> None:
        """Has the pumping thread do this, as all else is done."""
        done = threading.Event()
        self._work.append(lambda: (work(), done.set())[0])
        os.write(self._want, b"x")
        assert done.wait(10)

    def open(self, port: int) -> int:
        found: list[int] = []
        self.do(lambda: found.append(self.relays.open(f"127.0.0.1:{port}")))
        return found[0]

    def stop(self) -> None:
        self.do(self.relays.close)
        self._over = True
        os.write(self._want, b"x")
        self._thread.join()
        for one in (self._wanted, self._want):
            os.close(one)

    def _run(self) -> None:
        every: list[object] = [self._wanted, self.relays]
        while not self._over:
            ready, _, _ = select.select(every, [], [])
            if self._wanted in ready:
                os.read(self._wanted, 1)
                while self._work:
                    work = self._work.pop()
                    if work.__closure__:
                        work()
                try:
                    self.relays.fileno()
                except ValueError:  # closed
                    every = [self._wanted]
            elif self.relays in ready:
                self.relays.pump()


@pytest.fixture
def running() -> Iterator[Running]:
    it = Running()
    yield it
    it.stop()


@pytest.fixture
def service() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(10)
        yield listening


def connected(port: int) -> socket.socket:
    one = socket.create_connection(("127.0.0.1", port))
    one.settimeout(10)
    return one


def read(one: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        came = one.recv(count - len(found))
        assert came  # the connection has ended
        found += came
    return found


def test_what_comes_on_either_side_goes_to_the_other(
    running: Running, service: socket.socket
) -> None:
    port = running.open(service.getsockname()[1])
    # More than is taken at once: whoever sends faster than the other side reads waits.
    data = os.urandom(5 * MOST_WAITING)
    with connected(port) as process, service.accept()[0] as there:
        for sender, receiver in ((process, there), (there, process)):
            sending = threading.Thread(target=sender.sendall, args=(data,))
            sending.start()
            assert read(receiver, len(data)) == data
            sending.join()


def test_no_more_is_taken_of_one_side_than_the_other_may_have_to_wait_for(
    running: Running, service: socket.socket
) -> None:
    port = running.open(service.getsockname()[1])
    with connected(port) as process, service.accept()[0]:
        process.setblocking(False)
        most = 100 * MOST_WAITING
        sent, still = 0, time.monotonic()
        while sent < most and time.monotonic() - still < 0.5:
            try:
                sent += process.send(bytes(1 << 16))
                still = time.monotonic()
            except BlockingIOError:
                time.sleep(0.01)
        assert sent < most
        (link,) = running.relays._links
        assert len(link.to_service) < 2 * MOST_WAITING


def test_a_connection_goes_on_when_the_service_has_ended(
    running: Running, service: socket.socket
) -> None:
    port = running.open(service.getsockname()[1])
    with connected(port) as process:
        there, _ = service.accept()
        there.sendall(frame(SETTINGS))
        there.close()
        assert read(process, HEAD) == frame(SETTINGS)
        process.sendall(PREFACE)
        process.settimeout(0.3)
        with pytest.raises(TimeoutError):
            process.recv(1)


def test_what_waits_for_an_answer_is_cancelled_when_the_service_ends_and_what_is_asked_later(
    running: Running, service: socket.socket
) -> None:
    port = running.open(service.getsockname()[1])
    with connected(port) as process:
        there, _ = service.accept()
        there.settimeout(10)
        asked = PREFACE + frame(SETTINGS) + b"".join(frame(HEADERS, stream=n) for n in (1, 3, 5))
        process.sendall(asked)
        assert read(there, len(asked)) == asked
        answer = frame(HEADERS, stream=1) + frame(DATA, b"x" * 100, flags=END_STREAM, stream=1)
        # The service ends in the middle of its second answer.
        part = frame(DATA, b"y" * 50, stream=3)[:20]
        there.sendall(answer + part)
        assert read(process, len(answer) + len(part)) == answer + part
        there.close()
        rest = bytes(HEAD + 50 - len(part))
        cancelled = rest + b"".join(frame(RST_STREAM, CANCEL.to_bytes(4), stream=n) for n in (3, 5))
        assert read(process, len(cancelled)) == cancelled
        late = frame(HEADERS, b"h" * 10, stream=7)
        for part in (late[:5], late[5:]):  # however it is cut
            process.sendall(part)
        expected = frame(RST_STREAM, CANCEL.to_bytes(4), stream=7)
        assert read(process, len(expected)) == expected


def frame(kind: int, payload: bytes = b"", *, flags: int = 0, stream: int = 0) -> bytes:
    return len(payload).to_bytes(3) + bytes([kind, flags]) + stream.to_bytes(4) + payload


def test_requests_are_read_wherever_they_are_cut() -> None:
    asked = PREFACE + b"".join(frame(HEADERS, b"h" * n, stream=n) for n in (1, 3, 5, 7))
    answered = frame(HEADERS, b"a", flags=END_STREAM, stream=1) + frame(
        RST_STREAM, b"1234", stream=3
    )
    whole, cut = Requests(), Requests()
    whole.asked(asked + frame(RST_STREAM, b"1234", stream=5))
    whole.answered(answered)
    for byte in asked + frame(RST_STREAM, b"1234", stream=5):
        cut.asked(bytes([byte]))
    for byte in answered:
        cut.answered(bytes([byte]))
    expected = frame(RST_STREAM, CANCEL.to_bytes(4), stream=7)
    assert whole.cancelled() == cut.cancelled() == expected
    assert whole.cancelled() == b""


def test_a_process_that_leaves_ends_its_connection_to_the_service(
    running: Running, service: socket.socket
) -> None:
    port = running.open(service.getsockname()[1])
    with connected(port) as process, service.accept()[0] as there:
        there.settimeout(10)
        process.close()
        assert there.recv(1) == b""
    wait_for(lambda: not running.relays._links)


def test_where_nobody_listens_the_connection_ends_so_that_it_is_tried_again(
    running: Running, service: socket.socket
) -> None:
    nobody = service.getsockname()[1]
    service.close()
    with connected(running.open(nobody)) as process:
        assert process.recv(1) == b""


def test_the_next_service_has_a_port_of_its_own_and_earlier_connections_go_on(
    running: Running, service: socket.socket
) -> None:
    first = running.open(service.getsockname()[1])
    with connected(first) as process, service.accept()[0] as there:
        second = running.open(service.getsockname()[1])
        assert second != first
        process.sendall(b"still")
        there.settimeout(10)
        assert read(there, 5) == b"still"
        with pytest.raises(OSError):
            connected(first).recv(1)


def test_a_host_that_has_no_address_is_an_error(running: Running) -> None:
    with pytest.raises(OSError):
        running.relays.open("no such host.invalid:1")
