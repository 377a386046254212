"""The progress of rehearsals side by side: a display that changes in a notebook, lines in a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Any, TextIO

from nbdist.rehearsing.side_by_side import RunState

SHOWN_S = 0.5
"""How often the seconds change."""


class SideBySide:
    """Shows how far rehearsals are; called with the state of each.

    Args:
      in_notebook: Whether a display can change.
      file: What gets the lines of a terminal; default: standard output.
    """

    def __init__(self, *, in_notebook: bool, file: TextIO | None = None) -> None:
        self._in_notebook = in_notebook
        self._file = file
        self._handle: Any = None
        self._shown_at = 0.0
        self._last: dict[str, tuple[str, str]] = {}

    def __call__(self, states: Sequence[RunState]) -> None:
        """Show the states, if one has changed or the seconds are old."""
        changed = [each for each in states if self._last.get(each.mesh) != _look(each)]
        self._last |= {each.mesh: _look(each) for each in changed}
        if not self._in_notebook:
            for each in changed:
                print(each, file=self._file or sys.stdout, flush=True)
        elif changed or time.monotonic() - self._shown_at > SHOWN_S:
            self._shown_at = time.monotonic()
            self._display("\n".join(map(str, states)))

    def _display(self, text: str) -> None:
        from IPython.display import display

        bundle = {"text/plain": text}
        if self._handle is None:
            self._handle = display(bundle, raw=True, display_id=True)
        else:
            self._handle.update(bundle, raw=True)


def _look(each: RunState) -> tuple[str, str]:
    return each.phase, each.compiling
