"""Where a cell of the notebook goes: rewriting its first line before IPython reads it."""

from __future__ import annotations

import re

from nbdist.options import MAGICS

_JOINED = re.compile(r"^%%rank(\[.*)$")
_OWN = re.compile(r"^\s*%(dist_\w+|sync|load_ext|unload_ext|reload_ext)\b")

_HELP = re.compile(r"^%%(\w+)[ \t].*(?<!\S)(?:--help|-h)\s*$")

LOCAL = "%%local"
"""The first line of a cell that runs in the notebook whatever the mode is."""

CELL_MAGIC = "dist_plain"
"""The cell magic that plain cells are turned into while the mode is on."""


class Mode:
    """An input transformer; `enabled` is what `%dist_mode` sets."""

    def __init__(self) -> None:
        self.enabled = False

    def transform(self, lines: list[str]) -> list[str]:
        """Called by IPython with the lines of a cell, ends included."""
        first = next((i for i, line in enumerate(lines) if line.strip()), None)
        if first is None:
            return lines
        asks = _HELP.match(lines[first])
        if asks and asks[1] in MAGICS:
            # IPython refuses a cell magic without a body.
            return [*lines, "\n"]
        if lines[first].split()[0] == LOCAL:
            # A comment in its place, so that line numbers stay.
            return [*lines[:first], f"# {lines[first]}", *lines[first + 1 :]]
        joined = _JOINED.match(lines[first])
        if joined:
            ending = "\n" if lines[first].endswith("\n") else ""
            return [
                *lines[:first],
                f"%%rank {joined.group(1).rstrip()}{ending}",
                *lines[first + 1 :],
            ]
        if self.enabled and not self._stays(lines):
            return [f"%%{CELL_MAGIC}\n", *lines]
        return lines

    # IPython leaves those out that say so where it looks whether a cell typed in a terminal is complete: a line of
    # Python is, and behind the cell magic put above it here more would be waited for.
    vars()["transform"].has_side_effects = True

    @staticmethod
    def _stays(lines: list[str]) -> bool:
        """Cells with a cell magic say themselves where they go; nbdist's own magics run here."""
        written = [line for line in lines if line.strip() and not line.lstrip().startswith("#")]
        return not written or written[0].startswith("%%") or all(map(_OWN.match, written))
