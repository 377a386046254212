"""Pushing, pulling and explaining arrays."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from nbdist import Session
from nbdist.errors import (
    ArrayError,
    NbdistError,
    OptionError,
    ProcessError,
    SessionError,
    SpecError,
    TargetError,
)
from nbdist.spelling import Door, through

SETUP = """
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
import dataclasses, os
from collections import namedtuple
import optax
from flax import nnx
from jax.sharding import SingleDeviceSharding
rank = jax.process_index()
own = np.arange(4) + rank
alike = np.arange(4)
local = jax.device_put(np.arange(4.0), jax.local_devices()[0])
params = {"w": both, "b": [half, (local, alike)], "opt": optax.adam(0.1).init({"w": copies}), "n": 3}
model = nnx.Linear(2, 3, rngs=nnx.Rngs(0))
mixed = {"w": both, "loss": 0.5 * rank}
odd = alike if rank else {"a": 1}
Here = namedtuple("Here", "a b")
here = Here(1, 2)
pieces = [jax.device_put(np.full(3, float(rank)), device) for device in jax.local_devices()]
torn = jax.make_array_from_single_device_arrays((3,), NamedSharding(mesh, P()), pieces)
step = 7 if rank == 0 else 8
with jax.set_mesh(jax.make_mesh((2, 2), ("data", "model"))):
    left = jax.device_put(jnp.ones((4, 4)), P(None, "data"))
    right = jax.device_put(jnp.ones((4, 4)), P("data", None))
    partial = jnp.einsum("ab,bc->ac", left, right, out_sharding=P(unreduced={"data"}))
