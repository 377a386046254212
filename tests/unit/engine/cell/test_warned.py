"""Warnings that cells give, as they are shown."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import pytest

from nbdist.engine.kernel.shell import name_cells

FILES = {"/tmp/ipykernel_15663/123456.py": 12}


@pytest.fixture(autouse=True)
def named() -> Iterator[None]:
    before = warnings.formatwarning
    name_cells(FILES.get)
    yield
    warnings.formatwarning = before


def warned(file: str) -> str:
    """What is written of a warning of line 3."""
    return warnings.formatwarning("no data", UserWarning, file, 3)


def test_a_warning_of_a_cell_names_the_cell_and_no_temporary_file() -> None:
    assert warned(next(iter(FILES))) == "cell 12, line 3: UserWarning: no data\n"


def test_a_warning_of_a_module_names_its_file() -> None:
    assert warned("/lib/data.py") == "/lib/data.py:3: UserWarning: no data\n"
