"""Pushing, pulling and explaining arrays."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from nbdist import Session
from nbdist.errors import ArrayError, ProcessError, TargetError

MAKE = """
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
mesh = jax.make_mesh((2, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2)
def put(array, spec):
    return jax.make_array_from_callback(array.shape, NamedSharding(mesh, spec), lambda i: array[i])
whole = np.arange(32, dtype=np.float32).reshape(8, 4)
both = put(whole, P("data", "model"))
copies = put(whole, P())
half = put(whole.astype(jnp.bfloat16), P("data"))
scalar = put(np.array(3.5, np.float32), P())
empty = put(np.zeros((0, 4), np.int8), P())
key = jax.random.key(7)
keys = jax.random.split(jax.random.key(7), 4)
gone = jnp.ones(3)
gone.delete()
donated = jnp.ones(3)
jax.jit(lambda x: x + 1, donate_argnums=0)(donated)
"""


@pytest.fixture(scope="module", autouse=True)
def arrays(session: Session) -> None:
    session.run(MAKE)


@pytest.mark.parametrize("name", ["both", "copies"])
def test_a_global_array_comes_whole(session: Session, name: str) -> None:
    found = session.pull(name)
    np.testing.assert_array_equal(found, np.arange(32, dtype=np.float32).reshape(8, 4))


def test_bfloat16_comes_through_ml_dtypes(session: Session) -> None:
    found = session.pull("half")
    assert found.dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(found.astype(np.float32).ravel(), np.arange(32))


def test_scalars_and_empty_arrays_come_with_their_shape(session: Session) -> None:
    assert session.pull("scalar").shape == ()
    assert session.pull("scalar") == 3.5
    assert session.pull("empty").shape == (0, 4)


def test_typed_keys_come_as_their_data(session: Session) -> None:
    assert session.pull("key").tolist() == [0, 7]
    assert session.pull("keys").shape == (4, 2)


def test_a_replica_is_sent_once(session: Session) -> None:
    session.run(
        "from nbdist.engine.jax.arrays import offer_array\n"
        "sent = sum(map(len, offer_array(copies, 'copies', 1 << 30)[1]))"
    )
    sent = [session.pull("sent", on=[process_id]) for process_id in (0, 1)]
    assert sum(sent) == 8 * 4 * 4


def test_plain_values_come_and_go(session: Session) -> None:
    session.push({"table": np.eye(3, dtype=np.int16), "words": ["a", {"b": 1}]})
    assert session.pull("words") == ["a", {"b": 1}]
    assert session.pull("table", on="1").dtype == np.int16
    session.push({"small": np.ones(2, ml_dtypes.bfloat16)})
    assert session.pull("small.dtype.name") == "bfloat16"


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("no_such_name", "NameError on process 0"),
        ("gone", "deleted or donated"),
        ("donated", "deleted or donated"),
        ("lambda: 1", "cannot be sent to the notebook"),
        ("both +", "is no expression"),
    ],
)
def test_what_cannot_be_pulled_says_why(session: Session, expression: str, text: str) -> None:
    with pytest.raises(ArrayError, match=text):
        session.pull(expression)


def test_a_tracer_cannot_be_pulled(session: Session) -> None:
    session.run("kept = []\njax.jit(lambda x: kept.append(x) or x)(1.0)\nleaked = kept[0]")
    with pytest.raises(ArrayError, match="is a tracer"):
        session.pull("leaked")
    session.run("del leaked, kept")


def test_partial_sums_cannot_be_pulled(session: Session) -> None:
    session.run(
        "emesh = jax.make_mesh((2, 2), ('data', 'model'))\n"
        "with jax.set_mesh(emesh):\n"
        "    left = jax.device_put(jnp.ones((4, 4)), P(None, 'data'))\n"
        "    right = jax.device_put(jnp.ones((4, 4)), P('data', None))\n"
        "    partial = jnp.einsum('ab,bc->ac', left, right, out_sharding=P(unreduced={'data'}))"
    )
    with pytest.raises(ArrayError, match="partial sums over mesh axes 'data'"):
        session.pull("partial")
    assert "partial" in session.shards("partial").text()


def test_large_arrays_are_asked_about(session: Session) -> None:
    asked: list[str] = []
    with pytest.raises(ArrayError, match="128 B in whole, more than 100 B"):
        session.pull("both", limit_bytes=100, confirm=lambda text: bool(asked.append(text)))
    assert "Bring it into this notebook?" in asked[0]
    assert session.pull("both", limit_bytes=100, confirm=lambda text: True).shape == (8, 4)


def test_what_cannot_be_pickled_is_not_pushed(session: Session) -> None:
    with pytest.raises(ArrayError, match="'f' is a function and cannot be sent"):
        session.push({"first": 1, "f": lambda: 1})
    with pytest.raises(ArrayError, match="NameError"):
        session.pull("first")


def test_shards_say_where_each_piece_lies(session: Session) -> None:
    text = session.shards("both").text()
    assert "4 pieces of 4 × 2" in text
    assert "[4:8, 2:4]" in text
    with pytest.raises(ArrayError, match="holds no JAX arrays"):
        session.shards("whole")


def test_what_is_shown_is_what_is_there_right_after_a_cell(session: Session) -> None:
    for spec, text in (("P()", "whole on each of 4"), ("P('data')", "2 pieces of 4 × 4")):
        session.run(f"moved = put(whole, {spec})")
        assert text in session.mesh("moved").text()
    session.run("del moved")
    with pytest.raises(ArrayError, match="no process has an array 'moved'"):
        session.mesh("moved").text()


def test_unknown_targets_are_refused(session: Session) -> None:
    with pytest.raises(TargetError, match="processes 0 to 1"):
        session.pull("both", on="9")


def test_the_history_of_cells_is_kept_with_how_they_ended(session: Session) -> None:
    session.run("first = 1")
    with pytest.raises(ProcessError):
        session.run("1 / 0", on="0")
    first, failed = session.history[-2:]
    assert (first.code, first.targets, first.outcome) == ("first = 1", (0, 1), "finished")
    assert (failed.code, failed.targets, failed.outcome) == ("1 / 0", (0,), "raised")
    assert failed.number == first.number + 1
    assert 0 <= failed.seconds < 30
