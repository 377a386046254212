"""Which names a cell reads before it binds them, from its text alone."""

from __future__ import annotations

import pytest
from IPython.core.inputtransformer2 import TransformerManager

from nbdist.engine.agreement.reads import names_read

expand = TransformerManager().transform_cell


def certain(cell: str) -> set[str]:
    return set(names_read(expand(cell), expand).certain) - {"get_ipython", "print", "len", "range"}


def possible(cell: str) -> set[str]:
    return set(names_read(expand(cell), expand).possible) - {"get_ipython", "print", "len", "range"}


@pytest.mark.parametrize(
    ("cell", "names"),
    [
        ("print(w)", {"w"}),
        ("y = step(params, x)", {"step", "params", "x"}),
        ("jax.numpy.sum(state.params['w'])", {"jax.numpy.sum", "state.params"}),
        ("w += 1", {"w"}),
        ("w[0] = 1", {"w"}),
        ("state.count = 1", {"state.count"}),
        ("del w", {"w"}),
        ("x: int = w", {"w", "int"}),
        ("f'{w:{width}}'", {"w", "width"}),
        ("with mesh: pass", {"mesh"}),
        ("await later", {"later"}),
        ("@jit\ndef f(x, y=w): ...", {"jit", "w"}),
        ("[a for a in batches]", {"batches"}),
        ("0 < a < b", {"a"}),
        ("a and b", {"a"}),
        ("%%time\nprint(w)", {"w"}),
        ("%%capture out\nprint(w)", {"w"}),
        ("%time y = step(w)", {"step", "w"}),
        ("class A(Base):\n    x = w", {"Base", "w"}),
    ],
)
def test_what_is_read_whatever_happens(cell: str, names: set[str]) -> None:
    assert certain(cell) == names


@pytest.mark.parametrize(
    ("cell", "names"),
    [
        ("if a: b", {"b"}),
        ("if a:\n    w = 1\nelse:\n    w.sum()", {"w.sum"}),
        ("for i in a: b", {"b"}),
        ("while a: b", {"b"}),
        ("try:\n    a\nexcept E:\n    b", {"a", "b", "E"}),
        ("match a:\n    case [x, *y]:\n        x, y, b", {"b"}),
        ("a and b", {"b"}),
        ("b if a else c", {"b", "c"}),
        ("[b(x) for x in a if x]", {"b"}),
        ("def f(x):\n    y = x\n    return y + w", {"w"}),
        ("g = lambda x: x + w", {"w"}),
        ("def f():\n    global n\n    n = n + 1", {"n"}),
        ("from lib import *\nw", {"w"}),
        ("%run setup.py\nw", {"w"}),
    ],
)
def test_what_is_read_perhaps(cell: str, names: set[str]) -> None:
    assert possible(cell) == names
    assert certain(cell).isdisjoint(names)


@pytest.mark.parametrize(
    "cell",
    [
        "w = 1\nw.sum()",
        "import a.w as w\nw()",
        "import w.b\nw.b()",
        "for w in range(3): print(w)",
        "def w(): ...\nw()",
        "class w: ...\nw()",
        "def f():\n    return w\nw = 1\nf()",
        "(w := 1)\nw",
        "try:\n    w = 1\nexcept ValueError as e:\n    w = e\nw",
        "with open('f') as w: w",
        "%%time\nw = 1\nprint(w)",
        "(a, *w), b = [1], 2\nw",
        "[w for w in range(3)]",
        "def f(w): return w",
        "def f():\n    for w in range(3): print(w)",
    ],
)
def test_what_a_cell_binds_first_is_not_read(cell: str) -> None:
    found = names_read(expand(cell), expand)
    assert not {path for path in found.certain | found.possible if path.startswith("w")}


def test_a_name_of_a_comprehension_is_another_outside_it() -> None:
    assert "w" in certain("[w for w in range(3)]\nprint(w)")


def test_text_that_is_no_python_reads_nothing() -> None:
    assert names_read("def f(:", expand).certain == frozenset()
