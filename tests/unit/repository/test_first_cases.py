"""`NBDIST_CASES`, with which `.ci/run` takes the first cases of each test."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import pytest_collection_modifyitems

ALL = ["a.py::one[x]", "a.py::one[y]", "a.py::two", "b.py::one[x]", "b.py::one[y]", "b.py::one[z]"]


@pytest.mark.parametrize(
    ("most", "run"),
    [
        (None, ALL),
        ("1", ["a.py::one[x]", "a.py::two", "b.py::one[x]"]),
        ("2", ["a.py::one[x]", "a.py::one[y]", "a.py::two", "b.py::one[x]", "b.py::one[y]"]),
    ],
)
def test_the_first_cases_run_and_the_others_are_counted_as_deselected(
    monkeypatch: pytest.MonkeyPatch, most: str | None, run: list[str]
) -> None:
    monkeypatch.setenv("NBDIST_CASES", most or "0")
    deselected: list[Any] = []
    hook = SimpleNamespace(pytest_deselected=lambda items: deselected.extend(items))
    items: list[Any] = [SimpleNamespace(nodeid=name) for name in ALL]
    pytest_collection_modifyitems(SimpleNamespace(hook=hook), items)  # type: ignore[arg-type]
    assert [item.nodeid for item in items] == run
    assert [item.nodeid for item in deselected] == [name for name in ALL if name not in run]
