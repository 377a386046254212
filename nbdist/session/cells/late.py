"""Output of a cell after its end: from threads, callbacks and other work that the cell has left behind.

A notebook shows it under the cell, a terminal at the present prompt; both name the cell and the processes.
"""

from __future__ import annotations

import contextvars
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from nbdist.message_guard import MessageGuard
from nbdist.notation import processes_text
from nbdist.session.cells.submission import Message
from nbdist.view.output import CellOutput, Renderer
from nbdist.view.widgets import Widgets

logger = logging.getLogger(__name__)

LOOK_SECONDS = 0.1
"""How often new output is shown."""

QUIET_SECONDS = 1.0
"""After this long without output, the thread shows everything and ends until more comes."""

MOST_CELLS = 50
"""The number of newest cells whose displays can still be changed. Each keeps its output in memory."""


def late_name(cell: int) -> Callable[[Sequence[int]], str]:
    """Return a function that titles late output of a cell: `cell 7, process 2 (later)`."""
    return lambda processes: f"cell {cell}, {processes_text(processes)} (later)"


def put(output: CellOutput, process_id: int, message: Message) -> bool:
    """Add a message of a process to the output of a cell; return whether the output could take it.

    Raises:
      KeyError: The message lacks something.
    """
    kind, content = message["msg_type"], message["content"]
    if kind == "stream":
        return output.stream(process_id, content["name"], content["text"])
    if kind in ("display_data", "execute_result", "update_display_data"):
        return output.display(
            process_id,
            content["data"],
            content.get("metadata") or {},
            display_id=(content.get("transient") or {}).get("display_id"),
            update=kind == "update_display_data",
        )
    if kind == "clear_output":
        return output.clear(process_id, wait=bool(content.get("wait")))
    return True  # the message shows nothing


def readable(message: Message) -> Message:
    """Return the message, an error as text: after the cell, nothing else reports an error."""
    if message["msg_type"] != "error":
        return message
    text = "\n".join([*message["content"]["traceback"], ""])
    return {"msg_type": "stream", "content": {"name": "stderr", "text": text}}


def as_new(message: Message) -> Message:
    """Return the message; the update of a display that does not exist becomes a new display."""
    changes = message["msg_type"] == "update_display_data"
    return {**message, "msg_type": "display_data"} if changes else message


class EarlierCells:
    """The newest ended cells of a session, whose displays may still change."""

    def __init__(self) -> None:
        self._cells: deque[LateOutput] = deque()

    def add(self, cell: LateOutput) -> None:
        """Add a cell that has ended."""
        self._cells.append(cell)
        if len(self._cells) > MOST_CELLS:
            self._cells.popleft().forget()

    def change(self, process_id: int, message: Message) -> bool:
        """Apply an `update_display_data`; return whether one of these cells has the display."""
        return any(cell.change(process_id, message) for cell in reversed(tuple(self._cells)))


class LateOutput:
    """The output that arrives after the end of one cell. It uses a thread only while output arrives.

    The output is shown where the cell's own output is, so create this object on the thread that runs the cell.

    Args:
      cell: The notebook's number of the cell.
      output: The cell's own output; displays in it may still be changed.
      folder: The folder for late output that is too large to keep in memory.
      renderer: Draws the cell's own output.
      late_renderer: Draws late output, under `late_name`.
      widgets: The processes' widgets.
      earlier: The cells that ended before; this one is added when it has ended.
    """

    def __init__(
        self,
        cell: int,
        *,
        output: CellOutput,
        folder: Path,
        renderer: Renderer,
        late_renderer: Renderer,
        widgets: Widgets | None = None,
        earlier: EarlierCells,
    ) -> None:
        self._widgets = widgets
        self.earlier = earlier
        self._number = cell
        self._processes = output.processes
        self._folder = folder
        self._cell: _Part | None = _Part(output, renderer)
        self._late: _Part | None = None
        self._late_renderer = late_renderer
        self._context = contextvars.copy_context()
        self._guard = MessageGuard(f"Late output of cell {cell}", logger)
        self._lock = threading.Lock()
        self._changed: set[_Part] = set()
        self._came_at = 0.0
        self._open = False
        self._thread: threading.Thread | None = None

    def open(self) -> None:
        """Begin: the cell has ended and its output is shown, so from now on only this object draws it."""
        with self._lock:
            self._open = True
            if self._cell is not None and not self._cell.output.changeable:
                self._cell = None  # so that a long notebook does not keep all its output in memory
            if self._cell is not None:
                self._cell.output.on_widget = self.redraw
            changeable = self._cell is not None
            self._begin()
        if changeable:
            self.earlier.add(self)

    def forget(self) -> None:
        """Forget the cell's own output: from now on a change of its displays counts as late output."""
        with self._lock:
            self._cell = None

    def redraw(self) -> None:
        """Draw the cell's own output again after a widget in it has changed; from any thread."""
        with self._lock:
            if self._cell is not None:
                self._note(self._cell)

    def take(self, process_id: int, message: Message) -> None:
        """Take a message that came after the end; from any thread, one at a time."""
        if self._widgets is not None and self._widgets.take(process_id, message):
            return
        changes = message["msg_type"] == "update_display_data"
        if changes and (
            self.change(process_id, message) or self.earlier.change(process_id, message)
        ):
            return
        with self._lock:
            self._note(self._put(process_id, message))

    def change(self, process_id: int, message: Message) -> bool:
        """Change a display of the cell's own output; return whether it has the display."""
        with self._lock:
            own = self._cell
            if own is None or not put(own.output, process_id, message):
                return False
            self._note(own)
            return True

    def _note(self, changed: _Part) -> None:
        self._changed.add(changed)
        self._came_at = time.monotonic()
        self._begin()

    def _put(self, process_id: int, message: Message) -> _Part:
        """Add a message to the late output."""
        if self._late is None:
            output = CellOutput(
                processes=self._processes, folder=self._folder, widgets=self._widgets
            )
            self._late = _Part(output, self._late_renderer)
            self._late.finish()
        if not put(self._late.output, process_id, readable(message)):
            put(self._late.output, process_id, as_new(message))
        return self._late

    def _begin(self) -> None:
        if self._open and self._changed and self._thread is None:
            self._thread = threading.Thread(
                target=self._context.copy().run, args=(self._show,), name="nbdist-late", daemon=True
            )
            self._thread.start()

    def _show(self) -> None:
        shown: set[_Part] = set()
        while True:
            time.sleep(LOOK_SECONDS)
            with self._lock:
                shown |= self._changed
                self._changed.clear()
                quiet = time.monotonic() - self._came_at > QUIET_SECONDS
            for part in shown:
                with self._guard:
                    if quiet:
                        part.finish()  # shows unfinished lines as well
                    part.renderer.refresh(part.output, final=quiet)
            with self._lock:
                if quiet and not self._changed:
                    self._thread = None
                    return


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """The cell's own output or its late output, and what draws it."""

    output: CellOutput
    renderer: Renderer

    def finish(self) -> None:
        """Compare strictly from now on: no other process will print the same a moment later."""
        for process_id in self.output.processes:
            self.output.finish(process_id)
