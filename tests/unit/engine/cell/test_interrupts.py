"""SIGINT raises in what a person has sent, and nowhere else; none is lost while that runs."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from nbdist.engine.cell import interrupts as module
from nbdist.engine.cell.interrupts import InterruptHandler
from nbdist.engine.kernel.calls import SentCall, interruptible
from tests.builders.clock import Clock

LONG_SECONDS = 30.0


@pytest.fixture
def interrupts() -> Iterator[InterruptHandler]:
    handler, hook = signal.getsignal(signal.SIGINT), sys.unraisablehook
    found = InterruptHandler()
    found.between_requests()
    yield found
    found.between_requests()
    signal.signal(signal.SIGINT, handler)
    sys.unraisablehook = hook


def press() -> None:
    signal.raise_signal(signal.SIGINT)


def wait() -> None:
    until = time.monotonic() + LONG_SECONDS
    while time.monotonic() < until:
        time.sleep(0.01)


class AtOnce(threading.Timer):
    """On a busy machine what is put off for a moment comes before anything else is done."""

    def start(self) -> None:
        self.function(*self.args)


def test_one_outside_a_window_raises_nothing(interrupts: InterruptHandler) -> None:
    press()
    with interrupts.window():
        pass
    press()


def test_one_that_comes_before_a_window_is_raised_in_it(interrupts: InterruptHandler) -> None:
    press()
    with pytest.raises(KeyboardInterrupt), interrupts.window():
        wait()


def test_one_of_an_earlier_request_is_not(interrupts: InterruptHandler) -> None:
    press()
    interrupts.between_requests()
    with interrupts.window():
        time.sleep(0.1)


def test_each_is_raised_in_a_window(interrupts: InterruptHandler) -> None:
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt), interrupts.window():
            press()
    with interrupts.window():
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                press()


def test_none_leaves_a_lock_locked(interrupts: InterruptHandler) -> None:
    """Without care, a third of the interrupts that hit an event leave it locked for ever."""
    for _ in range(60):
        event = threading.Event()
        event.set()
        with pytest.raises(KeyboardInterrupt), interrupts.window():
            threading.Timer(0.001, os.kill, (os.getpid(), signal.SIGINT)).start()
            while True:
                event.wait()
        assert event._cond.acquire(blocking=False)  # type: ignore[attr-defined]


def test_on_a_busy_machine_a_second_alone_does_not_end_the_care(
    interrupts: InterruptHandler, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = itertools.count(0.0, 2.0)
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    monkeypatch.setattr(interrupts, "again", lambda: None)
    locking: Any = SimpleNamespace(f_code=threading.Condition.__enter__.__code__)
    with interrupts.window():
        for _ in range(module.MOST_EDGES - 1):
            interrupts._handle(signal.SIGINT, locking)
        with pytest.raises(KeyboardInterrupt):
            interrupts._handle(signal.SIGINT, locking)


def test_one_that_was_put_off_and_comes_again_at_once_is_not_lost(
    interrupts: InterruptHandler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine what was put off for a moment comes before the handler has ended."""
    monkeypatch.setattr(module.threading, "Timer", AtOnce)
    with pytest.raises(KeyboardInterrupt), interrupts.window():
        with interrupts.put_off():
            press()
        wait()


