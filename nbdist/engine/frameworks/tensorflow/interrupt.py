"""An interrupt reaches a worker that is blocked in a collective.

Python's handler of SIGINT runs on the main thread, between two instructions of Python; inside TensorFlow
there are none, and a collective whose peers do not come never ends. A thread of its own receives the signal and,
when the main thread does not come out of TensorFlow by itself, has TensorFlow abort its collectives. So it
does when the main thread came out at once and has left a collective behind: without `tf.function` those run
on threads of a pool, and the next collective of the peers would meet the one left behind.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from nbdist.engine.cell.code_owners import Stack, folders
from nbdist.engine.cell.main_thread import stack_reader
from nbdist.engine.frameworks.tensorflow.context import abort_collectives
from nbdist.message_guard import MessageGuard

logger = logging.getLogger(__name__)

MESSAGE = "interrupted by nbdist; run %dist_recover or session.recover() before the next collective"
"""Both are named: the thread that listens works for no call."""

PATIENCE_SECONDS = 0.2
"""Between the signal and the first look, and between looks. Python's own handler needs far less."""

CELL = b"\0"
"""Stands between the numbers of signals where a cell starts; no signal has that number."""

LOOKS = 10
"""At the states of all threads, in one such time: a process that computes is seen to."""


class Interrupts:
    """Receives SIGINT and frees the main thread from collectives; one for each process.

    Args:
      main_thread: `threading.Thread.ident` of the thread that runs cells.

    Attributes:
      freed: Whether collectives were aborted in this cell.
    """

    def __init__(self, main_thread: int) -> None:
        self._main_thread = main_thread
        self._stack = stack_reader(sys.version_info[:3])
        self._wakeup_read, self._wakeup_write = os.pipe()
        os.set_blocking(self._wakeup_write, False)
        self._before = -1
        self._pid = os.getpid()
        self._cells = 0
        self.freed = False

    def install(self) -> None:
        """Begins; on the main thread, like `signal.set_wakeup_fd`."""
        self._before = signal.set_wakeup_fd(self._wakeup_write, warn_on_full_buffer=False)
        os.register_at_fork(after_in_child=self._leave_fork)
        threading.Thread(target=self._listen, name="nbdist-interrupts", daemon=True).start()

    def uninstall(self) -> None:
        """Ends, and leaves the wake-up descriptor as it was; on the main thread."""
        if self._wakeup_write < 0:
            return
        current = signal.set_wakeup_fd(self._before)
        if current != self._wakeup_write:
            # Somebody has taken our place meanwhile, and keeps it.
            signal.set_wakeup_fd(current)
        os.close(self._wakeup_write)
        self._wakeup_write = -1

    def _leave_fork(self) -> None:
        # The signals of a child, such as one of multiprocessing, are not ours.
        if self._wakeup_write >= 0 and os.getpid() != self._pid:
            signal.set_wakeup_fd(-1)

    def _listen(self) -> None:
        guard = MessageGuard("An interrupt", logger)
        cell = 0
        while True:
            numbers = os.read(self._wakeup_read, 64)
            if not numbers:
                os.close(self._wakeup_read)
                return
            if self._before >= 0:
                with contextlib.suppress(OSError):
                    os.write(self._before, numbers.replace(CELL, b""))
            cell += numbers.count(CELL)
            if signal.SIGINT in numbers[numbers.rfind(CELL) + 1 :]:
                with guard:
                    self._free(cell)

    def _free(self, cell: int) -> None:
        """Looks until the cell has ended, or the main thread is out of TensorFlow, or was freed."""
        waits = False
        while not waits:
            time.sleep(PATIENCE_SECONDS)
            if self._cells != cell or not self.inside():
                return
            # Not by processor time: on a busy machine a process that computes may get little of it.
            waits = not computes(seconds=PATIENCE_SECONDS, looks=LOOKS)
        if self._cells != cell or not self.inside():
            return
        self.freed = True
        abort_collectives(MESSAGE)

    def begin(self) -> None:
        """A cell starts: an interrupt of an earlier one does not concern it, however late it is seen to."""
        self._cells += 1
        self.freed = False
        if self._wakeup_write < 0:
            return
        room = select.poll()
        room.register(self._wakeup_write, select.POLLOUT)
        room.poll()  # full of interrupts of earlier cells, which the thread passes over at once
        os.write(self._wakeup_write, CELL)

    def translated(self, error: BaseException | None) -> BaseException | None:
        """What a cell that ended with `error` has really ended with.

        What was aborted ends with `tf.errors.UnavailableError`, or with pybind11's complaint that Python's own
        handler has raised in the middle of it. It is an interrupt where an interrupt has aborted it.
        """
        if self.freed and isinstance(error, Exception):
            interrupt = KeyboardInterrupt(MESSAGE)
            interrupt.__cause__ = error
            return interrupt
        return error

    def inside(self) -> bool:
        """Whether the main thread is in TensorFlow, or another thread in one of its collectives."""
        if is_tensorflow(self._stack(self._main_thread)):
            return True
        others = (thread.ident for thread in threading.enumerate())
        return any(is_collective(self._stack(ident)) for ident in others if ident is not None)


def computes(*, seconds: float, looks: int) -> bool:
    """Whether another thread of this process is seen to run, or to be ready to; False where nobody says.

    Source: the state in `/proc/<pid>/task/<id>/stat`, proc(5).
    """
    own = str(threading.get_native_id())
    for _ in range(looks):
        time.sleep(seconds / looks)
        for task in Path("/proc/self/task").glob("[0-9]*"):
            with contextlib.suppress(OSError, IndexError):
                # The name of the thread, in parentheses, may hold anything.
                state = (task / "stat").read_text().rpartition(")")[2].split()[0]
                if state == "R" and task.name != own:
                    return True
    return False


def is_tensorflow(stack: Stack) -> bool:
    """Whether the innermost Python code is TensorFlow's."""
    inside = folders("tensorflow")
    return bool(stack) and bool(inside) and stack[0].filename.startswith(inside)


def is_collective(stack: Stack) -> bool:
    """Whether the innermost Python code is that of a collective operation."""
    # Private API, only read: generated from TensorFlow's op definitions (2.21). Gone: not found.
    return is_tensorflow(stack) and stack[0].filename.endswith("gen_collective_ops.py")


_installed: Interrupts | None = None


def install(main_thread: int) -> None:
    """Has interrupts reach this process also in a collective; a second call changes nothing.

    On the main thread.
    """
    global _installed
    if _installed is None:
        _installed = Interrupts(main_thread)
        _installed.install()
        _follow_cells(_installed)


def _follow_cells(interrupts: Interrupts) -> None:
    """Has cells of this process' IPython shell, if any, end with what they have really ended with.

    The reply to a cell is made from its result after the event that reports its end.
    """
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is None:
        return

    def finished(result: Any) -> None:
        result.error_in_exec = interrupts.translated(result.error_in_exec)

    shell.events.register("pre_run_cell", lambda info: interrupts.begin())
    shell.events.register("post_run_cell", finished)


def uninstall() -> None:
    """Leaves signals as they were; on the main thread."""
    global _installed
    if _installed is not None:
        _installed.uninstall()
        _installed = None
