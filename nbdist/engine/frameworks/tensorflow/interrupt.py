"""Interrupts of a worker that is blocked in a collective of TensorFlow, and the reset of TensorFlow after them.

Python's handler of SIGINT runs on the main thread, between two instructions of Python. While the main thread is
inside TensorFlow, it runs no instructions of Python, and a collective whose peers do not come never ends. So a
thread of `Interrupts` receives the signal. If the main thread does not leave TensorFlow by itself, this thread
makes TensorFlow abort its collectives. The thread does the same if the main thread left TensorFlow at once, with a
collective still running: without `tf.function`, collectives run on threads of a pool, and the peers' next
collective would be paired with the old one.
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

from nbdist.engine.cell.stacks import Stack, folders, stack_reader
from nbdist.message_guard import MessageGuard
from nbdist.spelling import command

logger = logging.getLogger(__name__)

UNAVAILABLE = 14
"""The code of `tf.errors.UnavailableError`."""


def started() -> bool:
    """Return whether TensorFlow has its devices; never start it.

    Private API: `tensorflow.python.eager.context._context` and its `_context_handle` (TensorFlow 2.21); the public
    functions would start the context. If they are missing, the answer is False, and reports show no TensorFlow.
    """
    module = sys.modules.get("tensorflow.python.eager.context")
    found = getattr(module, "_context", None)
    return getattr(found, "_context_handle", None) is not None


def abort_collectives(message: str) -> bool:
    """Make all collectives that run raise `tf.errors.UnavailableError`; call this from any thread.

    Later collectives fail until `reset_context`.

    Private API: `context().abort_collective_ops(code, message)` (TensorFlow 2.21), with which TensorFlow's own
    strategies react to a lost worker. If it is missing, a worker stays blocked until its peers come or end.

    Returns:
      Whether the collectives were aborted.
    """
    if not started():
        # The call would wait for the start, in which the main thread may be blocked.
        return False
    context = sys.modules["tensorflow.python.eager.context"].context()
    abort = getattr(context, "abort_collective_ops", None)
    if abort is None:
        return False
    abort(UNAVAILABLE, message)
    return True


def reset_context() -> None:
    """Forget the cluster, so that a strategy can be made for another one; call this on the main thread.

    Visible devices and logical devices stay as they were. Objects of the old context (variables, models, datasets,
    strategies) cannot be used any more; Keras' session is cleared. The reset takes less than 0.1 s; the new
    strategy connects in about 1 s.

    Private API: `tensorflow.python.eager.context._reset_context` (TensorFlow 2.21), "only for testing".

    Raises:
      RuntimeError: That function is missing; only new processes help.
    """
    import tensorflow as tf
    from tensorflow.python.eager import context

    reset = getattr(context, "_reset_context", None)
    if reset is None:
        raise RuntimeError(
            f"TensorFlow {tf.__version__} cannot start again in the same process: run "
            f"{command('restart')} for new processes."
        )
    _clear_keras()
    devices = _settled_devices(tf)
    reset()
    for visible, kind in devices["visible"]:
        tf.config.set_visible_devices(visible, kind)
    for device, logical in devices["logical"]:
        tf.config.set_logical_device_configuration(device, logical)


def _settled_devices(tf: Any) -> dict[str, Any]:
    kinds = {device.device_type for device in tf.config.list_physical_devices()}
    logical = [
        (device, tf.config.get_logical_device_configuration(device))
        for device in tf.config.list_physical_devices()
    ]
    return {
        "visible": [(tf.config.get_visible_devices(kind), kind) for kind in sorted(kinds)],
        "logical": [(device, settled) for device, settled in logical if settled],
    }


def _clear_keras() -> None:
    """Clear Keras' session: its names and generators hold variables of the old context."""
    for name in ("keras", "tf_keras"):
        keras = sys.modules.get(name)
        backend = getattr(keras, "backend", None)
        if backend is not None and backend.backend() == "tensorflow":
            backend.clear_session()


MESSAGE = "interrupted by nbdist; run %dist_recover or session.recover() before the next collective"
"""The text of aborted collectives, which names the magic and the function: the thread that listens does not know
which of them a person uses."""

