"""Only connections of collectives are shut; the user's own, and what listens, stay."""

import contextlib
import os
import select
import socket
import sys
import threading

import pytest

from nbdist.engine.frameworks.jax.step.cut import (
    HELD_SECONDS,
    QUIET_SECONDS,
    ConnectionCut,
    listening_ports,
)
from tests.builders.clock import Sleeping
from tests.waiting import wait_for


@pytest.fixture
def sockets():
    with contextlib.ExitStack() as stack:
        yield stack


class Connection:
    """A connection of this process with itself."""

    def __init__(self, sockets, family=socket.AF_INET, address="127.0.0.1"):
        self.listener = sockets.enter_context(socket.socket(family))
        self.listener.bind((address, 0))
        self.listener.listen()
        self.port = self.listener.getsockname()[1]
        self.near = sockets.enter_context(socket.create_connection((address, self.port)))
        self.far = sockets.enter_context(self.listener.accept()[0])
        for end in (self.near, self.far):
            end.settimeout(20)

    def works(self):
        self.near.sendall(b"x")
        return self.far.recv(1) == b"x"

    @property
    def ended(self):
        """Whether both ends that this process has would be told of an end by the next reading."""
        for end in (self.near, self.far):
            end.settimeout(0)
            try:
                if end.recv(1):
                    return False
            except BlockingIOError:
                return False
            finally:
                end.settimeout(20)
        return True


@pytest.fixture
def cut(sockets):
    made = ConnectionCut()
    sockets.callback(made.release)
    return made.cut


def descriptors(connections):
    """Those of these sockets, copies as well; other threads open and close their own meanwhile."""
    every = [end for one in connections for end in (one.listener, one.near, one.far)]
    inodes = {os.fstat(end.fileno()).st_ino for end in every}
    found = []
    for entry in os.listdir("/proc/self/fd"):  # noqa: PTH208 - names are numbers here
        with contextlib.suppress(OSError):
            if os.fstat(int(entry)).st_ino in inodes:
                found.append(int(entry))
    return sorted(found)


@pytest.mark.parametrize(("own", "others"), [(True, False), (False, True), (True, True)])
def test_connections_at_the_given_ports_are_shut(sockets, cut, own, others):
    one = Connection(sockets)
    assert one.works()
    assert cut([one.port] if own else [], [one.port] if others else []) == (2 if own else 1)
    assert one.near.recv(1) == b""
    assert one.ended is own  # else the other end is another process's


def test_whoever_waits_at_one_is_freed(sockets, cut):
    one = Connection(sockets)
    found = []
    waits = threading.Thread(target=lambda: found.append(one.near.recv(1)))
    waits.start()
    cut([one.port], [])
    waits.join(20)
    assert found == [b""]


def test_the_users_own_connections_stay(sockets, cut):
    one, users = Connection(sockets), Connection(sockets)
    cut([one.port], [one.port])
    assert users.works()
    assert one.ended


def test_what_listens_stays_and_takes_new_connections(sockets, cut):
    one = Connection(sockets)
    cut([one.port], [one.port])
    again = sockets.enter_context(socket.create_connection(("127.0.0.1", one.port)))
    far = sockets.enter_context(one.listener.accept()[0])
    again.sendall(b"y")
    assert far.recv(1) == b"y"


def test_no_port_given_shuts_nothing(sockets, cut):
    one = Connection(sockets)
    assert cut([], []) == 0
    assert one.works()


def test_a_port_of_another_kind_of_socket_is_not_confused(sockets, cut):
    one = Connection(sockets)
    datagram = sockets.enter_context(socket.socket(type=socket.SOCK_DGRAM))
    datagram.bind(("127.0.0.1", one.port))
    left, right = (sockets.enter_context(end) for end in socket.socketpair())
    cut([one.port], [one.port])
    left.sendall(b"z")
    assert right.recv(1) == b"z"
    datagram.sendto(b"d", ("127.0.0.1", one.port))
    assert datagram.recv(1) == b"d"


def test_each_is_kept_open_once_until_it_is_released(sockets):
    connections = [Connection(sockets) for _ in range(20)]
    ports = [c.port for c in connections]
    before = descriptors(connections)
    assert len(before) == 60
    cutting = ConnectionCut()
    assert cutting.cut(ports, ports) == 40
    assert len(descriptors(connections)) == 100
    assert cutting.cut(ports, ports) == 0
    listening_ports()
    assert len(descriptors(connections)) == 100
    cutting.release()
    assert descriptors(connections) == before
    assert all(c.near.fileno() >= 0 for c in connections)


def test_what_others_write_meanwhile_does_not_fail_nor_stop(sockets, cut):
    one = Connection(sockets)
    cut([], [one.port])
    one.near.close()  # as gloo does when it reads the end
    for _ in range(200):
        one.far.sendall(bytes(1 << 20))


