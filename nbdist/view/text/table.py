"""Aligned columns, and lists cut where a screen ends."""

from __future__ import annotations

from collections.abc import Sequence

ROWS = 40
"""Rows shown of a long list; the rest is counted in a last line."""

WIDTH = 100
"""Characters a line where the caller knows nothing better."""


def columns(rows: Sequence[Sequence[str]], *, gap: int = 2, right: Sequence[int] = ()) -> list[str]:
    """One line a row, each column as wide as its longest cell.

    Args:
      rows: Cells; all rows have the same number.
      gap: Spaces between columns.
      right: The numbers of the columns that are aligned to the right.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        (" " * gap)
        .join(
            cell.rjust(width) if index in right else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        .rstrip()
        for row in rows
    ]


def cut(text: str, width: int) -> str:
    """The beginning of a text that is too long, with `…` for the rest."""
    return text if len(text) <= width else f"{text[: max(width - 1, 0)]}…"
