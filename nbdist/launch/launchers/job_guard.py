"""Guard that runs a command for as long as the kernel lives: `python -m nbdist.launch.launchers.job_guard srun …`.

The command's input comes from the kernel. Its end reaches the tasks, which then end by themselves. But `srun` does
not read its input while its job waits, nor does `mpirun` while it connects: they would keep waiting after the
kernel is gone. So this process watches for the end of the input, and ends a command that outlives it; if this
process is killed, the operating system ends the command. The input of a kept command never ends; for such a
command, this process watches the kernel itself until others can find the session.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from types import FrameType

from nbdist.launch.agents.fifo_channel import KERNEL, MARKER
from nbdist.machine.processes import die_with

LOOK_MS = 1000
"""Milliseconds between two checks that the kernel still lives, for a command whose input never ends."""

END_SECONDS = 2.0
"""Seconds that tasks may take to end by themselves; on SIGTERM `srun` kills them, and they clean up nothing."""

TERMINATE_SECONDS = 5.0
"""Seconds that a command may take to cancel its job after SIGTERM."""


def hold(command: list[str], orders: int = 0) -> int:
    """Run the command until it ends, or until no process can write to `orders` any more.

    Returns:
      The command's exit status; 128 plus the signal's number if a signal ended it, as in a shell.
    """
    me = os.getpid()
    wakeup, wake = os.pipe()
    for descriptor in (wakeup, wake):
        os.set_blocking(descriptor, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, _nothing)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    kernel, marker = os.environ.pop(KERNEL, None), os.environ.pop(MARKER, "")
    child = subprocess.Popen(
        command,
        stdin=orders,
        # The signal comes when the parent thread ends; this process has one thread, so not before its own end.
        preexec_fn=lambda: die_with(me, signal.SIGTERM),
    )
    signal.signal(signal.SIGTERM, lambda number, frame: child.terminate())
    poll = select.poll()
    poll.register(wakeup, select.POLLIN)
    poll.register(orders, 0)  # reports only the end of the input
    while child.poll() is None:
        ready = [descriptor for descriptor, _ in poll.poll(None if kernel is None else LOOK_MS)]
        if wakeup in ready:
            os.read(wakeup, 4096)
        if orders in ready or _is_deserted(kernel, marker):
            _end(child)
    return child.returncode if child.returncode >= 0 else 128 - child.returncode


def _is_deserted(kernel: str | None, marker: str) -> bool:
    """Return whether the kernel of a kept command ended before others could find the command."""
    return kernel is not None and os.getppid() != int(kernel) and not os.path.exists(marker)  # noqa: PTH110


def _end(child: subprocess.Popen[bytes]) -> None:
    """End a command whose tasks have been asked to end."""
    for seconds, then in ((END_SECONDS, child.terminate), (TERMINATE_SECONDS, child.kill)):
        deadline = time.monotonic() + seconds
        while child.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        if child.poll() is None:
            then()
    child.wait()


def _nothing(number: int, frame: FrameType | None) -> None:
    """Do nothing. A handler must be set, or nothing is written to the wake-up descriptor."""


def main() -> None:
    """Run the command of the command line, and exit with its status."""
    try:
        raise SystemExit(hold(sys.argv[1:]))
    except FileNotFoundError:
        raise SystemExit(f"{sys.argv[1]}: no such command on this machine") from None


if __name__ == "__main__":
    main()