PATIENCE_SECONDS = 0.2
"""The time between the signal and the first look, and between two looks. Python's own handler needs far less."""

CELL = b"\0"
"""The mark of a cell's start between the numbers of signals; no signal has this number."""

LOOKS = 10
"""Reads of the states of all threads in `PATIENCE_SECONDS`, to see whether the process computes."""


class Interrupts:
    """Receiver of SIGINT that frees the main thread from collectives; one for each process.

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
        """Begin to receive; called on the main thread, as `signal.set_wakeup_fd` must be."""
        self._before = signal.set_wakeup_fd(self._wakeup_write, warn_on_full_buffer=False)
        os.register_at_fork(after_in_child=self._leave_fork)
        threading.Thread(target=self._listen, name="nbdist-interrupts", daemon=True).start()

    def _leave_fork(self) -> None:
        # A forked child, such as one of multiprocessing, handles its signals itself.
        if os.getpid() != self._pid:
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
        """Look until the cell has ended or the process is out of TensorFlow; abort collectives if it waits."""
        waits = False
        while not waits:
            time.sleep(PATIENCE_SECONDS)
            if self._cells != cell or not self.inside():
                return
            # Processor time is no measure here: on a busy machine, a process that computes may get little of it.
            waits = not computes(seconds=PATIENCE_SECONDS, looks=LOOKS)
        if self._cells != cell or not self.inside():
            return
        self.freed = True
        abort_collectives(MESSAGE)

    def begin(self) -> None:
        """Begin a cell: an interrupt of an earlier cell has no effect on this one, however late it is handled."""
        self._cells += 1
        self.freed = False
        room = select.poll()
        room.register(self._wakeup_write, select.POLLOUT)
        room.poll()  # waits while the pipe is full of earlier interrupts, which the thread soon reads
        os.write(self._wakeup_write, CELL)

    def translated(self, error: BaseException | None) -> BaseException | None:
        """Return a `KeyboardInterrupt` if an interrupt has aborted the cell's collectives, else `error` itself.

        An aborted collective raises `tf.errors.UnavailableError`, or pybind11's error that Python's own handler
        has raised in the middle of the call.
        """
        if self.freed and isinstance(error, Exception):
            interrupt = KeyboardInterrupt(MESSAGE)
            interrupt.__cause__ = error
            return interrupt
        return error

    def inside(self) -> bool:
        """Return whether the main thread is in TensorFlow, or another thread in one of its collectives."""
        if is_tensorflow(self._stack(self._main_thread)):
            return True
        others = (thread.ident for thread in threading.enumerate())
        return any(is_collective(self._stack(ident)) for ident in others if ident is not None)


def computes(*, seconds: float, looks: int) -> bool:
    """Return whether another thread of this process runs or is ready to run; False where the system does not say.

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
    """Return whether the innermost Python code is TensorFlow's."""
    inside = folders("tensorflow")
    return bool(stack) and bool(inside) and stack[0].filename.startswith(inside)


def is_collective(stack: Stack) -> bool:
    """Return whether the innermost Python code is that of a collective operation."""
    # Private API: the name of a file generated from TensorFlow's op definitions (2.21). If it has changed, no
    # collective is found.
    return is_tensorflow(stack) and stack[0].filename.endswith("gen_collective_ops.py")


_installed: Interrupts | None = None


def install(main_thread: int) -> None:
    """Make interrupts reach collectives, too; called on the main thread. A second call changes nothing."""
    global _installed
    if _installed is None:
        _installed = Interrupts(main_thread)
        _installed.install()
        _follow_cells(_installed)


def _follow_cells(interrupts: Interrupts) -> None:
    """Replace the error of each cell of this process's IPython shell, if any, by the translated one.

    IPython makes the reply to a cell from its result after the event `post_run_cell`.
    """
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is None:
        return

    def finished(result: Any) -> None:
        result.error_in_exec = interrupts.translated(result.error_in_exec)

    shell.events.register("pre_run_cell", lambda info: interrupts.begin())
    shell.events.register("post_run_cell", finished)
