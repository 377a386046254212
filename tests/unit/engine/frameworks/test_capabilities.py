"""Every module and name in which a framework says that a capability is."""

from __future__ import annotations

import ast
import importlib
import inspect

import pytest

from nbdist.engine import frameworks


def named(package: str) -> list[list[str]]:
    """Return the modules, or modules and names in them, that a framework's package names for its capabilities."""
    tree = ast.parse(inspect.getsource(importlib.import_module(package)))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    asked = [one for one in calls if ast.unparse(one.func) in ("BESIDE.module", "BESIDE.function")]
    return [[ast.literal_eval(argument) for argument in one.args] for one in asked]


@pytest.mark.parametrize("name", frameworks.names())
def test_each_capability_is_where_the_framework_says(name: str) -> None:
    package = f"{frameworks.__name__}.{name}"
    found = named(package)
    assert found
    for module, *names in found:
        loaded = importlib.import_module(f"{package}.{module}")
        assert all(callable(getattr(loaded, one)) for one in names)
