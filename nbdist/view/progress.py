"""Progress of long operations: a start of processes, or a transfer of values.

In a notebook a display changes in place; in a terminal lines are printed.
"""

from __future__ import annotations

import html
import sys
import time
from typing import Any

from nbdist.notation import bytes_text, count_text, seconds_text

STAGES = {
    "launched": "launched",
    "reached": "reached",
    "starting": "starting",
    "connected": "connected",
    "ready": "ready",
    "joined": "joined the cluster",
}
"""The stages of a start in their order, with their words."""

WIDTH = 24
"""Characters of a bar."""


class ChangingOutput:
    """An output of the running cell that is changed in place."""

    def __init__(self) -> None:
        self._handle: Any = None

    def show(self, bundle: dict[str, str]) -> None:
        """Show a MIME bundle, in place of the one before."""
        from IPython.display import display

        if self._handle is None:
            self._handle = display(bundle, raw=True, display_id=True)
        else:
            self._handle.update(bundle, raw=True)


class ProgressDisplay:
    """Progress of a start, called with (stage, done, total); `close` leaves one line behind."""

    def __init__(self, *, in_notebook: bool) -> None:
        self._started = time.monotonic()
        self._output = ChangingOutput()
        self._in_notebook = in_notebook
        self._last = ""

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Show a stage: a key of `STAGES`, or words of another program, such as the state of a queue."""
        passed = seconds_text(time.monotonic() - self._started)
        if stage not in STAGES:
            self._say(stage, passed, 0.0, worth_a_line=True)
            return
        what = "host" if stage == "reached" else "process"
        words = f"{done} of {count_text(total, what)} {STAGES.get(stage, stage)}"
        if stage == "starting":
            words = f"starting {count_text(total, 'process')}"
        order = list(STAGES)
        part = (order.index(stage) + (done / total if stage != "starting" else 0)) / len(order)
        self._say(words, passed, part, worth_a_line=done == total or stage == "starting")

    def _say(self, words: str, passed: str, part: float, *, worth_a_line: bool) -> None:
        if self._in_notebook:
            self._show(words, passed, part)
        elif words != self._last and worth_a_line:
            self._last = words
            print(f"{words}, {passed}", file=sys.stdout, flush=True)

    def part(self, words: str, part: float) -> None:
        """Show how much of something is done, from 0 to 1; only in a notebook."""
        passed = seconds_text(time.monotonic() - self._started)
        self._say(words, passed, part, worth_a_line=False)

    def close(self, line: str) -> None:
        """Replace the bar by one closing line."""
        if self._in_notebook:
            self._output.show({"text/plain": line})
        else:
            print(line)

    def _show(self, words: str, passed: str, part: float) -> None:
        filled = round(part * WIDTH)
        bar = "█" * filled + "░" * (WIDTH - filled)
        style = "font-family:var(--jp-code-font-family,monospace)"
        self._output.show(
            {
                "text/plain": f"{bar} {words}, {passed}",
                "text/html": (
                    f'<div style="{style}"><progress max="1" value="{part:.3f}"></progress> '
                    f"{html.escape(words)}, {passed}</div>"
                ),
            }
        )


SHOW_SECONDS = 1.0
"""Seconds after which a move is shown; faster ones are not."""

AGAIN_SECONDS = 0.25
"""Seconds between two updates of a move."""


class Moved:
    """Progress of a move of values, called with the bytes moved and their total; `close` leaves one line behind.

    Args:
      verb: `sent` or `received`.
      in_notebook: Whether there is a display to be updated; otherwise only the last line is printed.
    """

    def __init__(self, verb: str, *, in_notebook: bool) -> None:
        self._verb = verb
        self._in_notebook = in_notebook
        self._began: float | None = None
        self._shown_at: float | None = None
        self._total = 0
        self._progress = ProgressDisplay(in_notebook=in_notebook)

    def __call__(self, done: int, total: int) -> None:
        """Show how much was moved, of how much, and how fast, once the move takes longer than `SHOW_SECONDS`."""
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
