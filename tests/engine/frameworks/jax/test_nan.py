"""NaN and infinite values, counted piece by piece."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nbdist.engine.frameworks.jax import inspection
from nbdist.engine.frameworks.jax.inspection import nan as count
from nbdist.view.shards import nan_text
from tests.engine.arrays import spread


def test_each_piece_by_itself_and_copies_once_in_the_sum(mesh):
    values = np.zeros((8, 4), "float32")
    values[0, 0], values[7, 1], values[7, 2] = np.nan, np.inf, -np.inf
    answer = count({"w": spread(values, mesh, "data")}, "params")
    (array,) = answer.arrays
    assert array.path == "params['w']"
    assert len(array.pieces) == 4, "two pieces have some, each on two devices"
    sums = {what: sum(getattr(p, what) for p in array.pieces if p.first) for what in ("nan", "inf")}
    assert sums == {"nan": 1, "inf": 2}
    assert {p.index for p in array.pieces if p.nan} == {"[0:2, :]"}
    assert sum(p.nan for p in array.pieces) == 2, "both copies have it"
    text = nan_text("params", {0: answer})
    assert text.splitlines()[1].split() == ["params['w']", "f32[8,", "4]", "1", "2"]
    assert text.count("process 0 · device") == 4


@pytest.mark.parametrize(
    "dtype", ["bfloat16", "float16", "float8_e4m3fn", "float8_e5m2", "complex64"]
)
def test_every_kind_of_float(dtype):
    array = jnp.asarray([1.0, np.nan, 2.0], dtype)
    assert count(array, "x").arrays[0].pieces[0].nan == 1


def test_integers_and_keys_have_none():
    tree = {"n": jnp.arange(3), "key": jax.random.key(0), "empty": jnp.zeros((0, 2))}
    answer = count(tree, "x")
    assert (answer.arrays, answer.looked) == ((), 3)
    assert nan_text("x", {0: answer}) == "no NaN or Inf in 3 arrays of x"


def test_what_has_no_values_is_said_and_not_counted():
    gone = jnp.zeros(2)
    gone.delete()
    answer = count([gone, jnp.zeros(2)], "a + b")
    assert [a.path for a in answer.arrays] == ["(a + b)[0]"]
    text = nan_text("a + b", {0: answer})
    assert text.splitlines() == [
        "no NaN or Inf in 1 array of a + b",
        "without values, and not counted: (a + b)[0]",
    ]


def test_nothing_is_left_out_of_a_large_tree():
    one = jnp.zeros(1)
    bad = jnp.full(1, jnp.nan)
    deep = bad
    for _ in range(60):
        deep = [deep]
    named = dict.fromkeys(range(5000), one) | {1.5: bad, "last": bad}
    answer = count({"many": [one] * 5000 + [bad], "deep": deep, "named": named}, "x")
    assert (answer.omitted, answer.looked) == (0, 10_004)
    assert [a.path for a in answer.arrays] == [
        "x['many'][5000]",
        "x['named'][1.5]",
        "x['named']['last']",
        "x['deep']" + "[0]" * 60,
    ]


def test_what_no_expression_reaches_is_counted_as_not_looked_at():
    class Key:
        pass

    answer = count({"a": jnp.zeros(1), Key(): jnp.full(1, jnp.nan)}, "x")
    assert nan_text("x", {0: answer}).splitlines() == [
        "no NaN or Inf in 1 array of x",
        "not looked at: 1 more array",
    ]


def test_what_is_not_counted_is_not_said_to_be_no_array():
    deep = jnp.full(1, jnp.nan)
    for _ in range(2000):
        deep = [deep]
    said = nan_text("x", {0: count(deep, "x")})
    assert "no array" in said and "1 container" in said
    said = nan_text("x", {0: count({"a": jnp.zeros(1), "deep": deep}, "x")})
    assert "1 array of x" in said.splitlines()[0]
    assert "1 container" in said.splitlines()[1]


def test_an_array_at_many_places_is_read_once(monkeypatch):
    bad, reads = jnp.full(1, jnp.nan), []
    read = inspection._pieces
    monkeypatch.setattr(inspection, "_pieces", lambda array: reads.append(1) or read(array))
    assert len(count([bad] * 1000, "x").arrays) == 1000 and len(reads) == 1


def test_a_tree_without_arrays_says_so():
    assert nan_text("x", {0: count([1, "a"], "x")}) == "x holds no arrays"
