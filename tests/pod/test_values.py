"""Where a rehearsal has a value, and what it says where it has none."""

from __future__ import annotations

import functools
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from nbdist.errors import RehearsalError, ValueNeeded
from nbdist.rehearsal.values import DescribedArray
from tests.pod.rehearsed import rehearsed

NEEDED = {
    "float()": float,
    "int()": int,
    "complex()": complex,
    "if, or bool(),": bool,
    "item()": lambda loss: loss.item(),
    "tolist()": lambda loss: loss.tolist(),
    "numpy": np.asarray,
    "pickle": pickle.dumps,
}


def loss():
    return jax.jit(lambda x: x.mean())(jnp.ones(8))


@pytest.mark.parametrize("use", NEEDED)
def test_a_value_that_a_program_would_give_is_named_with_the_line_that_needs_it(use):
    with rehearsed(), pytest.raises(ValueNeeded) as failure:
        NEEDED[use](loss())
    said = str(failure.value)
    assert said.startswith(
        f"{use} needs the value of float32[], which <lambda> would give, in line "
    )
    assert "loss" in said.split("test_values.py: ", 1)[1] and "--value 1.0" in said


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (lambda: loss() > 1, "what <lambda> would give"),
        (lambda: jnp.ones((1000, 1000)).sum(), "so many elements"),
        (
            lambda: functools.reduce(lambda total, _: total + 1, range(500), jnp.zeros(())),
            "so many",
        ),
    ],
)
def test_why_there_is_no_value_is_said(value, said):
    with rehearsed(), pytest.raises(ValueNeeded, match=said):
        bool(value())


def test_a_stand_in_is_computed_with():
    with rehearsed() as rehearsal:
        rehearsal.trace.stand_in = 2.0
        value = loss()
        assert float(value) == 2.0
        assert float(value * 3 + 1) == 7.0
        assert not value > 5
        assert f"{value:.3f}" == "2.000"
        assert f"{value}" == str(value) == "2.0"
        rehearsal.trace.stand_in = None
        with pytest.raises(ValueNeeded):
            float(value)


def test_values_that_the_cell_itself_says_are_computed():
    real = float(jax.random.normal(jax.random.key(3), (4,))[1])
    with rehearsed() as rehearsal:
        rehearsal.trace.stand_in = 9.0
        assert int(jnp.arange(5)[3]) == 3
        assert [int(one) for one in jnp.arange(3)] == [0, 1, 2]
        assert float(jax.random.normal(jax.random.key(3), (4,))[1]) == real
        assert np.asarray(jnp.ones(3) + np.arange(3)).tolist() == [1, 2, 3]


def test_neither_a_layout_nor_a_later_change_of_its_source_changes_a_value(mesh):
    with rehearsed():
        source = np.arange(8, dtype=np.int32)
        x = jax.device_put(source, NamedSharding(mesh, P("data")))
        source[:] = 7
        x = jax.lax.with_sharding_constraint(x, NamedSharding(mesh, P()))
        assert int(x[5] + 1) == 6
        assert np.asarray(x).tolist() == list(range(8))


def test_text_needs_no_value(mesh):
    with rehearsed():
        x = jax.jit(lambda x: x + 1)(
            jax.device_put(np.ones((8, 4), np.float32), NamedSharding(mesh, P("data")))
        )
        assert repr(x) == "float32[8,4] P('data',)"
        assert f"{x}" == "<float32[8,4] P('data',) without a value>"
        assert f"{loss():.3f}" == "<float32[] without a value>"


def test_shards_are_those_of_the_first_host(mesh):
    real = jax.device_put(np.ones((8, 4), np.float32), NamedSharding(mesh, P("data", "model")))
    with rehearsed():
        x = jax.device_put(np.ones((8, 4), np.float32), real.sharding)
        assert [(one.device, one.index, one.replica_id) for one in x.addressable_shards] == [
            (one.device, one.index, one.replica_id) for one in real.addressable_shards
        ]
        assert x.addressable_data(0).shape == (2, 2)
        assert x.addressable_shards[3].data.devices() == {real.addressable_shards[3].device}
        assert x.devices() == real.devices()
        assert x.is_fully_addressable
        assert not x.is_fully_replicated
        assert x.nbytes == real.nbytes
        x.block_until_ready()
        jax.block_until_ready({"x": x})


def test_how_a_result_of_what_does_not_fit_lies_is_not_known():
    with rehearsed() as rehearsal:
        x = DescribedArray(
            rehearsal.trace, jax.typeof(np.ones(3)), sharding=None, committed=True, source="step"
        )
        with pytest.raises(RehearsalError, match="result of step, which"):
            jax.jit(lambda x: x + 1)(x)


def test_explicit_axes_give_no_wrong_value():
    """Their operations name the mesh, which cannot be computed with on one CPU."""
    mesh = jax.make_mesh((8,), ("x",), axis_types=(AxisType.Explicit,))
    with rehearsed() as rehearsal:
        x = jax.device_put(np.arange(8), NamedSharding(mesh, P("x"))) * 2
        with pytest.raises(ValueNeeded):
            np.asarray(x)
        rehearsal.trace.stand_in = 3
        assert np.asarray(x).tolist() == [3] * 8
