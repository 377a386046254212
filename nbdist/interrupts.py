"""Interrupts of this kernel (SIGINT), put off until what they would end halfway is whole.

Python raises `KeyboardInterrupt` in the main thread between any two instructions. In the middle of
`threading.Condition.__enter__`, of which futures, events and queues are made, it leaves a lock taken for ever. The
thread on which ipyparallel reads what engines answer then waits for that lock: no process answers any more, and
closing the client does not end. So whatever the main thread does with futures, events and ipyparallel is put into
`put_off`, and an interrupt is raised where nothing is lost by it.

On other threads than the main thread nothing is interrupted, and nothing here does anything.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from IPython import get_ipython

LOOK_SECONDS = 0.02
"""How often is looked whether the kernel is to end."""


class _MainThread:
    """What is known of the interrupts of this process.

    Attributes:
      depth: In how many `put_off`s the main thread is.
      came: Whether an interrupt has come that is put off.
      before: Who takes interrupts otherwise; callable while `depth` is not 0.
    """

    def __init__(self) -> None:
        self.depth = 0
        self.came = False
        self.before: Any = None

    def note(self, number: int, frame: FrameType | None) -> None:
        """Handles SIGINT while it is put off."""
        self.came = True

    def pass_on(self) -> None:
        """Has whoever takes interrupts otherwise take one that has come: Python's own raises."""
        if self.came:
            self.came = False
            self.before(signal.SIGINT, sys._getframe(1))


_main = _MainThread()


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


@contextlib.contextmanager
def put_off() -> Iterator[None]:
    """What runs in it is done whole: an interrupt that comes meanwhile is raised after it.

    One in another ends with it. Where interrupts are ignored, or end the process, that stays so.

    Raises:
      KeyboardInterrupt: When the outermost ends, if one has come.
    """
    if not _is_main_thread():
        yield
        return
    if _main.depth:
        _main.depth += 1
        try:
            yield
        finally:
            _main.depth -= 1
        return
    before = signal.getsignal(signal.SIGINT)
    if not callable(before):
        yield
        return
    _main.before, _main.came = before, False
    try:
        signal.signal(signal.SIGINT, _main.note)
        _main.depth = 1
        yield
    except KeyboardInterrupt:
        _main.came = False  # who has pressed it again is answered by the one that is on its way
        raise
    finally:
        _main.depth = 0
        signal.signal(signal.SIGINT, before)
        _main.pass_on()


def raise_put_off() -> None:
    """Raises an interrupt that is put off, at a place at which nothing is halfway.

    Raises:
      KeyboardInterrupt: One has come.
    """
    if _main.depth and _is_main_thread():
        _main.pass_on()


@contextlib.contextmanager
def let_through() -> Iterator[None]:
    """What runs in it is interrupted at once, also where interrupts are put off: it waits for a person.

    Raises:
      KeyboardInterrupt: One was put off.
    """
    if not _main.depth or not _is_main_thread():
        yield
        return
    _main.pass_on()
    depth, _main.depth = _main.depth, 0
    try:
        signal.signal(signal.SIGINT, _main.before)
        yield
    finally:
        signal.signal(signal.SIGINT, _main.note)
        _main.depth = depth


def kernel_ends(*, within_s: float) -> bool:
    """Whether the front end asks this kernel to end, now or in a moment.

    A restart begins with the same interrupt as the stop button; the request to end follows it at once, and is
    taken on a thread of its own.

    Private API: `Kernel._shutdown_message` (ipykernel 6 and 7), set when the request was taken. Without it, the
    answer is no.
    """
    kernel = getattr(get_ipython(), "kernel", None)
    until = time.monotonic() + within_s
    while kernel is not None:
        if getattr(kernel, "_shutdown_message", None) is not None:
            return True
        if time.monotonic() >= until:
            break
        time.sleep(LOOK_SECONDS)
    return False


@contextlib.contextmanager
def taken_by(action: Callable[[], object]) -> Iterator[None]:
    """Interrupts do this, and no more, while what is in it runs."""
    if not _is_main_thread():
        yield
        return
    doing = False

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal doing
        if doing:  # it could wait for a lock that the first has taken
            return
        doing = True
        try:
            action()
        finally:
            doing = False

    before = signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL if before is None else before)
