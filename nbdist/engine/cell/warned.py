"""Warnings that cells give, with the cell and the line as a person knows them."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable


def name_cells(cell_of: Callable[[str], int | None]) -> None:
    """Make warnings say `cell 12, line 3` in place of the file that a cell was compiled under.

    That file's name has the id of the process in it, so equal warnings would differ between processes.

    Args:
      cell_of: Returns the notebook's number of the cell with code of this file; None for any other file.
    """
    original = warnings.formatwarning

    @functools.wraps(original)
    def formatwarning(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        line: str | None = None,
    ) -> str:
        text = original(message, category, filename, lineno, line)
        cell = cell_of(filename)
        named = f"{filename}:{lineno}: "
        if cell is None or not text.startswith(named):
            return text
        return f"cell {cell}, line {lineno}: {text.removeprefix(named)}"

    warnings.formatwarning = formatwarning
