"""The cell that runs, and the position of the main thread in it: the line, and what the thread does there.

The main thread writes `CurrentCell`; the probe's and other threads read it, and find the position from a stack
(`place`). A stack is plain data here: no frame object is kept, since a frame keeps its local variables alive, and
`f_locals` is not read, since that would copy references to the user's arrays.
"""

from __future__ import annotations

import asyncio
import linecache
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from nbdist.engine.cell.stacks import CodeOwners, Stack, StackEntry, is_cell_file


@dataclass(frozen=True, slots=True)
class RunningCell:
    """One cell in progress.

    `number` is the notebook's execution count, `started` a `time.monotonic()` in seconds. Line n of the notebook's
    cell is `lines[n - 1]`. `loop` is the event loop in which the cell was started, if any; a cell that awaits is
    found there. `run` is the number of this sending of the cell, the same on all processes and rising within a
    session. `targets` are the processes that the cell was sent to. If the request has no such label, `run` is None
    and `targets` is empty.
    """

    number: int
    started: float
    lines: tuple[str, ...]
    loop: asyncio.AbstractEventLoop | None
    run: int | None = None
    targets: tuple[int, ...] = ()


class CurrentCell:
    """The state of the main thread: the cell that it runs, and how the last one ended.

    The main thread alone writes it. Each change replaces one attribute by a frozen value, so readers on other
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


SUSPENDED = {
    kind: attrgetter(f"{kind}_code.co_filename", f"{kind}_code.co_name", f"{kind}_frame.f_lineno")
    for kind in ("cr", "gi", "ag")
}
"""Readers of file name, function and line of a suspended coroutine or generator, by its attributes' prefix.

Each reads all in one call in C: no other thread runs meanwhile, so no frame object outlives its coroutine here."""


@dataclass(frozen=True, slots=True)
class Position:
    """A position of the main thread; holds no frame.

    `line` is 1-based in the notebook's cell. `line` and `source` are None where no frame of the cell is found.
    `inside` is the owner of the innermost Python frame: the framework ("framework"), the standard library or
    IPython ("library"), or any other code, from where C++ may have been called directly ("user"). "agreement"
    means that nbdist waits for other processes, whatever it calls there.
    """

    line: int | None
    source: str | None
    compiling: bool
    inside: str


def place(stack: Stack, cell: RunningCell, owners: CodeOwners) -> Position:
    """Return the position of a thread.

    Args:
      stack: The thread's stack, as `MainThread.stack` returns it; empty where it is not known.
      cell: The cell that the thread runs.
      owners: Tells whose code a file is.
    """
    inside = owners.wait(stack) or (owners.side(stack[0].filename) if stack else "library")
    compiling = owners.is_compiling(stack)
    found = line_of_cell(stack) or line_of_cell(awaiting_lines(cell.loop))
    if found is None:
        return Position(None, None, compiling, inside)
    filename, line = found
    return Position(line, source_line(filename, line, cell), compiling, inside)


def line_of_cell(stack: Iterable[StackEntry]) -> tuple[str, int] | None:
    """Return file name and line of the cell that runs.

    The outermost entry that was compiled from a cell is the cell that runs; functions of earlier cells, called
    from it, have files of their own. The innermost entry of that cell gives the line.
    """
    innermost: dict[str, int] = {}
    outermost = None
    for filename, _, line in stack:
        # Before its first statement the code of a cell is at line 0.
        if line and is_cell_file(filename):
            outermost = filename
            innermost.setdefault(outermost, line)
    return (outermost, innermost[outermost]) if outermost is not None else None


def awaiting_lines(loop: asyncio.AbstractEventLoop | None) -> Iterator[StackEntry]:
    """Yield entries of the coroutines that wait in a loop, innermost first.

    A cell that awaits is on no thread's stack. Another thread may change the loop's tasks meanwhile; then nothing
    is found this time.
    """
    if loop is None:
        return
    try:
        tasks = asyncio.all_tasks(loop)
    except RuntimeError:
        return
    for task in tasks:
        yield from reversed(list(coroutine_lines(task.get_coro())))


def coroutine_lines(waiting: Any) -> Iterator[StackEntry]:
    """Yield entries of a chain of awaits, outermost first."""
    while waiting is not None:
        kind = next((kind for kind in SUSPENDED if hasattr(waiting, f"{kind}_code")), None)
        if kind is None:
            return
        try:
            yield StackEntry(*SUSPENDED[kind](waiting))
        except AttributeError:
            # The coroutine has ended, and has no frame any more.
            return
        waiting = getattr(waiting, "gi_yieldfrom" if kind == "gi" else f"{kind}_await")


LONGEST_LINE = 300
"""The most characters of a line of code; each report carries the line of its process."""


def source_line(filename: str, line: int, cell: RunningCell) -> str | None:
    """Return the text of a line, stripped, and cut if it is very long; None where it is not known."""
    if 0 < line <= len(cell.lines):
        text = cell.lines[line - 1].strip()
    else:
        text = linecache.getline(filename, line).strip()
    return (f"{text[:LONGEST_LINE]}…" if len(text) > LONGEST_LINE else text) or None
