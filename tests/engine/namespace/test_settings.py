"""Settings of libraries: what is read of them is what another process is set to."""

from __future__ import annotations

import os
import random
import sys
import types
import warnings
from typing import Any
from unittest import mock

import pytest

from nbdist.engine.namespace.settings import Streams, environment, pandas_options


class Group:
    """Options of pandas as `pandas.options` shows them: groups in groups, by attribute."""

    def __init__(self, values: dict[str, Any], above: str = "") -> None:
        self._values, self._above = values, above

    def __dir__(self) -> list[str]:
        names = [n.removeprefix(self._above) for n in self._values if n.startswith(self._above)]
        return sorted({name.partition(".")[0] for name in names})

    def __getattr__(self, name: str) -> Any:
        path = self._above + name
        if path not in self._values:
            return Group(self._values, f"{path}.")
        if name == "old":
            warnings.warn(f"{name} will go", FutureWarning, stacklevel=2)
        return self._values[path]


@pytest.fixture
def pandas(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The values of its options."""
    values = {"display.max_rows": 60, "display.html.border": 1, "mode.old": "warn"}
    module: Any = types.ModuleType("pandas")
    module.options = Group(values)

    def set_option(name: str, value: Any) -> None:
        if name not in values:
            raise KeyError(name)
        values[name] = value

    module.set_option = set_option
    monkeypatch.setitem(sys.modules, "pandas", module)
    return values


def test_options_of_pandas_are_read_with_their_groups_and_set(pandas: dict[str, Any]) -> None:
    with warnings.catch_warnings(action="error"):
        read = pandas_options().read()
    assert read == {f"pandas' option {name}": value for name, value in pandas.items()}
    pandas_options().write("pandas' option display.max_rows", 7)
    assert pandas["display.max_rows"] == 7
    assert pandas_options().read()["pandas' option display.max_rows"] == 7


def test_without_pandas_there_are_none_of_its_options() -> None:
    with mock.patch.dict(sys.modules):
        sys.modules.pop("pandas", None)
        assert pandas_options().read() == {}


def test_variables_that_have_changed_are_read_and_those_of_a_start_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "environ", {"SAME": "1", "OTHER": "2", "NEW": "3", "JAX_X": "4"})
    here = environment({"SAME": "1", "OTHER": "1", "GONE": "1"})
    read = here.read()
    assert read == {
        "environment variable OTHER": "2",
        "environment variable NEW": "3",
        "environment variable GONE": None,
    }
    monkeypatch.setattr(os, "environ", {"SAME": "1", "OTHER": "1", "GONE": "1"})
    for name, value in read.items():
        here.write(name, value)
    assert os.environ == {"SAME": "1", "OTHER": "2", "NEW": "3"}


@pytest.mark.parametrize(
    ("names", "count"),
    [({}, 0), ({"r": random}, 1), ({"shuffle": random.shuffle}, 1), ({"own": random.Random(1)}, 0)],
)
def test_random_numbers_of_python_count_where_a_name_leads_to_them(
    names: dict[str, Any], count: int
) -> None:
    state = random.getstate()
    with mock.patch.dict(sys.modules):
        sys.modules.pop("numpy.random", None)
        found = Streams({"Python's random state": "of the start"}, names)
        assert len(found.read()) == count
    try:
        found.write("Python's random state", random.Random(5).getstate())
        assert random.random() == random.Random(5).random()
    finally:
        random.setstate(state)
