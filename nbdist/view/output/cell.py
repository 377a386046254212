"""The output of one cell, from all the processes it runs on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from nbdist.view.output.bounded_log import FRESH_S, STRICT_S, Limits, Queue
from nbdist.view.output.entries import WIDGET_MIME, Line
from nbdist.view.output.fold import Block, Follower, Note, NoteBlock, fold
from nbdist.view.output.record import ProcessOutput
from nbdist.view.widgets import LiveWidget, Widgets

_NOTES = 200


class CellOutput:
    """Takes the outputs of many processes and returns them folded.

    Fed from one thread and read from another. Memory is bounded: of each process the first and the last outputs
    are kept; if there is more, all its text is in a file.

    Args:
      processes: Ids of the processes the cell runs on.
      folder: The folder of these files, such as `process-2.txt` for process 2. One private folder a cell, made
        (mode 0700) with the first file.
      clock: Returns monotonic seconds.
      widgets: The state of the processes' widgets; None: they are shown as text.

    Attributes:
      on_widget: Called after a change of a widget that is shown here.
    """

    def __init__(
        self,
        *,
        processes: Sequence[int],
        folder: Path,
        clock: Callable[[], float] = time.monotonic,
        widgets: Widgets | None = None,
    ) -> None:
        self.processes = tuple(sorted(processes))
        self.folder = folder
        self.on_widget: Callable[[], None] = lambda: None
        self._widgets = widgets
        self._clock = clock
        self._lock = threading.Lock()
        self._limits = Limits.for_processes(len(self.processes))
        self._records = {
            one: ProcessOutput(one, limits=self._limits, path=folder / f"process-{one}.txt")
            for one in self.processes
        }
        self._notes: list[Note] = []
        self._standing: str | None = None
        self._follower: Follower | None = None
        self._closed = False
        self._has_widgets = False
        self._strict = False
        self._changed = self._clock()
        self._folded: tuple[float, tuple[Block, ...]] | None = None

    def stream(self, process_id: int, name: Literal["stdout", "stderr"], text: str) -> bool:
        """Take text that a process wrote to a stream; return whether it was taken: after `close` no text is."""
        with self._lock:
            if not self._closed:
                self._records[process_id].stream(name, _encodable(text), self._now())
            return not self._closed

    def display(
        self,
        process_id: int,
        data: Mapping[str, Any],
        metadata: Mapping[str, Any],
        *,
        display_id: str | None = None,
        update: bool = False,
    ) -> bool:
        """Take a `display_data` or `execute_result`, with `update` an `update_display_data`.

        Returns:
          False for an update of an unknown display, which belongs to an earlier cell or was cut from a flood.
          After `close` false for everything but updates.
        """
        with self._lock:
            if self._closed and not update:
                return False
            record = self._records[process_id]
            text = data.get("text/plain")
            if update:
                self._now()
                return display_id is not None and record.update(data, metadata, display_id)
            if len(data) == 1 and isinstance(text, str) and display_id is None:
                record.result(_encodable(text), self._now())
            else:
                widget = self._live(process_id, data)
                record.display(data, metadata, display_id, self._now(), widget)
            return True

    def _live(self, process_id: int, data: Mapping[str, Any]) -> LiveWidget | None:
        view = data.get(WIDGET_MIME)
        if self._widgets is None or not isinstance(view, Mapping):
            return None
        self._has_widgets = True
        return self._widgets.live(process_id, view.get("model_id"), self._widget_changed)

    def _widget_changed(self) -> None:
        with self._lock:
            self._now()
        self.on_widget()

    def clear(self, process_id: int, *, wait: bool = False) -> bool:
        """Take a `clear_output` of a process; with `wait` it happens at its next output. False after `close`."""
        with self._lock:
            if not self._closed:
                self._records[process_id].clear(self._now(), wait=wait)
            return not self._closed

    def compare_strictly(self) -> None:
        """Stop treating any process as merely behind: output of one process alone is then shown as its own."""
        with self._lock:
            if not self._strict:
                self._strict = True
                self._now()

    def finish(self, process_id: int) -> None:
        """Note that a process has finished the cell; its output is compared strictly from now on."""
        with self._lock:
            self._records[process_id].finish(self._now())

    def note(self, text: str) -> None:
        """Show a note of nbdist's own, after all output so far.

        After 200 notes, the last one shown says that the rest are not.
        """
        with self._lock:
            if self._closed or len(self._notes) >= _NOTES:
                return
            text = text if len(self._notes) < _NOTES - 1 else "… more notes are not shown"
            self._notes.append(Note(text, self._now()))
            for record in self._records.values():
                record.mark()

    def meanwhile(self, text: str | None) -> None:
        """Set a line of nbdist's own below all output; None removes it."""
        with self._lock:
            if text != self._standing and not self._closed:
                self._standing = text
                self._now()

    @property
    def standing(self) -> str | None:
        """The last text given to `meanwhile`."""
        return self._standing

    def blocks(self) -> tuple[Block, ...]:
        """Return the folded output now. Takes time proportional to what is shown, not to what was received."""
        with self._lock:
            now = self._clock()
            if self._folded is None or self._changed + FRESH_S > self._folded[0]:
                columns = [record.column() for record in self._records.values()]
                notes = [note.text for note in self._notes]
                compared_at = now + STRICT_S if self._strict else now
                self._folded = now, fold(columns, notes, compared_at)
            standing = () if self._standing is None else (NoteBlock(text=self._standing),)
            return (*self._folded[1], *standing)

    def take(self, *, final: bool = False) -> tuple[Block, ...]:
        """Return the next blocks for a terminal to print: each output once, in an order that never changes.

        Lines that all processes have come at once; others up to 0.5 s later, by process; with `final`, everything.
        """
        with self._lock:
            now = self._clock()
            if self._follower is None:
                for record in self._records.values():
                    record.follow(Queue(self._limits))
                self._follower = Follower(list(self._records.values()))
            return self._follower.take(self._notes, now, final=final)

    def live_bars(self) -> list[tuple[int, Line]]:
        """Return the progress bars being redrawn now, each with its process."""
        with self._lock:
            return [
                (record.process_id, line)
                for record in self._records.values()
                for line in record.live()
            ]

    @property
    def changeable(self) -> bool:
        """Return whether there are widgets, or displays that an `update_display_data` may change."""
        with self._lock:
            return self._has_widgets or any(r.changeable for r in self._records.values())

    @property
    def closed(self) -> bool:
        """Return whether `close` was called."""
        return self._closed

    def close(self) -> None:
        """End all processes' outputs and the files. Later, only changes of displays are taken."""
        with self._lock:
            for record in self._records.values():
                record.finish(self._now())
                record.close()
            self._standing = None
            self._closed = True

    def _now(self) -> float:
        """Return the time of a change."""
        self._changed = self._clock()
        return self._changed


def _encodable(text: str) -> str:
    """Remove lone surrogates, which cannot be encoded in a message or a notebook."""
    if text.isascii():
        return text
    return text.encode("utf-8", "replace").decode("utf-8")