def test_one_that_comes_while_a_window_opens_is_raised_in_it(
    interrupts: InterruptHandler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine one that waited for the window comes again before the window is open."""
    begun: list[bool] = []

    class FirstAtOnce(threading.Timer):
        def start(self) -> None:
            begun.append(True)
            if len(begun) == 1:
                self.function(*self.args)
            else:
                super().start()

    monkeypatch.setattr(module.threading, "Timer", FirstAtOnce)
    press()
    with pytest.raises(KeyboardInterrupt), interrupts.window():
        wait()
    assert len(begun) == 2
    with interrupts.window():
        time.sleep(0.1)


def test_one_that_is_put_off_for_too_long_leaves_no_window_open(
    interrupts: InterruptHandler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module.threading, "Timer", AtOnce)
    press()
    with pytest.raises(KeyboardInterrupt), interrupts.window():
        raise AssertionError("the window has opened")
    press()  # there is no window in which it could be raised


def test_who_waits_for_a_lock_is_interrupted(interrupts: InterruptHandler) -> None:
    locked = threading.Lock()
    condition = threading.Condition(locked)
    with locked, pytest.raises(KeyboardInterrupt), interrupts.window():
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
        with condition:
            pass


def test_what_is_put_off_is_raised_after_it(interrupts: InterruptHandler) -> None:
    done = []
    with pytest.raises(KeyboardInterrupt), interrupts.window():
        with interrupts.put_off():
            press()
            time.sleep(3 * module.AGAIN_SECONDS)
            done.append(1)
        wait()
    assert done == [1]


def test_what_is_put_off_is_raised_before_the_next_begins(
    interrupts: InterruptHandler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "AGAIN_SECONDS", LONG_SECONDS)
    done = []
    with pytest.raises(KeyboardInterrupt), interrupts.window():
        for step in range(3):
            with interrupts.put_off():
                press()
                done.append(step)
    assert done == [0]


def test_what_takes_long_is_interrupted_all_the_same(
    interrupts: InterruptHandler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "DELAY_SECONDS", 2 * module.AGAIN_SECONDS)
    with pytest.raises(KeyboardInterrupt), interrupts.window(), interrupts.put_off():
        press()
        wait()


def test_one_is_put_off_for_a_time_and_not_so_many_times(
    interrupts: InterruptHandler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where Python runs the handler seldom, as while JAX waits in C++ for a value."""
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(module, "AGAIN_SECONDS", LONG_SECONDS)
    with pytest.raises(KeyboardInterrupt), interrupts.window(), interrupts.put_off():
        for _ in range(10):
            press()
            clock.sleep(0.2)
    assert clock.now - Clock().now == pytest.approx(1.0, abs=0.21)


def test_one_between_two_steps_waits_for_the_next_that_may_leave(
    interrupts: InterruptHandler,
) -> None:
    done: list[int] = []
    with pytest.raises(KeyboardInterrupt), interrupts.window(), interrupts.stepping():
        press()
        for step in range(5):
            with interrupts.put_off(lambda: len(done) >= 3):
                done.append(step)
    assert done == [0, 1, 2]


def test_one_that_waits_for_a_step_is_raised_when_there_is_none(
    interrupts: InterruptHandler,
) -> None:
    done = []
    with pytest.raises(KeyboardInterrupt), interrupts.window():
        with interrupts.stepping():
            press()
            done.append(1)
        wait()
    assert done == [1]


def test_another_thread_puts_nothing_off(interrupts: InterruptHandler) -> None:
    def whole() -> None:
        with interrupts.put_off():
            begun.set()
            wait()

    begun = threading.Event()
    threading.Thread(target=whole, daemon=True).start()
    assert begun.wait(LONG_SECONDS)
    with pytest.raises(KeyboardInterrupt), interrupts.window():
        press()
        wait()


def test_where_one_reply_is_made_only_the_first_is_raised(interrupts: InterruptHandler) -> None:
    with interrupts.window(once=True):
        with pytest.raises(KeyboardInterrupt):
            press()
        press()
        with pytest.raises(KeyboardInterrupt), interrupts.window():
            press()
        press()


def test_what_was_interrupted_is_leaving_for_a_moment(
    interrupts: InterruptHandler, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not interrupts.leaving
    with pytest.raises(KeyboardInterrupt), interrupts.window():
        press()
    assert interrupts.leaving
    monkeypatch.setattr(module, "LEAVING_SECONDS", 0.0)
    assert not interrupts.leaving
    monkeypatch.undo()
    interrupts.between_requests()
    assert not interrupts.leaving


class Watched:
    """A weak reference can lead to it."""


def test_one_that_a_callback_swallows_is_raised_again(interrupts: InterruptHandler) -> None:
    interrupts.install(Kernel(), Shell(wait), interruptible=interruptible)
    watched = Watched()
    callback = weakref.ref(watched, lambda _: press())
    with pytest.raises(KeyboardInterrupt), interrupts.window():
        del watched
        wait()
    assert callback() is None


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_what_else_a_callback_raises_is_left_to_others(interrupts: InterruptHandler) -> None:
    said: list[Any] = []
    sys.unraisablehook = said.append
    interrupts.install(Kernel(), Shell(wait), interruptible=interruptible)
    watched = Watched()
    callback = weakref.ref(watched, lambda _: 1 // 0)
    with interrupts.window():
        del watched
        time.sleep(0.1)
    assert callback() is None
    assert [one.exc_type for one in said] == [ZeroDivisionError]


class Kernel:
    """What of an ipyparallel kernel is put in place."""

    def __init__(self) -> None:
        self.applied: list[Any] = []

    def pre_handler_hook(self) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)

    def post_handler_hook(self) -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    def do_apply(
        self, content: Callable[[], Any], buffers: Any, number: Any, metadata: dict[str, Any]
    ) -> Any:
        try:
            return content()
        except KeyboardInterrupt:
            press()
            return "replied"


class Shell:
    """What of IPython's shell is put in place."""

    def __init__(self, code: Callable[[], None]) -> None:
        self._code = code

    async def run_code(self, code: str, *, result: str) -> tuple[str, str]:
        self._code()
        return code, result


def test_only_what_a_person_wrote_is_interrupted(interrupts: InterruptHandler) -> None:
    kernel = Kernel()
    interrupts.install(kernel, Shell(wait), interruptible=interruptible)
    for call in ("prove", "save", "restore"):
        kernel.pre_handler_hook()
        press()
        assert kernel.do_apply(lambda: 7, [], 1, {"label": SentCall(call, "{}").label}) == 7
    for label in (SentCall("offer", "{}").label, "", "theirs", None):
        kernel.pre_handler_hook()
        press()
        assert kernel.do_apply(wait, [], 1, {"label": label}) == "replied"


def test_an_engine_runs_code_in_windows_and_replies_outside(interrupts: InterruptHandler) -> None:
    kernel, shell = Kernel(), Shell(wait)
    interrupts.install(kernel, shell, interruptible=interruptible)
    kernel.pre_handler_hook()
    press()
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(shell.run_code("1", result="r"))
    kernel.pre_handler_hook()
    press()
    assert kernel.do_apply(wait, [], 1, {"label": None}) == "replied"
    kernel.post_handler_hook()
    press()
    shell = Shell(lambda: None)
    interrupts.install(kernel, shell, interruptible=interruptible)
    assert asyncio.run(shell.run_code("1", result="r")) == ("1", "r")


def test_it_is_a_keyboard_interrupt_in_few_lines(interrupts: InterruptHandler) -> None:
    press()
    with pytest.raises(KeyboardInterrupt) as raised, interrupts.window():
        wait()
    assert type(raised.value).__name__ == "KeyboardInterrupt"
    shown = raised.value._render_traceback_()  # type: ignore[attr-defined]
    assert shown[0] == "KeyboardInterrupt"
    assert any(line.endswith("in wait") for line in shown)
    assert len(shown) <= 1 + module.MOST_FRAMES
