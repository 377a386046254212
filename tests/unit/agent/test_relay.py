"""Connections of processes to a service through their agent, which go on when the service has ended."""

from __future__ import annotations

import os
import select
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from nbdist.agent.relay import MOST_WAITING, Relays
from tests.waiting import wait_for


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

    def open(self, number: int, port: int) -> int:
        found: list[int] = []
        self.do(lambda: found.append(self.relays.open(number, f"127.0.0.1:{port}")))
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
        assert came, "the connection has ended"
        found += came
    return found


def test_what_comes_on_either_side_goes_to_the_other(
    running: Running, service: socket.socket
) -> None:
    port = running.open(-2, service.getsockname()[1])
    # More than is taken at once: whoever sends faster than the other side reads waits.
    data = os.urandom(5 * MOST_WAITING)
    with connected(port) as process, service.accept()[0] as there:
        for sender, receiver in ((process, there), (there, process)):
            sending = threading.Thread(target=sender.sendall, args=(data,))
            sending.start()
            assert read(receiver, len(data)) == data
            sending.join()


def test_a_connection_goes_on_when_the_service_has_ended(
    running: Running, service: socket.socket
) -> None:
    port = running.open(-2, service.getsockname()[1])
    with connected(port) as process:
        there, _ = service.accept()
        there.sendall(b"the last")
        there.close()
        assert read(process, 8) == b"the last"
        process.sendall(b"is anybody there?")
        process.settimeout(0.3)
        with pytest.raises(TimeoutError):
            process.recv(1)


def test_a_process_that_leaves_ends_its_connection_to_the_service(
    running: Running, service: socket.socket
) -> None:
    port = running.open(-2, service.getsockname()[1])
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
    with connected(running.open(-2, nobody)) as process:
        assert process.recv(1) == b""


def test_the_next_service_has_a_port_of_its_own_and_earlier_connections_go_on(
    running: Running, service: socket.socket
) -> None:
    first = running.open(-2, service.getsockname()[1])
    with connected(first) as process, service.accept()[0] as there:
        second = running.open(-3, service.getsockname()[1])
        assert second != first
        process.sendall(b"still")
        there.settimeout(10)
        assert read(there, 5) == b"still"
        with pytest.raises(OSError):
            connected(first).recv(1)


def test_a_host_that_has_no_address_is_an_error(running: Running) -> None:
    with pytest.raises(OSError):
        running.relays.open(-2, "no such host.invalid:1")
