"""Private API of JAX, Flax and Keras stands in one module for each, which says why, and nowhere else."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import nbdist

PACKAGE = Path(nbdist.__file__).parent
JAX, KERAS = ("engine/frameworks/jax/private.py", "engine/frameworks/keras/private.py")

PRIVATE = [
    (
        r"\b(jax\._src|jaxlib\._\w+|flax\.\w+\._\w+)\b|^(_base_array|_committed|_hlo_sharding)$",
        {
            JAX,
            "agent/coordination.py",  # a process without the engine
            "rehearsal/devices.py",  # tried by `check_jax` before a rehearsal begins
            "engine/namespace/modules.py",  # a name to compare with, nothing is read from it
        },
    ),
    (
        r"\bkeras\.src\b|^_(value|trainable|layout|layout_map|jax_state|device_mesh|path)$",
        {
            KERAS,
            "keras/checkpoint.py",  # called by users, without the engine
            "engine/frameworks/tensorflow/start.py",  # the trainer of Keras' TensorFlow back end
        },
    ),
]
"""What names a private part of a library, and the modules that may."""


def used(source: str) -> Iterator[str]:
    """Yield the names in a module's code: imports, attributes of others, and texts that are no docstrings."""
    tree = ast.parse(source)
    said = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (one.name for one in names)
            case ast.ImportFrom(module=module, names=names):
                yield from (f"{module}.{one.name}" for one in names)
            case ast.Attribute(attr=attr, value=ast.Name(id=name)) if name not in ("self", "cls"):
                yield attr
            case ast.Constant(value=str(text)) if id(node) not in said:
                yield text


@pytest.mark.parametrize(("pattern", "places"), PRIVATE, ids=["jax", "keras"])
def test_private_names_of_a_library_stand_in_its_own_module(pattern: str, places: set[str]) -> None:
    rooms = [PACKAGE / room for room in ("engine", "agent", "keras", "launch", "session")]
    modules = [path for room in rooms for path in room.rglob("*.py")]
    modules += [PACKAGE / place for place in places if place.startswith("rehearsal")]
    named = {
        str(path.relative_to(PACKAGE))
        for path in modules
        if any(re.search(pattern, name) for name in used(path.read_text()))
    }
    assert named == places


def test_a_private_name_is_seen_wherever_it_stands() -> None:
    (pattern, _), _ = PRIVATE
    for line in ("from jax._src import mesh", "x = k._base_array", "getattr(k, '_base_array')"):
        assert any(re.search(pattern, name) for name in used(line)), line
    assert not any(re.search(pattern, n) for n in used('"""See jax._src."""\nself._committed = 1'))
