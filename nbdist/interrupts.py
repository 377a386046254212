"""Interrupts of this kernel (SIGINT), delayed while they would leave something half done.

Python raises `KeyboardInterrupt` in the main thread between any two instructions. In the middle of
`threading.Condition.__enter__`, which futures, events and queues use, an interrupt leaves a lock taken for ever.
The thread on which ipyparallel reads the engines' answers then waits for that lock: no more answers arrive, and
closing the client never returns. So the main thread uses futures, events and ipyparallel only within `put_off`,
and an interrupt is raised where nothing is lost.

Only the main thread is ever interrupted: on other threads the context managers and `raise_put_off` do nothing.
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

from nbdist.ipython_private import is_asked_to_end

LOOK_SECONDS = 0.02
"""Seconds between two looks whether the kernel is to end."""


class _MainThread:
    """The state of this process's interrupts.

    Attributes:
      depth: How many `put_off`s the main thread is in.
      came: Whether an interrupt has come and is put off.
      before: The usual handler, replaced for the time; callable while `depth` is not 0.
    """

    def __init__(self) -> None:
        self.depth = 0
        self.came = False
        self.before: Any = None

    def note(self, number: int, frame: FrameType | None) -> None:
        """Note a SIGINT that is put off."""
        self.came = True

    def pass_on(self) -> None:
        """Pass an interrupt that has come to the usual handler; Python's own raises."""
        if self.came:
            self.came = False
            self.before(signal.SIGINT, sys._getframe(1))


_main = _MainThread()


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


@contextlib.contextmanager
def put_off() -> Iterator[None]:
    """Delay interrupts while the block runs: one that comes meanwhile is raised after the block.

    Nested blocks are part of the outermost one. If interrupts are ignored, or end the process, that stays so.

    Raises:
      KeyboardInterrupt: At the end of the outermost block, if an interrupt has come.
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
        _main.came = False  # the exception in progress serves for a second interrupt too
        raise
    finally:
        _main.depth = 0
        signal.signal(signal.SIGINT, before)
        _main.pass_on()


def raise_put_off() -> None:
    """Raise a delayed interrupt; to be called where nothing is half done.

    Raises:
      KeyboardInterrupt: An interrupt has come.
    """
    if _main.depth and _is_main_thread():
        _main.pass_on()


@contextlib.contextmanager
def let_through() -> Iterator[None]:
    """Let interrupts through at once while the block waits for the user, even within `put_off`.

    Raises:
      KeyboardInterrupt: An interrupt was put off.
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
    """Return whether the front end asks this kernel to end, now or within `within_s`.

    A restart begins with the same interrupt as the stop button; the request to end follows at once, on a thread of
    its own.

    If ipykernel does not tell whether it has taken such a request, the result is False.
    """
    kernel = getattr(get_ipython(), "kernel", None)
    until = time.monotonic() + within_s
    while kernel is not None:
        if is_asked_to_end(kernel):
            return True
        if time.monotonic() >= until:
            break
        time.sleep(LOOK_SECONDS)
    return False


@contextlib.contextmanager
def taken_by(action: Callable[[], object]) -> Iterator[None]:
    """Make interrupts only call `action` while the block runs."""
    if not _is_main_thread():
        yield
        return
    doing = False

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal doing
        if doing:  # a second call could wait for a lock that the first has taken
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
