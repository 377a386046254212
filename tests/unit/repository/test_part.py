"""`NBDIST_PART`, with which `.ci/run` takes a part of the tests of the longest targets."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import pytest_collection_modifyitems

ALL = ["a.py::one[x]", "a.py::one[y]", "a.py::two", "b.py::one[x]", "b.py::one[y]", "b.py::one[z]"]


@pytest.mark.parametrize(("part", "run"), [("1/1", ALL), ("1/2", ALL[:3]), ("2/2", ALL[3:])])
def test_a_part_runs_and_the_others_are_counted_as_deselected(
    monkeypatch: pytest.MonkeyPatch, part: str, run: list[str]
) -> None:
    monkeypatch.setenv("NBDIST_PART", part)
    assert chosen_of(ALL) == (run, [name for name in ALL if name not in run])


@pytest.mark.parametrize(("part", "run"), [("1/3", ALL[:3]), ("2/3", ALL[3:]), ("3/3", ALL[:3])])
def test_of_fewer_files_than_parts_one_is_run(
    monkeypatch: pytest.MonkeyPatch, part: str, run: list[str]
) -> None:
    monkeypatch.setenv("NBDIST_PART", part)
    assert chosen_of(ALL)[0] == run
    assert chosen_of([]) == ([], [])


def test_it_is_a_part_of_what_other_options_leave(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(
        "from tests.conftest import pytest_collection_modifyitems\n"
    )
    (tmp_path / "test_a.py").write_text("def test_one(): pass\n")
    (tmp_path / "test_b.py").write_text("def test_two(): pass\n")
    env = {**os.environ, "NBDIST_PART": "1/2", "PYTHONPATH": str(Path(__file__).parents[3])}
    command = [sys.executable, "-m", "pytest", "--rootdir", tmp_path, "-k", "two", tmp_path]
    done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True)
    assert "1 passed, 1 deselected" in done.stdout


def chosen_of(names: list[str]) -> tuple[list[str], list[str]]:
    """Which tests are run, and which are deselected."""
    deselected: list[Any] = []
    hook = SimpleNamespace(pytest_deselected=lambda items: deselected.extend(items))
    items: list[Any] = [SimpleNamespace(nodeid=name) for name in names]
    pytest_collection_modifyitems(SimpleNamespace(hook=hook), items)  # type: ignore[arg-type]
    return [item.nodeid for item in items], [item.nodeid for item in deselected]