del left, right
"""
WHOLE = np.arange(32, dtype=np.float32).reshape(8, 4)
DATA = "NamedSharding(mesh, P('data'))"


def lacks(session: Session, name: str) -> None:
    """No process has the name, and all are in step."""
    with pytest.raises(ArrayError, match="NameError"):
        session.pull(name)
    assert not session.out_of_step


@pytest.mark.parametrize("name", ["both", "copies"])
def test_a_global_array_comes_whole_and_a_replica_is_sent_once(session: Session, name: str) -> None:
    moved: list[int] = []
    found = session.pull(name, progress=lambda done, total: moved.append(total))
    np.testing.assert_array_equal(found, WHOLE)
    assert moved[-1] == 8 * 4 * 4


def test_bfloat16_scalars_empty_arrays_and_keys_come_as_numpy_has_them(session: Session) -> None:
    half = session.pull("half")
    assert half.dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(half.astype(np.float32), WHOLE)
    assert (session.pull("scalar").shape, session.pull("scalar")) == ((), 3.5)
    assert session.pull("empty").shape == (0, 4)
    assert session.pull("key").tolist() == [0, 7]
    assert session.pull("keys").shape == (4, 2)


def test_plain_values_come_and_go(session: Session) -> None:
    session.push({"table": np.eye(3, dtype=np.int16), "words": ["a", {"b": 1}]})
    assert session.pull("words") == ["a", {"b": 1}]
    assert session.pull("table", on="1").dtype == np.int16
    session.push({"small": np.ones(2, ml_dtypes.bfloat16)})
    assert session.pull("small.dtype.name") == "bfloat16"


def test_partial_sums_are_shown(session: Session) -> None:
    assert "partial" in session.shards("partial").text()


def test_a_tracer_cannot_be_pulled(session: Session) -> None:
    session.run("kept = []\njax.jit(lambda x: kept.append(x) or x)(1.0)\nleaked = kept[0]")
    with pytest.raises(ArrayError, match="is a tracer"):
        session.pull("leaked")
    session.run("del leaked, kept")


def test_a_tree_comes_with_its_structure_and_whole_arrays(session: Session) -> None:
    found = session.pull("params")
    np.testing.assert_array_equal(found["w"], WHOLE)
    assert found["b"][0].dtype == ml_dtypes.bfloat16
    assert [array.tolist() for array in found["b"][1]] == [[0, 1, 2, 3], [0, 1, 2, 3]]
    assert type(found["opt"][0]).__name__ == "ScaleByAdamState"
    assert type(found["opt"][0].mu["w"]) is np.ndarray
    assert found["n"] == 3
    np.testing.assert_array_equal(session.pull("params['w'] * 2"), WHOLE * 2)
    # A module comes as its state.
    assert session.pull("model")["kernel"].get_value().shape == (2, 3)


REFUSED = [
    ("no_such_name", "NameError on process 0: name"),
    ("gone", "deleted or donated"),
    ("donated", "deleted or donated"),
    ("(i for i in ())", r"\(of type generator\) cannot be sent to the notebook"),
    ("both +", "is no expression"),
    ("partial", "partial sums over mesh axes 'data'"),
    ("here", "the class Here is defined in a cell of the processes"),
    ("step", "'step' differs between the processes: process 0 has 7, process 1 has 8. on=\\[0\\] "),
    ("own", r"process 0 has i64\[4\] \[0, 1, 2, …\], process 1 has i64\[4\] \[1, 2, 3, …\]"),
    ("mixed", r"at mixed\['loss'\]: process 0 has 0.0, process 1 has 0.5"),
    ("odd", r"process 0 has a dict of 1, process 1 has i64\[4\]"),
    (
        "torn",
        r"process 0 has f32\[3\]\[0:3\] \[0.0, 0.0, 0.0\], process 1 has .* \[1.0, 1.0, 1.0\]",
    ),
    ("rank + 0", "process 0 has 0, process 1 has 1"),
]


@pytest.mark.parametrize(("expression", "text"), REFUSED)
def test_what_cannot_be_pulled_or_differs_is_refused_and_says_why(
    session: Session, expression: str, text: str
) -> None:
    with pytest.raises(ArrayError, match=text):
        session.pull(expression)


def test_one_process_or_each_is_asked_for_what_differs(session: Session) -> None:
    assert session.pull("step", on="1") == 8
    assert session.pull("step", each=True) == {0: 7, 1: 8}
    assert session.pull("rank", each=True, on="1") == {1: 1}
    assert session.pull("torn", on=[1]).tolist() == [1, 1, 1]
    assert session.pull("own", on=[1]).tolist() == [1, 2, 3, 4]
    found = session.pull("mixed", each=True)
    assert [found[p]["loss"] for p in (0, 1)] == [0.0, 0.5]
    np.testing.assert_array_equal(found[1]["w"], WHOLE)
    assert type(session.pull("odd", on=[0])) is dict


@pytest.mark.parametrize(
    ("on", "error", "text"),
    [
        ("1", ArrayError, "'both': only 16 of 32 elements"),
        ("9", TargetError, "processes 0 to 1"),
    ],
)
def test_processes_that_lack_a_part_or_are_not_there_are_named(
    session: Session, on: str, error: type[NbdistError], text: str
) -> None:
    with pytest.raises(error, match=text):
        session.pull("both", on=on)


def test_nothing_is_kept_on_the_processes_of_what_was_moved(session: Session) -> None:
    session.pull("params")
    session.push({"large": np.ones(1 << 20), "parts": [np.ones(1 << 14)] * 3})
    session.run(
        "del large\n"
        "from nbdist.engine.kernel.resident import Resident\n"
        "held = Resident.of().moving._held\n"
        "mapped = sum('nbdist-' in line for line in open('/proc/self/maps'))"
    )
    assert (session.pull("held"), session.pull("mapped", each=True)) == (None, {0: 0, 1: 0})


# What goes there.


def test_functions_and_classes_of_the_notebook_go_along(session: Session) -> None:
    scale = 3

    class Scaler:
        def __init__(self, by: int) -> None:
            self.by = by

        def __call__(self, x: float) -> float:
            return x * self.by

    session.push({"double": lambda x: x * 2, "scaled": lambda x: x * scale, "scaler": Scaler(5)})
    session.run("got = [double(2), scaled(2), scaler(2)]")
    assert session.pull("got") == [4, 6, 10]


@pytest.mark.parametrize("spec", ["P('data', 'model')", "P('model')", "P()"])
def test_an_array_is_pushed_under_a_sharding(session: Session, spec: str) -> None:
    array = np.arange(8 * 12, dtype=np.float32).reshape(8, 12)
    moved: list[int] = []
    sharding = f"NamedSharding(mesh, {spec})"
    session.push(
        {"placed": array}, sharding=sharding, progress=lambda done, total: moved.append(total)
    )
    session.run(f"is_so = placed.sharding == {sharding}; total = float(placed.sum())")
    assert session.pull("(is_so, total)") == (True, array.sum())
    np.testing.assert_array_equal(session.pull("placed"), array)
    # Each process is sent its own half where there are halves; on one machine, equal parts go once.
    assert moved[-1] == array.nbytes


ONES = np.ones(4, "f4")


@pytest.mark.parametrize(
    ("value", "options", "error", "text"),
    [
        (np.ones((3, 2), "f4"), {"sharding": DATA}, SpecError, "does not fit"),
        (ONES, {"sharding": "mesh"}, ArrayError, "'mesh' is a Mesh, not a sharding"),
        (ONES, {"sharding": "nothing_here"}, ArrayError, "NameError"),
        ([1, 2], {"sharding": DATA}, ArrayError, "is of type list: a sharding divides NumPy"),
        (ONES, {"sharding": DATA, "on": "0"}, OptionError, r"cannot be combined with on\."),
        ((i for i in ()), {}, ArrayError, r"'unplaced' \(of type generator\) cannot be sent"),
    ],
)
def test_what_cannot_be_pushed_is_refused_and_nothing_is(
    session: Session, value: object, options: dict[str, str], error: type[NbdistError], text: str
) -> None:
    with pytest.raises(error, match=text):
        session.push({"unplaced": value}, **options)  # type: ignore[arg-type]
    lacks(session, "unplaced")


@pytest.mark.parametrize(
    ("door", "called"), [(Door.PYTHON, r"session\.push"), (Door.MAGIC, "%dist_push")]
)
def test_what_processes_say_speaks_the_language_of_the_call(
    session: Session, door: Door, called: str
) -> None:
    with through(door), pytest.raises(ProcessError, match=rf"with {called}\."):
        session.run("input()")


def test_what_one_process_cannot_make_gets_its_name_on_none(session: Session) -> None:
    class Picky:
        def __setstate__(self, state: object) -> None:
            import jax

            if jax.process_index() == 1:
                raise ImportError("not installed here")

    picky = Picky()
    picky.a = 1  # type: ignore[attr-defined]
    with pytest.raises(ArrayError, match=r"could not be made on process 1.*not installed here"):
        session.push({"before": 1, "picky": picky})
    session.run("there = 'before' in globals() or 'picky' in globals()")
    assert session.pull("there") is False


def test_nothing_is_pushed_to_a_process_in_a_cell(session: Session) -> None:
    handle = session.run("import time\ntime.sleep(600)", on="1", wait=False)
    with pytest.raises(SessionError, match=r"process 1 .*Values can be pushed only while no cell"):
        session.push({"refused": 1})
    session.push({"taken": 1}, on="0")
    session.interrupt()
    with pytest.raises(ProcessError):
        handle.wait()
    assert session.pull("taken", on="0") == 1
    lacks(session, "refused")


def no_memory(*_: object) -> None:
    raise OSError("no memory to share")


CANNOT_MAP = "from nbdist.engine.values import incoming\nreal = incoming.mapped\n"
CANNOT_MAP += "def no_memory(address):\n    raise OSError\nincoming.mapped = no_memory"


@pytest.mark.parametrize("alone", [False, True], ids=["one owns it", "each its own"])
def test_an_array_goes_in_messages_where_this_notebook_shares_no_memory(
    session: Session, monkeypatch: pytest.MonkeyPatch, alone: bool
) -> None:
    monkeypatch.setattr("nbdist.session.values.pull.Sealed", no_memory)
    monkeypatch.setattr("nbdist.session.values.push.Sealed", no_memory)
    if alone:
        session.run(CANNOT_MAP)
    array = np.random.default_rng(0).random((300, 100, 99), dtype=np.float32)
    moved: list[int] = []
    session.push({"far": array}, progress=lambda done, total: moved.append(total))
    assert moved[-1] == array.nbytes * (2 if alone else 1)
    np.testing.assert_array_equal(session.pull("far"), array)
    session.push({"far": array[:296]}, sharding=DATA)
    np.testing.assert_array_equal(session.pull("far"), array[:296])
    session.run("del far")
    if alone:
        session.run("incoming.mapped = real")


def test_a_process_that_cannot_share_memory_gets_it_in_messages(session: Session) -> None:
    session.run(CANNOT_MAP, on="1")
    array = np.random.default_rng(0).random((300, 100, 99), dtype=np.float32)
    moved: list[tuple[int, int]] = []
    session.push({"far": array}, progress=lambda *counts: moved.append(counts))
    assert moved[-1] == (2 * array.nbytes, 2 * array.nbytes) and moved == sorted(moved)
    for got in session.pull("far", each=True).values():
        np.testing.assert_array_equal(got, array)
    session.run("incoming.mapped = real", on="1")
    session.run("del far")


def test_each_process_can_write_to_what_it_was_sent(session: Session) -> None:
    array = np.zeros((1 << 19,), np.float64)
    many = [np.full(9000 + n, n, np.float64) for n in range(100)]  # more than get their own memory
    session.push({"mine": array, "many": many})
    array[:] = 7  # what was sent does not change any more
    session.run("mine += rank\nfor one in many: one += rank")
    for rank, got in session.pull("mine", each=True).items():
        assert (got == rank).all()
    for rank, got in session.pull("many", each=True).items():
        assert all((one == n + rank).all() for n, one in enumerate(got))
    session.run("del mine, many")


def test_a_pushed_array_outlives_a_repair(session: Session) -> None:
    session.push({"kept": WHOLE}, sharding=DATA)
    with pytest.raises(ProcessError):
        session.run("if rank == 0: raise ValueError\njnp.sum(both).block_until_ready()")
    assert not session.out_of_step
    np.testing.assert_array_equal(session.pull("kept"), WHOLE)
    np.testing.assert_array_equal(session.pull("kept + 1"), WHOLE + 1)


def test_large_arrays_are_asked_about(session: Session) -> None:
    asked: list[str] = []
    with pytest.raises(ArrayError, match="128 B in whole, more than 100 B"):
        session.pull("both", limit_bytes=100, confirm=lambda text: bool(asked.append(text)))
    assert "Bring it" in asked[0]
    assert session.pull("both", limit_bytes=100, confirm=lambda text: True).shape == (8, 4)


def test_shards_say_where_each_piece_lies(session: Session) -> None:
    text = session.shards("both").text()
    assert "4 shards of 4 × 2" in text
    assert "[4:8, 2:4]" in text
    with pytest.raises(ArrayError, match="holds no JAX arrays"):
        session.shards("whole")


@pytest.mark.parametrize(
    ("spec", "text"), [("P()", "replicated on 4"), ("P('data')", "2 shards of 4")]
)
def test_what_is_shown_is_what_is_there_right_after_a_cell(
    session: Session, spec: str, text: str
) -> None:
    session.run(f"moved = put(whole, {spec})")
    assert text in session.mesh("moved").text()
    session.run("del moved")
    with pytest.raises(ArrayError, match="no process has an array 'moved'"):
        session.mesh("moved").text()


def test_the_history_of_cells_is_kept_with_how_they_ended(session: Session) -> None:
    session.run("first = 1")
    with pytest.raises(ProcessError):
        session.run("1 / 0", on="0")
    with pytest.raises(ProcessError):
        session.run(
            "if rank == 1: raise ValueError\njnp.sum(both).block_until_ready()", grace_s=0.5
        )
    first, failed, waited = session.history[-3:]
    # Process 0 was interrupted.
    assert (waited.outcome, waited.targets) == ("raised", (0, 1))
    assert (first.code, first.targets, first.outcome) == ("first = 1", (0, 1), "finished")
    assert (failed.code, failed.targets, failed.outcome) == ("1 / 0", (0,), "raised")
    assert failed.number == first.number + 1
    assert 0 <= failed.seconds < 30
