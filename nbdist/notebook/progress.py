"""The progress of a start of processes: a bar in the notebook, lines in a terminal."""

from __future__ import annotations

import html
import sys
import time
from typing import Any

from nbdist.quantities import count_text, seconds_text

STAGES = {
    "launched": "launched",
    "reached": "reached",
    "starting": "starting",
    "connected": "connected",
    "ready": "ready",
    "joined": "joined the cluster",
}

WIDTH = 24


class Progress:
    """Shows a start; called with (stage, done, total). `close` leaves one line behind."""

    def __init__(self, *, in_notebook: bool) -> None:
        self._started = time.monotonic()
        self._handle: Any = None
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
            self._display({"text/plain": line})
        else:
            print(line)

    def _show(self, words: str, passed: str, part: float) -> None:
        filled = round(part * WIDTH)
        bar = "█" * filled + "░" * (WIDTH - filled)
        style = "font-family:var(--jp-code-font-family,monospace)"
        self._display(
            {
                "text/plain": f"{bar} {words}, {passed}",
                "text/html": (
                    f'<div style="{style}"><progress max="1" value="{part:.3f}"></progress> '
                    f"{html.escape(words)}, {passed}</div>"
                ),
            }
        )

    def _display(self, bundle: dict[str, str]) -> None:
        from IPython.display import display

        if self._handle is None:
            self._handle = display(bundle, raw=True, display_id=True)
        else:
            self._handle.update(bundle, raw=True)
