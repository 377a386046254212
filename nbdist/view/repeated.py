"""The outputs of cells that run, repeated for a page that was reloaded in the middle of one.

They are not waited to be asked for: as long as a cell runs that the notebook waits for, no question of a page
comes through to this kernel.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from typing import Any

from nbdist.contract.messages import CellOutputs, Outputs, plain

BYTES_PER_SECOND = 200_000
"""Large outputs are repeated more rarely, so that they take no more than this in the mean."""

UNCHANGED_SECONDS = 10.0
"""How often outputs are repeated that have not changed."""

OutputsOf = Callable[[Collection[str]], list[dict[str, Any]]]
"""Answers the outputs of the cells that run and of those it is given, as `ShownCells.of`."""


class RepeatedOutputs:
    """Says when outputs are to be sent again; used on one thread."""

    def __init__(self) -> None:
        self._running: list[str] = []
        self._sent = 0
        self._sent_at = float("-inf")
        self._not_before = float("-inf")

    def due(self, outputs: OutputsOf, now: float) -> dict[str, Any] | None:
        """The message to be sent now; None where nothing runs, or too little time has passed.

        The end of a cell is sent as well, once.

        Args:
          outputs: What cells have shown.
          now: Seconds of a monotonic clock.
        """
        if now < self._not_before:
            return None
        cells = outputs(self._running)
        if not cells:
            return None
        text = json.dumps(cells, default=str)
        content = hash(text)
        if content == self._sent and now - self._sent_at < UNCHANGED_SECONDS:
            return None
        self._running = [cell["cell"] for cell in cells if cell["running"]]
        self._sent, self._sent_at = content, now
        self._not_before = now + len(text) / BYTES_PER_SECOND
        message: dict[str, Any] = plain(Outputs(cells=tuple(CellOutputs(**cell) for cell in cells)))
        return message
