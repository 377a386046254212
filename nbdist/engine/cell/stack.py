"""Position of the main thread: the line of the user's cell, and what the thread does there.

A stack is plain data here. A frame object keeps its local variables alive, so this module keeps none. Nor does it
read `f_locals`, which would copy references to the user's arrays.
"""

from __future__ import annotations

import asyncio
import linecache
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from nbdist.engine.cell.code_owners import CodeOwners, Line, Stack, is_cell_file
from nbdist.engine.cell.running import RunningCell

SUSPENDED = {
    kind: attrgetter(f"{kind}_code.co_filename", f"{kind}_code.co_name", f"{kind}_frame.f_lineno")
    for kind in ("cr", "gi", "ag")
}
"""File name, function and line of a suspended coroutine or generator, by the prefix of its attributes.

All are read in one call in C: no other thread runs meanwhile, so no frame object outlives its coroutine here."""


@dataclass(frozen=True, slots=True)
class Place:
    """Position of the main thread; holds no frame.

    `line` is 1-based in the notebook's cell. `line` and `source` are None where no frame of the cell is found.
    `inside` is the owner of the innermost Python frame: the framework ("framework"), the standard library or
    IPython ("library"), or any other code, from where C++ may have been called directly ("user"). "agreement"
    means that nbdist waits for other processes, whatever it calls there.
    """

    line: int | None
    source: str | None
    compiling: bool
    inside: str


def place(stack: Stack, cell: RunningCell, owners: CodeOwners) -> Place:
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
        return Place(None, None, compiling, inside)
    filename, line = found
    return Place(line, source_line(filename, line, cell), compiling, inside)


def line_of_cell(stack: Iterable[Line]) -> tuple[str, int] | None:
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


def awaiting_lines(loop: asyncio.AbstractEventLoop | None) -> Iterator[Line]:
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


def coroutine_lines(waiting: Any) -> Iterator[Line]:
    """Yield entries of a chain of awaits, outermost first."""
    while waiting is not None:
        kind = next((kind for kind in SUSPENDED if hasattr(waiting, f"{kind}_code")), None)
        if kind is None:
            return
        try:
            yield Line(*SUSPENDED[kind](waiting))
        except AttributeError:
            # The coroutine has ended, and has no frame any more.
            return
        waiting = getattr(waiting, "gi_yieldfrom" if kind == "gi" else f"{kind}_await")


def source_line(filename: str, line: int, cell: RunningCell) -> str | None:
    """Return the text of a line, stripped; None where it is not known."""
    if 0 < line <= len(cell.lines):
        return cell.lines[line - 1].strip()
    return linecache.getline(filename, line).strip() or None
