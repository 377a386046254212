"""The line of code that a process is in, as reports carry it."""

from __future__ import annotations

import pytest

from nbdist.engine.cell.running import LONGEST_LINE, RunningCell, source_line

CELL = RunningCell(1, 0.0, ("  x = 1", "y = '" + 10_000 * "z" + "'", ""), None)


@pytest.mark.parametrize(
    ("line", "text"),
    [(1, "x = 1"), (2, f"y = '{(LONGEST_LINE - 5) * 'z'}…"), (3, None), (4, None), (0, None)],
)
def test_a_line_is_stripped_and_bounded(line: int, text: str | None) -> None:
    assert source_line("no such file", line, CELL) == text
