"""Interrupts of a kernel that are put off: nothing is left halfway, and none is lost."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from types import SimpleNamespace
from typing import Any

import pytest
from ipykernel.kernelbase import Kernel

from nbdist import interrupts
from nbdist.interrupts import kernel_ends, let_through, put_off, raise_put_off, taken_by


def interrupt() -> None:
    """One comes at once, on the main thread."""
    signal.raise_signal(signal.SIGINT)


@pytest.fixture(autouse=True)
def as_in_a_kernel() -> Iterator[None]:
    """What takes interrupts in a notebook's kernel while a cell runs."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("message", [None, {"content": {"restart": True}}])
def test_a_kernel_that_is_asked_to_end_is_known_to(
    monkeypatch: pytest.MonkeyPatch, message: object
) -> None:
    shell = SimpleNamespace(kernel=SimpleNamespace(_shutdown_message=message))
    monkeypatch.setattr(interrupts, "get_ipython", lambda: shell)
    assert kernel_ends(within_s=0.0) is (message is not None)
    monkeypatch.setattr(interrupts, "get_ipython", lambda: None)
    assert not kernel_ends(within_s=600.0)  # there is nobody to ask


def test_ipykernel_notes_that_it_is_asked_to_end_where_that_is_looked_for() -> None:
    assert Kernel._shutdown_message is None


def test_what_is_interrupted_is_done_whole_and_then_raises() -> None:
    done = []
    with pytest.raises(KeyboardInterrupt), put_off():
        with put_off():
            interrupt()
            done.append("inner")
        done.append("outer")
    assert done == ["inner", "outer"]


def test_one_that_is_put_off_is_raised_once_where_that_is_asked_for() -> None:
    with put_off():
        raise_put_off()  # none has come
        interrupt()
        with pytest.raises(KeyboardInterrupt):
            raise_put_off()
        raise_put_off()


def test_one_that_comes_while_something_fails_is_raised_with_its_error_as_context() -> None:
    with pytest.raises(KeyboardInterrupt) as raised, put_off():
        interrupt()
        raise ValueError("meanwhile")
    assert isinstance(raised.value.__context__, ValueError)


def test_one_that_comes_while_another_is_on_its_way_does_not_take_its_place() -> None:
    with pytest.raises(KeyboardInterrupt, match="with what it says"), put_off():
        try:
            interrupt()
            raise_put_off()
        except KeyboardInterrupt:
            interrupt()
            raise KeyboardInterrupt("with what it says") from None
    with put_off():
        pass  # nothing is left of it


def test_who_waits_for_a_person_is_interrupted_at_once() -> None:
    reached = []
    with put_off():
        with pytest.raises(KeyboardInterrupt), let_through():
            interrupt()
            reached.append("behind it")
        interrupt()  # put off again
        with pytest.raises(KeyboardInterrupt), let_through():
            reached.append("one that had come before")
    assert reached == []


def test_outside_of_it_nothing_is_put_off() -> None:
    raise_put_off()
    with pytest.raises(KeyboardInterrupt), let_through():
        interrupt()


@pytest.mark.parametrize("handler", [signal.SIG_IGN, signal.SIG_DFL])
def test_where_interrupts_are_ignored_or_deadly_that_stays_so(handler: Any) -> None:
    signal.signal(signal.SIGINT, handler)
    with put_off(), let_through():
        raise_put_off()
        assert signal.getsignal(signal.SIGINT) is handler
    signal.signal(signal.SIGINT, signal.default_int_handler)


def test_a_handler_of_the_program_gets_what_was_put_off() -> None:
    taken: list[int] = []
    signal.signal(signal.SIGINT, lambda number, frame: taken.append(number))
    with put_off():
        interrupt()
        interrupt()
        assert taken == []
    assert taken == [signal.SIGINT]
    signal.signal(signal.SIGINT, signal.default_int_handler)


def test_an_action_that_is_interrupted_is_not_begun_again() -> None:
    calls = []

    def action() -> None:
        calls.append("begun")
        interrupt()
        calls.append("done")

    with put_off(), taken_by(action):
        interrupt()
    assert calls == ["begun", "done"]


def test_on_other_threads_nothing_changes() -> None:
    found = []

    def elsewhere() -> None:
        with put_off(), let_through(), taken_by(lambda: None):
            raise_put_off()
            found.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert found == [signal.default_int_handler]


def unlucky(monkeypatch: pytest.MonkeyPatch, nth: int) -> None:
    """An interrupt as the nth lock of an event is taken."""
    entered: Callable[[Any], Any] = threading.Condition.__enter__
    left = nth

    def interrupted(condition: threading.Condition) -> Any:
        nonlocal left
        found = entered(condition)
        left -= 1
        if not left:
            interrupt()
        return found

    monkeypatch.setattr(threading.Condition, "__enter__", interrupted)


@pytest.mark.parametrize("nth", range(1, 5))
def test_a_future_is_set_by_another_thread_after_an_interrupt_of_who_waits_for_it(
    monkeypatch: pytest.MonkeyPatch, nth: int
) -> None:
    future: Future[int] = Future()
    unlucky(monkeypatch, nth)
    with pytest.raises(KeyboardInterrupt), put_off():
        while not future.done():
            wait([future], timeout=0)
            raise_put_off()
    setting = threading.Thread(target=future.set_result, args=(3,), daemon=True)
    setting.start()
    setting.join(30)
    assert not setting.is_alive()
    assert future.result(0) == 3
