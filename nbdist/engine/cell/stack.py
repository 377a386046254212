"""Where the main thread stands: the line of the user's cell, and what it does there.

A stack is plain data here. A frame object keeps its local variables alive, so nothing here keeps one, and
none is asked for its `f_locals`, which would copy references to the user's arrays.
"""

from __future__ import annotations

import asyncio
import linecache
import os
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from pathlib import PurePath
from typing import Any, NamedTuple

from nbdist.engine.cell.running import RunningCell

CELL_FILE = re.compile(r"[/\\]ipykernel_\d+[/\\][^/\\]+\.py$|^<ipython-input-|^<nbdist cell ")
"""Names that ipykernel, IPython and nbdist give to the code of a cell."""

FRAMEWORKS = ("jax", "jaxlib", "tensorflow", "keras")

COMPILING_FILES = ("compiler.py", "interpreters/mlir.py", "interpreters/partial_eval.py")
"""Under `jax/_src`: XLA's compilation, lowering, tracing. Source: stacks sampled in jax 0.10.2."""

COMPILING_FUNCTIONS = {
    "pjit.py": {"_trace_for_jit", "_infer_params", "_resolve_and_lower"},
    "interpreters/pxla.py": {
        "lower_sharding_computation",
        "_cached_lowering_to_hlo",
        "_cached_compilation",
        "from_hlo",
        "compile",
    },
}

GUARDS = PurePath(__file__).parents[1] / "frameworks" / "keras" / "guards"
OWN_WAITS = {
    (str(GUARDS / "agreement.py"), "_wait"): "agreement",
    (str(GUARDS / "waiting.py"), "until_ready"): "framework",
}
"""Functions in which nbdist itself waits, before the framework would or in its place: they look again and again,
so that the innermost frame may be that of anything they call."""

STANDARD_LIBRARY = os.__file__.rpartition(os.sep)[0] + os.sep


SUSPENDED = {
    kind: attrgetter(f"{kind}_code.co_filename", f"{kind}_code.co_name", f"{kind}_frame.f_lineno")
    for kind in ("cr", "gi", "ag")
}
"""File name, function and line of what is suspended, by the prefix of its attributes.

Read in one call in C: no other thread runs meanwhile, so no frame object outlives its coroutine here.
"""


class Line(NamedTuple):
    """One entry of a stack; `line` is 1-based, None where no line belongs to the instruction."""

    filename: str
    function: str
    line: int | None


Stack = tuple[Line, ...]
"""Innermost first."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where the main thread stands; holds no frame.

    `line` is 1-based in the notebook's cell; both are None where no frame of the cell is found.
    `inside` says what the innermost Python frame belongs to: the framework, the standard library or
    IPython ("library"), or anything else, from where C++ may have been called directly ("user").
    "agreement" is where nbdist waits for other processes, whatever it calls there.
    """

    line: int | None
    source: str | None
    compiling: bool
    inside: str


def is_cell_file(filename: str) -> bool:
    """Whether code of this file name was compiled from a cell."""
    return CELL_FILE.search(filename) is not None


def place(stack: Stack, cell: RunningCell) -> Place:
    """Where a thread stands.

    Args:
      stack: Its stack, as `MainThread.stack` gives it; empty where it is not known.
      cell: The cell it runs.
    """
    inside = own_wait(stack) or (side(stack[0].filename) if stack else "library")
    compiling = is_compiling(stack)
    found = line_of_cell(stack) or line_of_cell(awaiting_lines(cell.loop))
    if found is None:
        return Place(None, None, compiling, inside)
    filename, line = found
    return Place(line, source_line(filename, line, cell), compiling, inside)


def line_of_cell(stack: Iterable[Line]) -> tuple[str, int] | None:
    """File name and line of the cell that runs.

    The outermost entry that was compiled from a cell is the cell that runs; functions of earlier cells,
    called from it, have files of their own. Of its entries the innermost tells the line.
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
    """Entries of the coroutines that wait in a loop, innermost first.

    A cell that awaits is on no thread's stack. Another thread may change the loop's tasks meanwhile;
    then nothing is found this time.
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
    """Entries of a chain of awaits, outermost first."""
    while waiting is not None:
        kind = next((kind for kind in SUSPENDED if hasattr(waiting, f"{kind}_code")), None)
        if kind is None:
            return
        try:
            yield Line(*SUSPENDED[kind](waiting))
        except AttributeError:
            # It has ended, and has no frame any more.
            return
        waiting = getattr(waiting, "gi_yieldfrom" if kind == "gi" else f"{kind}_await")


def source_line(filename: str, line: int, cell: RunningCell) -> str | None:
    """The text of a line, stripped; None where it is not known."""
    if 0 < line <= len(cell.lines):
        return cell.lines[line - 1].strip()
    return linecache.getline(filename, line).strip() or None


def is_compiling(stack: Stack) -> bool:
    """Whether a stack passes through JAX's tracing, lowering or XLA's compilation."""
    folders = framework_folders("jax")
    if not folders:
        return False
    source = f"{folders[0]}_src{os.sep}"
    for filename, function, _ in stack:
        if filename.startswith(source):
            tail = filename[len(source) :].replace(os.sep, "/")
            if tail in COMPILING_FILES or function in COMPILING_FUNCTIONS.get(tail, ()):
                return True
    return False


def own_wait(stack: Stack) -> str | None:
    """What a stack counts as that passes through one of nbdist's own waits; None where it does not."""
    found = (OWN_WAITS.get((filename, function)) for filename, function, _ in stack)
    return next(filter(None, found), None)


def framework_folders(*names: str) -> tuple[str, ...]:
    """Folders, each ending in a separator, of those frameworks that have been imported."""
    files = (getattr(sys.modules.get(name), "__file__", None) for name in names)
    return tuple(file.rpartition(os.sep)[0] + os.sep for file in files if file)


def side(filename: str) -> str:
    """Whom code of this file belongs to: "framework", "library" or "user"."""
    if is_cell_file(filename):
        return "user"
    if filename.startswith(framework_folders(*FRAMEWORKS)):
        return "framework"
    if _is_kernel_file(filename) or filename.startswith("<frozen "):
        return "library"
    standard = filename.startswith(STANDARD_LIBRARY) and "site-packages" not in filename
    return "library" if standard else "user"


def _is_kernel_file(filename: str) -> bool:
    return not {"IPython", "ipykernel", "ipyparallel", "zmq"}.isdisjoint(PurePath(filename).parts)
