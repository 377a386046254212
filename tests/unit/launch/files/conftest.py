"""A folder of a user's own modules and files."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "pkg").mkdir(parents=True)
    (folder / "model.py").write_text("width = 1\n")
    (folder / "pkg" / "__init__.py").write_text("")
    (folder / "data.txt").write_text("1 2 3\n")
    return folder
