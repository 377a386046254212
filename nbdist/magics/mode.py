"""Choice of where a cell of the notebook runs: here, on the processes, or on both (`%%dist --here`).

The first line of a cell is rewritten before IPython reads it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from nbdist.errors import NbdistError, NotebookError, OptionError, error_text
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
    """The mode of a notebook, as an input transformer of IPython; `enabled` is what `%dist_mode` sets."""

    def __init__(self) -> None:
        self.enabled = False

    def transform(self, lines: list[str]) -> list[str]:
        """Return the lines of a cell, ends included, as IPython is to read them."""
        first = next((i for i, line in enumerate(lines) if line.strip()), None)
        if first is None:
            return lines
        asks = _HELP.match(lines[first])
        if asks and asks[1] in MAGICS:
            # IPython refuses a cell magic without a body.
            return [*lines, "\n"]
        if lines[first].split()[0] == LOCAL:
            # A comment takes its place, so that line numbers stay.
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

    # IPython leaves out such transformers when it looks whether a cell typed in a terminal is complete: a line of
    # Python is complete, but below the cell magic that is put above it here, IPython would wait for more.
    vars()["transform"].has_side_effects = True

    @staticmethod
    def _stays(lines: list[str]) -> bool:
        """Return whether a cell stays as it is: it has a cell magic, or nothing but line magics that run here."""
        written = [line for line in lines if line.strip() and not line.lstrip().startswith("#")]
        return not written or written[0].startswith("%%") or all(map(_OWN.match, written))


LABEL = "in the notebook"
"""The label above the notebook's own lines, as `processes 0–3` is above those of processes."""


def refuse_here(shell: Any, code: str, *, wait: bool) -> None:
    """Refuse, before anything is sent, a cell that cannot run in the notebook afterwards.

    Raises:
      OptionError: The cell would not be waited for, or has an await outside of a function.
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
    """Run a cell on the processes, then in the notebook's namespace.

    Args:
      shell: The notebook's IPython shell.
      code: The cell below its first line.
      processes: Runs the code on the processes.

    Raises:
      NotebookError: The cell failed in the notebook; IPython has shown the traceback.
      NbdistError: The cell failed on the processes, and was not run in the notebook.
    """
    try:
        processes()
    except NbdistError:
        print(f"{LABEL}   not run, since the cell has failed on the processes")
        raise
    print(LABEL, flush=True)
    # A line in place of the magic's keeps the line numbers, and makes the cell run here whatever the mode is.
    with through(Door.PYTHON):
        result = shell.run_cell(f"{LOCAL}\n{code}", store_history=False)
    error = result.error_in_exec if result.error_before_exec is None else result.error_before_exec
    if error is not None:
        raise NotebookError(
            f"the cell has run on the processes, and failed in the notebook: {error_text(error)}"
        ) from None
