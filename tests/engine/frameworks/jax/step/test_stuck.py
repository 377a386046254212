"""A connection whose end nobody reads: it is found, and costs nothing any more."""

import contextlib
import os
import select
import socket
import threading
import weakref

import pytest

from nbdist.engine.frameworks.jax import step as module
from nbdist.engine.frameworks.jax.step import Step
from nbdist.engine.frameworks.jax.step import cut as kept
from nbdist.engine.frameworks.jax.step.cut import (
    TcpConnection,
    carrying,
    connection,
    keep,
    let_go,
    silence,
)


@pytest.fixture
def stack():
    with contextlib.ExitStack() as found:
        yield found


class Loop:
    """What gloo's thread has: it waits at a port, and for the events of one connection, which it does not read."""

    def __init__(self, stack):
        self.listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        self.port = self.listener.getsockname()[1]
        self.near = stack.enter_context(socket.create_connection(("127.0.0.1", self.port)))
        self.far = stack.enter_context(self.listener.accept()[0])
        self.events = stack.enter_context(select.epoll())
        self.pipe = os.pipe()
        for end in self.pipe:
            stack.callback(os.close, end)
        for watched in (self.listener, self.near, self.pipe[0]):
            self.events.register(watched, select.EPOLLIN)

    def ends_unread(self):
        self.far.sendall(b"left")
        self.far.shutdown(socket.SHUT_RDWR)
        self.near.shutdown(socket.SHUT_RDWR)
        assert self.events.poll(20)


def test_the_connections_of_who_listens_at_the_port_are_found(stack):
    loop = Loop(stack)
    assert carrying([loop.port]) == [connection(loop.near.fileno())]
    assert carrying([]) == []
    loop.events.unregister(loop.near)
    assert carrying([loop.port]) == []


def test_looking_for_them_leaves_no_descriptor_open(stack):
    loop = Loop(stack)
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - names are numbers here
    for _ in range(3):
        carrying([loop.port])
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


def test_a_stuck_one_is_silent_afterwards_and_can_still_be_taken_out_and_closed(stack):
    loop = Loop(stack)
    loop.ends_unread()
    (stuck,) = carrying([loop.port])
    assert silence(stuck)
    assert loop.events.poll(0.05) == []
    loop.events.unregister(loop.near)  # gloo ends the process where this fails
    loop.near.close()


def test_one_that_is_gone_or_another_by_now_is_left_alone(stack):
    loop = Loop(stack)
    stuck = connection(loop.near.fileno())
    assert not silence(TcpConnection(stuck.number, stuck.inode + 1))
    loop.near.close()
    assert not silence(stuck)


# ---- a back end that goes


class BackEnd:
    """Stands for one; nobody may have freed it while it is kept."""


@pytest.fixture
def freed(monkeypatch):
    """Says whether a back end that was handed over is free again."""
    monkeypatch.setattr(kept, "_KEPT", [])
    monkeypatch.setattr(module, "FREED_SECONDS", 0.05)

    def hand_over(step):
        back_end = BackEnd()
        alive = weakref.ref(back_end)
        step.until_freed(back_end)
        del back_end
        return alive() is None

    return hand_over


@pytest.fixture
def step():
    made = Step(lambda facts: None, before=())
    yield made
    made._cut.release()


def test_a_back_end_without_connections_is_free_at_once(stack, step, freed):
    loop = Loop(stack)
    loop.events.unregister(loop.near)
    step.ports = frozenset([loop.port])
    assert freed(step)


def test_one_whose_connections_go_in_a_moment_is_waited_for(stack, step, freed, monkeypatch):
    loop = Loop(stack)
    monkeypatch.setattr(module, "FREED_SECONDS", 60)
    step.ports = frozenset([loop.port])
    threading.Timer(0.1, loop.events.unregister, [loop.near]).start()
    assert freed(step)


def test_one_that_is_stuck_is_silenced_and_kept_until_gloo_gives_up(
    stack, step, freed, monkeypatch
):
    loop = Loop(stack)
    loop.ends_unread()
    step.ports = frozenset([loop.port])
    assert not freed(step)
    assert loop.events.poll(0.05) == []
    let_go()
    assert len(kept._KEPT) == 1
    monkeypatch.setattr(kept, "LIMIT_SECONDS", -1)
    let_go()
    assert kept._KEPT == []


def test_one_whose_thread_waits_without_a_connection_is_kept_and_the_thread_counts_once(
    step, freed, monkeypatch
):
    monkeypatch.setattr(kept, "waiting_threads", lambda: {7})
    assert not freed(step)
    assert freed(step)  # the next one has no part in it
    monkeypatch.setattr(kept, "waiting_threads", lambda: {7, 8})
    assert not freed(step)


def test_one_whose_threads_come_back_in_a_moment_is_waited_for(step, freed, monkeypatch):
    moments = iter([{7}, {7}])
    monkeypatch.setattr(kept, "waiting_threads", lambda: next(moments, set()))
    monkeypatch.setattr(module, "FREED_SECONDS", 60)
    assert freed(step)


def test_a_thread_that_waits_long_after_the_cut_is_stuck_without_a_connection(step, monkeypatch):
    monkeypatch.setattr(kept, "_KEPT", [])
    monkeypatch.setattr(kept, "waiting_threads", lambda: {7})
    step.cut()
    assert not step.stuck
    monkeypatch.setattr(module, "STUCK_SECONDS", -1)
    assert step.stuck
    keep(BackEnd(), {7})
    assert not step.stuck


def test_what_listens_for_one_that_is_kept_is_not_taken_for_the_next(stack, step, freed):
    loop = Loop(stack)
    loop.ends_unread()
    step.ports = frozenset([loop.port])
    freed(step)
    assert loop.port in step._before


def test_keeping_one_frees_none_of_those_before(freed):
    first, second = BackEnd(), BackEnd()
    keep(first, ())
    keep(second, ())
    assert [one.back_end for one in kept._KEPT] == [first, second]


@pytest.mark.parametrize(
    ("after", "watched", "expected"), [(0, True, False), (60, True, True), (60, False, False)]
)
def test_what_waits_long_after_its_collectives_were_cut_is_stuck(
    stack, step, monkeypatch, after, watched, expected
):
    loop = Loop(stack)
    step.ports = frozenset([loop.port])
    assert not step.stuck  # nothing was cut
    step.cut()
    if not watched:
        loop.events.unregister(loop.near)
    monkeypatch.setattr(module, "STUCK_SECONDS", -1 if after else 3600)
    assert step.stuck is expected
