"""Where a cell of the notebook goes: rewriting its first line before IPython reads it.

`%%dist --here`: a cell that has run on the processes, in the notebook as well.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from nbdist.engine.cell.code_owners import error_text
from nbdist.errors import NbdistError, NotebookError, OptionError
from nbdist.magics.options import MAGICS
from nbdist.spelling import Door, through

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


LABEL = "in the notebook"
"""What its own lines stand under, as those of processes under `processes 0–3`."""


def refuse_here(shell: Any, code: str, *, wait: bool) -> None:
    """Refuses, before anything is sent, what cannot run in the notebook afterwards.

    Raises:
      OptionError: The cell would not be waited for, or awaits.
    """
    if not wait:
        raise OptionError(
            "--here runs the cell in the notebook once the processes have run it, and --no-wait does not wait for "
            "that. Leave one of them out; nothing was run."
        )
    if shell.should_run_async(code, transformed_cell=code):
        raise OptionError(
            "--here cannot run a cell with await outside of a function in the notebook. Run it there in a plain "
            "cell; nothing was run."
        )


def run_here(shell: Any, code: str, *, processes: Callable[[], object]) -> None:
    """Runs a cell on the processes, then in the notebook's namespace.

    Args:
      shell: The notebook's IPython shell.
      code: What stands below the first line of the cell.
      processes: Runs it on the processes.

    Raises:
      NotebookError: It failed in the notebook; IPython has shown the traceback.
      NbdistError: It failed on the processes; it was not run in the notebook.
    """
    try:
        processes()
    except NbdistError:
        print(f"{LABEL}   not run, since the cell has failed on the processes")
        raise
    print(LABEL, flush=True)
    # The line in place of the magic's keeps the numbers, and has a plain cell run here whatever the mode is.
    with through(Door.PYTHON):
        result = shell.run_cell(f"{LOCAL}\n{code}", store_history=False)
    error = result.error_in_exec if result.error_before_exec is None else result.error_before_exec
    if error is not None:
        raise NotebookError(
            f"the cell has run on the processes, and failed in the notebook: {error_text(error)}"
        ) from None
