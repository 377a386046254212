"""The progress of a slow move of values: how much, of how much, and how fast."""

from __future__ import annotations

import time

from nbdist.notebook.progress import Progress
from nbdist.quantities import bytes_text, seconds_text

SHOW_SECONDS = 1.0
"""Faster moves are not shown."""

AGAIN_SECONDS = 0.25


class Moved:
    """Shows a move; called with the bytes moved and their total. `close` leaves one line behind.

    Args:
      verb: `sent` or `received`.
      in_notebook: Whether a display is there to be updated; otherwise only the last line is printed.
    """

    def __init__(self, verb: str, *, in_notebook: bool) -> None:
        self._verb = verb
        self._in_notebook = in_notebook
        self._began: float | None = None
        self._shown_at: float | None = None
        self._total = 0
        self._progress = Progress(in_notebook=in_notebook)

    def __call__(self, done: int, total: int) -> None:
        """Show how far the move is, once it takes longer than `SHOW_SECONDS`."""
        now = time.monotonic()
        self._total = total
        if self._began is None:
            self._began = now
        since = now - (self._shown_at or self._began)
        if since > (SHOW_SECONDS if self._shown_at is None else AGAIN_SECONDS):
            self._shown_at = now
            rate = bytes_text(round(done / (now - self._began)))
            words = f"{self._verb} {bytes_text(done)} of {bytes_text(total)}, {rate}/s"
            self._progress.part(words, done / total)

    def close(self) -> None:
        """Say how long the whole move took, if something was shown."""
        if self._began is None or self._shown_at is None:
            return
        took = time.monotonic() - self._began
        rate = bytes_text(round(self._total / took))
        line = f"{self._verb} {bytes_text(self._total)} in {seconds_text(took)}, {rate}/s"
        self._progress.close(line)
