"""The cell that runs now, as written by the main thread and read by the probe."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RunningCell:
    """One cell in progress.

    `number` is the notebook's execution count, `started` a `time.monotonic()` in seconds. Line n of the
    notebook's cell is `lines[n - 1]`. `loop` is the event loop it was started in, if any: where the cell
    is found while it awaits. `run` is the number of this sending of it, the same on all processes and
    rising within a session, and `targets` are the processes it was sent to; None and empty where the
    request does not say.
    """

    number: int
    started: float
    lines: tuple[str, ...]
    loop: asyncio.AbstractEventLoop | None
    run: int | None = None
    targets: tuple[int, ...] = ()


class CurrentCell:
    """What the main thread is at.

    Written on the main thread only. Each change replaces one attribute by a frozen value, so readers on
    other threads need no lock and never make the main thread wait.

    Attributes:
      running: The cell in progress; None between cells.
      error: What the last finished cell raised, as text; None when it did not.
      newest_run: The `run` of the newest cell that has begun; None before the first.
    """

    def __init__(self) -> None:
        self.running: RunningCell | None = None
        self.error: str | None = None
        self.newest_run: int | None = None
        self._at_edges: tuple[Callable[[], None], ...] = ()
        self._after_each: tuple[Callable[[], None], ...] = ()

    def at_edges(self, call: Callable[[], None]) -> None:
        """Has `call` called on the main thread at each start and each end; it must not raise."""
        self._at_edges = (*self._at_edges, call)

    def after_each(self, call: Callable[[], None]) -> None:
        """Has `call` called on the main thread when a cell has ended; it must not raise."""
        self._after_each = (*self._after_each, call)

    def started(
        self, number: int, source: str, *, run: int | None = None, targets: tuple[int, ...] = ()
    ) -> None:
        """A cell begins.

        Args:
          number: The notebook's execution count.
          source: Its text, counted from the first line of the notebook's cell.
          run: The number of this sending of it.
          targets: The processes it was sent to.
        """
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            loop = None
        lines = tuple(source.splitlines())
        self.newest_run = run if run is not None else self.newest_run
        self.running = RunningCell(number, time.monotonic(), lines, loop, run, targets)
        for call in self._at_edges:
            call()

    def finished(self, error: str | None = None) -> None:
        """The cell has ended; `error` is what it raised, such as `"ValueError: empty batch"`."""
        self.error = error
        for call in self._at_edges:
            call()
        self.running = None
        for call in self._after_each:
            call()
