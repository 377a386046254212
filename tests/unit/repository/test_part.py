"""`NBDIST_PART`, with which `.ci/run` takes a part of the tests of the longest targets."""

from __future__ import annotations

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


def test_one_file_alone_is_run_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NBDIST_PART", "2/2")
    assert chosen_of(ALL[:3]) == (ALL[:3], [])


def chosen_of(names: list[str]) -> tuple[list[str], list[str]]:
    """Which tests are run, and which are deselected."""
    deselected: list[Any] = []
    hook = SimpleNamespace(pytest_deselected=lambda items: deselected.extend(items))
    items: list[Any] = [SimpleNamespace(nodeid=name) for name in names]
    pytest_collection_modifyitems(SimpleNamespace(hook=hook), items)  # type: ignore[arg-type]
    return [item.nodeid for item in items], [item.nodeid for item in deselected]
