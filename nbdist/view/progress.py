"""Progress of long operations: a start of processes, or a transfer of values.

In a notebook a display changes in place; in a terminal lines are printed.
"""

from __future__ import annotations

import html
import sys
import threading
import time
from typing import Any, Self

from nbdist.interrupts import put_off
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


TICK_SECONDS = 1.0
"""Seconds between two updates of the elapsed time while nothing else is said."""

LINE_SECONDS = 10.0
"""Seconds of silence after which a terminal gets another line."""


class ProgressDisplay:
    """Progress of a start, called with (stage, done, total); `close` leaves one line behind.

    The elapsed time goes on between two stages: a start that is silent for 20 s looks as if it hung. A thread
    writes it until `close`, or until the block of a `with` ends.

    Args:
      in_notebook: Whether there is a display to be updated; otherwise lines are printed.
      ticks: Whether the elapsed time is written between two calls.
    """

    def __init__(self, *, in_notebook: bool, ticks: bool = True) -> None:
        self._started = time.monotonic()
        self._output = ChangingOutput()
        self._in_notebook = in_notebook
        self._ticks = ticks
        self._last = ""
        self._printed_at = self._started
        self._said: tuple[str, float] | None = None
        self._turn = threading.Lock()
        self._closed = threading.Event()
        self._ticking: threading.Thread | None = None

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Show a stage: a key of `STAGES`, or words of another program, such as the state of a queue."""
        if stage not in STAGES:
            self._say(stage, 0.0, worth_a_line=True)
            return
        what = "host" if stage == "reached" else "process"
        words = f"{done} of {count_text(total, what)} {STAGES.get(stage, stage)}"
        if stage == "starting":
            words = f"starting {count_text(total, 'process')}"
        order = list(STAGES)
        part = (order.index(stage) + (done / total if stage != "starting" else 0)) / len(order)
        self._say(words, part, worth_a_line=done == total or stage == "starting")

    def _say(self, words: str, part: float, *, worth_a_line: bool) -> None:
        with put_off(), self._turn:
            if self._closed.is_set():
                return
            self._said = words, part
            if self._in_notebook:
                self._show(words, part)
            elif words != self._last and worth_a_line:
                self._print(words)
            if self._ticks and self._ticking is None:
                self._ticking = threading.Thread(
                    target=self._tick, name="nbdist-progress", daemon=True
                )
                self._ticking.start()

    def _tick(self) -> None:
        while not self._closed.wait(TICK_SECONDS):
            with self._turn:
                if self._closed.is_set() or self._said is None:
                    return
                words, part = self._said
                if self._in_notebook:
                    self._show(words, part)
                elif time.monotonic() - self._printed_at > LINE_SECONDS:
                    self._print(words)

    def part(self, words: str, part: float) -> None:
        """Show how much of something is done, from 0 to 1; only in a notebook."""
        self._say(words, part, worth_a_line=False)

    def close(self, line: str) -> None:
        """Replace the bar by one closing line."""
        self.stop()
        if self._in_notebook:
            self._output.show({"text/plain": line})
        else:
            print(line)

    def stop(self) -> None:
        """End the updates; what was shown last stays."""
        with put_off(), self._turn:
            self._closed.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _passed(self) -> str:
        return seconds_text(time.monotonic() - self._started)

    def _print(self, words: str) -> None:
        self._last, self._printed_at = words, time.monotonic()
        print(f"{words}, {self._passed()}", file=sys.stdout, flush=True)

    def _show(self, words: str, part: float) -> None:
        passed = self._passed()
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
        self._progress = ProgressDisplay(in_notebook=in_notebook, ticks=False)

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
