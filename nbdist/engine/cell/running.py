"""The cell that runs now, as written by the main thread and read by the probe."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RunningCell:
    """One cell in progress.

    `number` is the notebook's execution count, `started` a `time.monotonic()` in seconds. Line n of the notebook's
    cell is `lines[n - 1]`. `loop` is the event loop in which the cell was started, if any: a cell that awaits is
    found there. `run` is the number of this sending of the cell, the same on all processes and rising within a
    session. `targets` are the processes that the cell was sent to. Where the request says neither, `run` is None
    and `targets` is empty.
    """

    number: int
    started: float
    lines: tuple[str, ...]
    loop: asyncio.AbstractEventLoop | None
    run: int | None = None
    targets: tuple[int, ...] = ()


class CurrentCell:
    """State of the main thread: the cell that it runs, and how the last one ended.

    Written on the main thread only. Each change replaces one attribute by a frozen value, so readers on other
    threads need no lock and never make the main thread wait.

    Attributes:
      running: The cell in progress; None between cells.
      error: The error of the last finished cell, as text; None where it raised none.
      newest_run: The `run` of the newest cell that has begun; None before the first.
    """

    def __init__(self) -> None:
        self.running: RunningCell | None = None
        self.error: str | None = None
        self.newest_run: int | None = None
        self._at_edges: tuple[Callable[[], None], ...] = ()
        self._after_each: tuple[Callable[[], None], ...] = ()

    def at_edges(self, call: Callable[[], None]) -> None:
        """Register a call for each start and each end of a cell, on the main thread; it must not raise."""
        self._at_edges = (*self._at_edges, call)

    def after_each(self, call: Callable[[], None]) -> None:
        """Register a call for when a cell has ended, on the main thread; it must not raise."""
        self._after_each = (*self._after_each, call)

    def started(
        self, number: int, source: str, *, run: int | None = None, targets: tuple[int, ...] = ()
    ) -> None:
        """Note that a cell begins; `source` counts from the first line of the notebook's cell."""
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
        """Note that the cell has ended; `error` is its error, such as `"ValueError: empty batch"`."""
        self.error = error
        for call in self._at_edges:
            call()
        self.running = None
        for call in self._after_each:
            call()
