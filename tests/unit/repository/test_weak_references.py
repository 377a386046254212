"""What keeps a weak reference is compared by identity.

`==` of two weak references asks what they refer to, and since Python 3.13 a dataclass does so even where both are
the same object. Keras' variables answer by computing on the devices.
"""

from __future__ import annotations

import ast

import pytest

from tests.places import ROOT

PACKAGE = ROOT / "nbdist"
PATHS = sorted(
    path for room in ("agent", "engine", "machine") for path in (PACKAGE / room).rglob("*.py")
)


def compared_by_value(source: str) -> list[str]:
    """The dataclasses that keep a weak reference and have an `__eq__` made for them."""
    return [
        node.name
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ClassDef)
        and any(
            "weakref.ref" in ast.unparse(one) for one in node.body if isinstance(one, ast.AnnAssign)
        )
        and any(
            "dataclass" in text and "eq=False" not in text
            for text in map(ast.unparse, node.decorator_list)
        )
    ]


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_no_dataclass_of_the_engines_asks_what_it_refers_to(path):
    assert compared_by_value(path.read_text(encoding="utf-8")) == []


def test_one_that_would_is_found():
    source = "@dataclass(frozen=True)\nclass Known:\n    array: weakref.ref[Any]\n"
    assert compared_by_value(source) == ["Known"]
