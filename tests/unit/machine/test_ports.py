"""Ports that are kept for a program that is about to listen on them."""

from __future__ import annotations

import socket
from contextlib import closing
from types import SimpleNamespace

import pytest
import zmq

from nbdist.machine import ports


def test_a_reserved_port_is_given_to_nobody_who_looks_for_a_free_one() -> None:
    with closing(ports.ReservedPorts()) as reserved:
        numbers = reserved.reserve(1) + reserved.reserve(1)
        assert not any(map(ports._is_free, numbers))
    assert all(map(ports._is_free, numbers))


def test_two_that_reserve_at_the_same_time_never_get_one_port(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one, other = ports.free_ports(2)
    drawn = iter([one, one, other])
    monkeypatch.setattr(ports, "_RANDOM", SimpleNamespace(choice=lambda candidates: next(drawn)))
    with closing(ports.ReservedPorts()) as first, closing(ports.ReservedPorts()) as second:
        assert (first.reserve(1), second.reserve(1)) == ([one], [other])


def test_zeromq_listens_on_a_reserved_port() -> None:
    context = zmq.Context()
    with closing(ports.ReservedPorts()) as reserved, context.socket(zmq.PUB) as publisher:
        (number,) = reserved.reserve(1)
        publisher.bind(f"tcp://127.0.0.1:{number}")
        with closing(socket.create_connection(("127.0.0.1", number), timeout=10)) as connected:
            assert connected.getpeername()[1] == number
    context.term()
