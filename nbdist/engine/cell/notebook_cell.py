"""Cells of the notebook on the engine: numbers, lines, beginning and end, requests withdrawn, and warnings.

A cell travels as ipyparallel's own execute request. Data that the request has no place for goes in its label; see
`nbdist.contract.cells`. `NotebookCells` hooks into the shell, `report_withdrawals` into the kernel, and
`name_cells` into Python's warnings.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import warnings
from collections import deque
from collections.abc import Callable
from typing import Any

from nbdist.contract.cells import CellLabel, label_from
from nbdist.engine.cell.debugger import end_tracing, keep_failure
from nbdist.engine.cell.running import CurrentCell
from nbdist.errors import WireError, showable
from nbdist.spelling import Door, enter


class NotebookCells:
    """Hooks into one shell, through IPython's public events and input transformers.

    Args:
      shell: The engine's IPython shell.
      cell: The state that is told when a cell starts and ends.
      before: Called on the main thread when a cell of the notebook starts, with the request and its label.
      ended: Called on the main thread when a cell's code has ended, before its reply, with the label, None for a
        cell of others, and whether the cell failed.
      admit: Called with the label before a cell runs; raises where the cell must not run.
    """

    def __init__(
        self,
        shell: Any,
        cell: CurrentCell,
        *,
        before: Callable[[dict[str, Any], CellLabel], None],
        ended: Callable[[CellLabel | None, bool], None],
        admit: Callable[[CellLabel], None],
    ) -> None:
        self._shell = shell
        self._cell = cell
        self._before = before
        self._ended = ended
        self._admit = admit

    def install(self) -> None:
        """Register the hooks; call once for each shell."""
        self._shell.input_transformers_post.append(self._number_as_the_notebook)
        self._shell.events.register("pre_run_cell", self._started)
        self._shell.events.register("post_run_cell", self._finished)

    def _request(self) -> tuple[dict[str, Any], CellLabel | None]:
        """Return the request that runs now, and its label; None as the label where it is not nbdist's.

        Raises:
          WireError: The label is nbdist's, and cannot be read.
        """
        request = self._shell.kernel.get_parent("shell") or {}
        return request, label_from((request.get("metadata") or {}).get("label") or "")

    def _number_as_the_notebook(self, lines: list[str]) -> list[str]:
        _, ours = self._request()
        if ours is None:
            return lines
        self._admit(ours)
        # Tracebacks say "Cell In[12], line 3"; both numbers are to be the notebook's.
        self._shell.execution_count = ours.cell
        return ["\n"] * ours.offset + lines

    def _started(self, info: Any) -> None:
        request, ours = self._request()
        if ours is not None:
            enter(Door(ours.door))
            self._before(request, ours)
            self._cell.started(
                ours.cell,
                "\n" * ours.offset + info.raw_cell,
                run=ours.run,
                targets=ours.targets,
            )

    def _finished(self, result: Any) -> None:
        end_tracing()
        # Not by `or`: the class of an error decides whether it is true.
        kind = "error_in_exec" if result.error_before_exec is None else "error_before_exec"
        error = getattr(result, kind)
        if error is None and getattr(self._shell, "_last_traceback_during_displayhook", False):
            # A `__repr__` has raised: ipykernel replies with a failure, but the result has no error.
            kind, error = "error_in_exec", sys.last_value
        keep_failure(self._shell, error)
        if error is not None:
            error = showable(error)
            setattr(result, kind, error)  # ipykernel's reply takes its text from there
        ours = None
        with contextlib.suppress(WireError):  # raised already when the cell was to start
            _, ours = self._request()
        self._ended(ours, error is not None)
        self._cell.finished(f"{type(error).__name__}: {error}" if error is not None else None)


REMEMBERED = 10_000
"""Most requests that are known to have been taken, the newest ones. No more wait behind one that runs."""

ABORT = "abort_request"


def report_withdrawals(kernel: Any) -> None:
    """Make a kernel say for certain of each request that is withdrawn whether it came in time.

    ipyparallel's engine drops a request that was aborted while it waited behind others (`Client.abort`). Its own
    reply to the abort does not name requests that were running already. From its next request on, the kernel notes
    the requests that it takes, and the reply names those taken already. Call this once.

    `should_handle` and `control_handlers` are what ipykernel offers to subclasses. The main thread takes requests:
    it notes one, then looks whether it is withdrawn. The thread of the control channel withdraws requests: it
    marks one, then looks whether it is noted. So at least one thread sees the other.
    """
    taken: deque[str] = deque(maxlen=REMEMBERED)
    should_handle, abort = kernel.should_handle, kernel.control_handlers[ABORT]

    def note_and_handle(stream: Any, message: dict[str, Any], idents: Any) -> Any:
        taken.append(message["header"]["msg_id"])
        return should_handle(stream, message, idents)

    def abort_and_report(stream: Any, ident: Any, parent: dict[str, Any]) -> Any:
        wanted = parent["content"].get("msg_ids")
        if not isinstance(wanted, list) or not wanted:
            return abort(stream, ident, parent)
        kernel.aborted.update(map(str, wanted))
        found = [request for request in wanted if request in taken]
        content = {"status": "ok", "taken": found}
        kernel.session.send(stream, "abort_reply", content, parent=parent, ident=ident)
        return None

    kernel.should_handle = note_and_handle
    kernel.control_handlers[ABORT] = abort_and_report


def name_cells(cell_of: Callable[[str], int | None]) -> None:
    """Make warnings say `cell 12, line 3` in place of the file that a cell was compiled under.

    That file's name has the id of the process in it, so equal warnings would differ between processes.

    Args:
      cell_of: Returns the notebook's number of the cell with code of this file; None for any other file.
    """
    original = warnings.formatwarning

    @functools.wraps(original)
    def formatwarning(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        line: str | None = None,
    ) -> str:
        text = original(message, category, filename, lineno, line)
        cell = cell_of(filename)
        named = f"{filename}:{lineno}: "
        if cell is None or not text.startswith(named):
            return text
        return f"cell {cell}, line {lineno}: {text.removeprefix(named)}"

    warnings.formatwarning = formatwarning
