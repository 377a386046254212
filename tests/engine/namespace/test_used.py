"""What a cell uses is followed through the functions that earlier cells have defined."""

from __future__ import annotations

import types
from typing import Any

import pytest

from nbdist.engine.namespace import names as module
from nbdist.engine.namespace.names import used

CELLS = """
import dataclasses, functools, jax, numpy as np
x, y, z, i, where = 1, 2, 3, 4, "here"
def direct():
    return x + 1
def through():
    return [direct() for _ in range(2)]
def makes():
    def inner():
        return y
    return inner
inner = makes()
part = functools.partial(through)
jitted = jax.jit(direct)
wrapped = functools.wraps(direct)(lambda: 0)
table = {"f": [jitted]}
class Model:
    def call(self):
        return z
model = Model()
@dataclasses.dataclass
class Holder:
    value: object
holder = Holder(direct)
recursive = lambda n: recursive(n - 1) + i
array = np.arange(3)
"""


@pytest.fixture(scope="module")
def namespace() -> dict[str, Any]:
    main, helpers = types.ModuleType("__main__"), types.ModuleType("helpers")
    made = vars(main)
    exec(CELLS, made)
    exec("def f():\n    return m.x", vars(helpers))
    vars(helpers)["m"] = main
    made.update(main=main, helpers=helpers, helper=vars(helpers)["f"])
    return made


@pytest.mark.parametrize(
    ("code", "uses"),
    [
        ("1 + 1", set()),
        ("x", {"x"}),
        ("array.sum()", set()),
        ("direct()", {"x"}),
        ("through()", {"x"}),
        ("map(through, [])", {"x"}),
        ("makes()", {"y"}),
        ("inner()", {"y"}),
        ("part()", {"x"}),
        ("jitted()", {"x"}),
        ("wrapped()", {"x"}),
        ("table['f'][0]()", {"x"}),
        ("model.call()", {"z"}),
        ("Model()", {"z"}),
        ("holder.value()", {"x"}),
        ("recursive(3)", {"i"}),
        ("def new():\n    return through()", {"x"}),
        ("np.asarray(array), jax.jit", set()),
    ],
)
def test_what_a_cell_leads_to(namespace: dict[str, Any], code: str, uses: set[str]) -> None:
    found = used(code, namespace)
    assert found is not None
    assert found & {"x", "y", "z", "i", "where"} == uses


@pytest.mark.parametrize(
    "code",
    [
        *("eval('x')", "globals()['x']", "a b", "exec(text)", "pd.eval('x + 1')", "f.query('x')"),
        *("import sys\nsys.modules['__main__'].x", "import __main__ as m\nm.x", "main.x"),
        *("from __main__ import x as q", "direct.__globals__['x']", "helpers.f()", "helper()"),
    ],
)
def test_what_makes_its_names_up_may_use_all(namespace: dict[str, Any], code: str) -> None:
    assert used(code, namespace) is None


def test_a_function_that_makes_them_up_does_so_too() -> None:
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec("def f():\n    return eval('x')", namespace)
    assert used("f()", namespace) is None


def test_where_a_cell_leads_to_too_much_nobody_knows(
    namespace: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_OBJECTS", 3)
    assert used("table", namespace) is None
