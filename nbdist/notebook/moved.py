"""What is seen while values are moved that take a while: how much, of how much, and how fast."""

from __future__ import annotations

import time

from nbdist.notebook.progress import Progress
from nbdist.quantities import bytes_text, seconds_text

SHOW_SECONDS = 1.0
"""What is quicker is not shown."""

AGAIN_SECONDS = 0.25


class Moved:
    """Called with how many bytes have been moved, and how many there are; `close` leaves one line behind.

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
        """Shows it, where it takes longer."""
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
        """Says how long all took, where something was shown."""
        if self._began is None or self._shown_at is None:
            return
        took = time.monotonic() - self._began
        rate = bytes_text(round(self._total / took))
        line = f"{self._verb} {bytes_text(self._total)} in {seconds_text(took)}, {rate}/s"
        self._progress.close(line)
