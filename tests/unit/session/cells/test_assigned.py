"""Which names a cell assigns, and in which cells lost arrays were made."""

from __future__ import annotations

import pytest

from nbdist.contract.cells import PastCell
from nbdist.session.cells.doubt import assigned, nowhere, root_name
from nbdist.session.cells.history import made_in


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("w", "w"),
        ("params['dense'].kernel", "params"),
        ("state.params['a']", "state"),
        ("rows[0].x", "rows"),
        ("average (through a cell)", "average"),
    ],
)
def test_a_path_begins_with_a_name(path: str, name: str) -> None:
    assert root_name(path) == name


ASSIGNS = [
    "w = 1",
    "v = w = 1",
    "(v, [w, *u]) = f()",
    "w: int = 1",
    "w += 1",
    "if x:\n    w = 1",
    "for k in range(3):\n    with mesh:\n        w = step(w)",
    "for w in rows: pass",
    "with open(f) as w: pass",
    "while x:\n    w = step(w)",
    "try:\n    f()\nfinally:\n    w = 1",
    "match x:\n    case 1:\n        w = 1",
    "print(w := 1)",
]
DOES_NOT = [
    "",
    "print(w)",
    "w['a'] = 1",
    "w.a = 1",
    "w == 1",
    "f(w=1)",
    "del w",
    "def f():\n    w = 1",
    "async def f():\n    w = 1",
    "class A:\n    w = 1",
    "f = lambda: (w := 1)",
    "[w for w in rows]",
    "if x:\n    def f():\n        w = 1",
    "for k in x:\n    class A:\n        w = 1",
    "w =",
]


@pytest.mark.parametrize(
    ("code", "does"), [*((code, True) for code in ASSIGNS), *((code, False) for code in DOES_NOT)]
)
def test_a_cell_assigns_what_its_own_statements_assign(code: str, does: bool) -> None:
    assert ("w" in assigned(code)) is does


def past(number: int, code: str) -> PastCell:
    return PastCell(
        number=number, code=code, targets=(0, 1), started=0.0, seconds=1.0, outcome="finished"
    )


CELLS = [
    past(1, "w = make()"),
    past(2, "params = init()\ny = f(w)"),
    past(3, "for k in range(3):\n    with mesh:\n        w = step(w)"),
    past(4, "def again():\n    w = 1"),
    past(5, "print(w, y)"),
]


@pytest.mark.parametrize(
    ("paths", "cells"),
    [
        (["w"], {3}),
        (["y"], {2}),
        (["params['dense'].kernel", "params['dense'].bias"], {2}),
        (["w", "y", "params"], {2, 3}),
        (["w", "unknown"], {3}),
        (["unknown"], set()),
        ([], set()),
    ],
)
def test_the_newest_cell_that_assigns_a_name_has_made_it(paths: list[str], cells: set[int]) -> None:
    assert made_in(CELLS, paths) == cells
    assert made_in([], paths) == set(nowhere(paths)) == set()