def test_what_arrived_before_is_still_read_by_whom_it_is_for(sockets, cut, monkeypatch):
    monkeypatch.setattr("nbdist.engine.frameworks.jax.step.cut.QUIET_LIMIT_SECONDS", 0.1)
    one = Connection(sockets)
    one.far.sendall(b"message")
    cut([one.port], [])
    threading.Event().wait(0.1)
    assert one.near.recv(100) == b"message"
    assert one.near.recv(100) == b""


def test_after_a_release_the_next_are_ended_as_well(sockets):
    cutting, first = ConnectionCut(), Connection(sockets)
    cutting.cut([first.port], [])
    cutting.release()
    second = Connection(sockets)
    cutting.cut([second.port], [])
    assert second.ended
    cutting.release()


def test_a_second_cut_does_no_harm(sockets, cut):
    one = Connection(sockets)
    cut([one.port], [one.port])
    one.near.close()
    cut([one.port], [one.port])


def test_ports_on_which_this_process_listens_are_found(sockets):
    one = Connection(sockets)
    bound = sockets.enter_context(socket.socket())
    bound.bind(("127.0.0.1", 0))
    found = listening_ports()
    assert one.port in found
    assert bound.getsockname()[1] not in found
    assert one.near.getsockname()[1] not in found


@pytest.mark.skipif(sys.platform != "linux", reason="Only Linux counts the bytes of a connection.")
def test_what_moves_on_connections_is_counted(sockets):
    one, other = Connection(sockets), Connection(sockets)
    before = ConnectionCut().moved_bytes([one.port], [])
    assert other.works()
    assert ConnectionCut().moved_bytes([one.port], []) == before
    assert one.works()
    wait_for(lambda: ConnectionCut().moved_bytes([one.port], []) == before + 2)


@pytest.mark.skipif(not socket.has_ipv6, reason="This Python has no IPv6.")
def test_connections_over_ipv6_are_shut_as_well(sockets, cut):
    try:
        one = Connection(sockets, socket.AF_INET6, "::1")
    except OSError:
        pytest.skip("This machine has no IPv6 loopback address.")
    assert one.port in listening_ports()
    cut([one.port], [])
    assert one.ended


@pytest.fixture
def patient(monkeypatch):
    """No limit to the wait."""
    monkeypatch.setattr("nbdist.engine.frameworks.jax.step.cut.QUIET_LIMIT_SECONDS", 60)
    monkeypatch.setattr("nbdist.engine.frameworks.jax.step.cut.STILL_SECONDS", 60)
    cutting = ConnectionCut()
    yield cutting
    cutting.release()


@pytest.mark.skipif(sys.platform != "linux", reason="Only Linux can hold back what arrives.")
def test_what_is_sent_once_a_cut_has_begun_is_not_delivered(sockets, monkeypatch, patient):
    """Data of a freed program's next collective would end a process that waits in the one before."""
    connections = [Connection(sockets) for _ in range(3)]
    sent = []

    def sleep(seconds):
        if seconds == HELD_SECONDS:
            for one in connections:
                sent.append(one.far.send(b"of the next collective"))
                assert select.select([one.near], [], [], 0.05)[0] == []

    monkeypatch.setattr("nbdist.engine.frameworks.jax.step.cut.time", Sleeping(sleep))
    monkeypatch.setattr(patient, "_drain", lambda: None)
    assert patient.cut([], [one.port for one in connections]) == 3
    assert len(sent) == 3
    for one in connections:
        assert one.near.recv(100) == b""


def test_nothing_is_ended_while_something_moves(sockets, monkeypatch, patient):
    one = Connection(sockets)
    moves = [True, True, True, False, False]

    def sleep(seconds):
        if seconds == QUIET_SECONDS and moves.pop(0):
            one.near.sendall(b"x")
            assert one.far.recv(1) == b"x"

    monkeypatch.setattr("nbdist.engine.frameworks.jax.step.cut.time", Sleeping(sleep))
    monkeypatch.setattr(patient, "_drain", lambda: None)
    patient.cut([one.port], [])
    assert moves == [False]


def test_nothing_is_ended_before_all_that_was_sent_is_read(sockets, monkeypatch, patient):
    one = Connection(sockets)
    one.near.sendall(b"late")
    reads = [b"", b"", b"late"]

    def sleep(seconds):
        if reads and (expected := reads.pop(0)):
            assert one.far.recv(10) == expected

    monkeypatch.setattr("nbdist.engine.frameworks.jax.step.cut.time", Sleeping(sleep))
    monkeypatch.setattr(patient, "_drain", lambda: None)
    patient.cut([one.port], [])
    assert reads == []


def test_what_waits_for_one_that_reads_no_more_is_not_waited_for(sockets, monkeypatch, patient):
    monkeypatch.setattr("nbdist.engine.frameworks.jax.step.cut.STILL_SECONDS", 0.1)
    one = Connection(sockets)
    one.near.sendall(b"never read")
    assert patient.cut([one.port], []) == 2
