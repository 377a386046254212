"""Trees of arrays as an engine describes them."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nbdist.contract.snapshot import Snapshot
from nbdist.engine.frameworks.jax import inspection
from nbdist.engine.frameworks.jax.inspection import describe_tree, explain, rooted
from nbdist.errors import ArrayError
from nbdist.view.shards import Shards

SNAPSHOT = Snapshot(session="s", sequence=1, time=0.0, state="idle")


def text(value, expression="t"):
    return Shards.of(explain(value, expression), SNAPSHOT).text()


def test_cycles_and_arrays_under_two_names_are_there_once():
    w = jnp.zeros(4)
    loop = {"w": w, "again": [w]}
    loop["self"] = loop
    loop["list"] = [loop, jnp.ones(2)]
    answer = describe_tree(loop, "t")
    assert [a.path for a in answer.arrays] == ["t['w']", "t['again'][0]", "t['list'][1]"]
    assert answer.same == {"t['again'][0]": "t['w']"}
    assert text(loop).splitlines()[0] == "t  2 arrays, 24 B; up to 24 B per device"


def test_leaves_that_raise_are_passed_over():
    class Trap:
        def __getattr__(self, name):
            raise RuntimeError(name)

        def __repr__(self):
            raise RuntimeError("repr")

        __str__ = __repr__

        def __eq__(self, other):
            raise RuntimeError("eq")

        __hash__ = None

        @property
        def boom(self):
            raise RuntimeError("boom")

    trap = Trap()
    trap.w = jnp.zeros(3)
    assert ".w" in text({"trap": trap, "lock": __import__("threading").Lock()})


def test_a_tree_of_very_many_leaves_says_how_many_are_left_out(monkeypatch):
    monkeypatch.setattr(inspection, "MOST_LISTED", 100)
    assert text([jnp.zeros(1)] * 5000).endswith("not looked at: 4900 more arrays")


def test_arrays_that_lie_too_deep_or_under_no_expression_are_not_said_to_be_none():
    deep = jnp.zeros(1)
    for _ in range(2000):
        deep = [deep]
    with pytest.raises(ArrayError, match="not looked at: 1 container that lies too deep"):
        explain(deep, "x")
    with pytest.raises(ArrayError, match="no array that can be shown; not looked at: 1 more array"):
        explain({object(): jnp.zeros(1)}, "x")


def test_deleted_arrays_are_no_leaves():
    gone = jnp.zeros(2)
    gone.delete()
    assert [a.path for a in describe_tree([gone, jnp.zeros(2)], "t").arrays] == ["t[1]"]


@pytest.mark.parametrize("value", [3, None, np.zeros(3), [], {"a": "b"}])
def test_what_holds_no_arrays_says_so(value):
    with pytest.raises(ArrayError, match=r"'x' \(of type \w+\) holds no JAX arrays"):
        explain(value, "x")


@pytest.mark.parametrize(
    ("expression", "root"),
    [
        *((one, one) for one in ("w", "m.a[0].b", "f(x)[1]", "[w, v]", "dict(a=1)")),
        ("a + b", "(a + b)"),
        ("x if y else z", "(x if y else z)"),
        ("%who", "(%who)"),
    ],
)
def test_only_what_needs_brackets_has_some(expression, root):
    assert rooted(expression) == root


def test_modules_and_states_are_trees():
    nnx = pytest.importorskip("flax.nnx")
    optax = pytest.importorskip("optax")
    eqx = pytest.importorskip("equinox")
    layer = nnx.Linear(2, 3, rngs=nnx.Rngs(0))
    assert [line.split()[0] for line in text(layer).splitlines()[2:]] == [".kernel", ".bias"]
    assert text(layer.kernel, "layer.kernel").startswith("layer.kernel  f32[2, 3]")
    state = optax.adam(1e-3).init(nnx.state(layer, nnx.Param))
    assert "[0]" in text(state) and ".mu" in text(state)
    mlp = eqx.nn.Linear(2, 3, key=jax.random.key(0))
    assert [line.split()[0] for line in text(mlp).splitlines()[2:]] == [".weight", ".bias"]
