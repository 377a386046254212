"""The output of a cell on four processes, on a clock that stands still."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from nbdist.view.output import CellOutput
from nbdist.view.output.bounded_log import Spool


@pytest.fixture
def clock() -> list[float]:
    return [0.0]


@pytest.fixture
def cell(tmp_path: Path, clock: list[float]) -> Iterator[CellOutput]:
    cell = CellOutput(processes=range(4), folder=tmp_path / "cell", clock=lambda: clock[0])
    yield cell
    cell.close()


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    spool = Spool(tmp_path / "private" / "all.txt")
    yield spool
    spool.close()
