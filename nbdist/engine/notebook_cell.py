"""Cells of the notebook on the engine: its numbers, its lines, and when they begin and end.

A cell travels as plain code for ipyparallel's own execute request, under one comment line
(`HEADER`) that carries what the request has no place for. IPython's public hooks take it off again.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from nbdist.engine.cell import CurrentCell

HEADER = "# nbdist "
"""Starts the comment line; JSON follows: `cell` (the notebook's execution count) and `offset` (how many
lines of the notebook's cell stand above the code)."""


def with_header(code: str, *, cell: int, offset: int) -> str:
    """The code of an execute request for one cell of the notebook."""
    return f"{HEADER}{json.dumps({'cell': cell, 'offset': offset})}\n{code}"


class NotebookCells:
    """Hooks into one shell.

    Args:
      shell: The engine's IPython shell.
      cell: Told when a cell starts and ends.
      before_end: Called on the main thread when a cell's code has ended, before its reply.
    """

    def __init__(self, shell: Any, cell: CurrentCell, *, before_end: Callable[[], None]) -> None:
        self._shell = shell
        self._cell = cell
        self._before_end = before_end
        self._offset = 0
        self._number: int | None = None

    def install(self) -> None:
        """Registers the hooks; call once for each shell."""
        self._shell.input_transformers_cleanup.insert(0, self._take_header)
        self._shell.input_transformers_post.append(self._keep_line_numbers)
        self._shell.events.register("pre_run_cell", self._started)
        self._shell.events.register("post_run_cell", self._finished)

    def _take_header(self, lines: list[str]) -> list[str]:
        self._offset, self._number = 0, None
        if not lines or not lines[0].startswith(HEADER):
            return lines
        header = json.loads(lines[0].removeprefix(HEADER))
        self._offset, self._number = header["offset"], header["cell"]
        # Tracebacks say "Cell In[12]"; it is to be the notebook's number.
        self._shell.execution_count = self._number
        return lines[1:]

    def _keep_line_numbers(self, lines: list[str]) -> list[str]:
        return ["\n"] * self._offset + lines

    def _started(self, info: Any) -> None:
        if self._number is None:
            return
        # The header took the place of the cell's first line; further lines above are blank.
        source = "\n" * max(0, self._offset - 1) + info.raw_cell
        self._cell.started(self._number, source)

    def _finished(self, result: Any) -> None:
        self._before_end()
        error = result.error_before_exec or result.error_in_exec
        self._cell.finished(f"{type(error).__name__}: {error}" if error else None)
