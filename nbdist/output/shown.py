"""The outputs of the notebook's cells, for a page that was reloaded in the middle of one.

JupyterLab takes no output of a cell that another page has started: output after a reload would be lost, and so
would output before it that was not saved.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from typing import Any

MOST_CELLS = 50
"""The most cells that are remembered; those that run longest are the last to go."""


class Shown:
    """The present outputs of one renderer. Written on one thread and read on another."""

    def __init__(self) -> None:
        self.outputs: tuple[Mapping[str, Any], ...] = ()
        self.running = True

    def show(
        self, bundles: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]], *, final: bool
    ) -> None:
        """Take the present outputs, as pairs of data and metadata by mime type."""
        self.outputs = tuple(
            {"output_type": "display_data", "data": data, "metadata": metadata}
            for data, metadata in bundles
            if data
        )
        self.running = not final


class ShownCells:
    """The outputs of this kernel's cells, by the id that the notebook gives a cell."""

    def __init__(self) -> None:
        self._cells: OrderedDict[str, list[Shown]] = OrderedDict()
        self._lock = threading.Lock()
        self._requests: dict[str, str] = {}

    def begin(self, cell: str, request: str) -> Shown:
        """Return a place for one more renderer's outputs below a cell; drop those of an earlier run of the cell.

        Args:
          cell: The id of the cell.
          request: The id of the request that runs it.
        """
        shown = Shown()
        with self._lock:
            if self._requests.get(cell) != request:
                self._cells[cell] = []
                self._requests[cell] = request
            self._cells[cell].append(shown)
            self._cells.move_to_end(cell)
            while len(self._cells) > MOST_CELLS:
                ended = (one for one, parts in self._cells.items() if not _runs(parts))
                oldest = next(ended, next(iter(self._cells)))
                del self._cells[oldest], self._requests[oldest]
        return shown

    def of(self, wanted: Collection[str]) -> list[dict[str, Any]]:
        """Return the cells that run, and the `wanted` ones: `cell`, `running`, and their `outputs`."""
        with self._lock:
            found = {cell: list(parts) for cell, parts in self._cells.items()}
        return [
            {
                "cell": cell,
                "running": _runs(parts),
                "outputs": [output for part in parts for output in part.outputs],
            }
            for cell, parts in found.items()
            if cell in wanted or _runs(parts)
        ]


def _runs(parts: Sequence[Shown]) -> bool:
    """Return whether the first of them, the cell's own output, may still grow."""
    return bool(parts) and parts[0].running


SHOWN = ShownCells()
"""The outputs of this kernel's cells."""
