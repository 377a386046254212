"""Arrays that a cell makes of its own values are numbered, and compared where a program gets them.

On one process all devices are its own; here an array on more than one device stands for one on those of several
processes.
"""

from __future__ import annotations

import contextlib
import json
import pickle
import threading

import cloudpickle
import jax
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from nbdist.engine.frameworks.jax.step import dispatched as module
from nbdist.engine.frameworks.jax.step import origins as made
from nbdist.engine.frameworks.jax.step.dispatched import Dispatched
from nbdist.engine.frameworks.jax.step.origins import UNKNOWN
from nbdist.errors import ArrayError


@pytest.fixture
def seen(monkeypatch):
    monkeypatch.setattr(module, "spans", lambda array: len(array.sharding.device_set) > 1)
    monkeypatch.setattr(made, "coordinator_client", lambda: None)
    found = Dispatched()
    found.devices = 8
    assert found.hook()
    found.begin_cell(5, same=True)
    yield found
    found._unhook()


@pytest.fixture
def split():
    mesh = jax.make_mesh((8,), ("d",), axis_types=(AxisType.Auto,))
    return NamedSharding(mesh, P("d"))


def rows(split, count=8):
    return jax.make_array_from_process_local_data(split, np.ones(count, np.float32))


@pytest.mark.parametrize(
    "make",
    [
        rows,
        lambda split: jax.make_array_from_callback((8,), split, lambda i: np.ones(8)[i]),
        lambda split: jax.device_put(np.ones(8), split),
        lambda split: jax.make_array_from_single_device_arrays(
            (8,), split, [jax.device_put(np.ones(1), d) for d in split.mesh.devices.flat]
        ),
    ],
    ids=made.MAKERS,
)
def test_each_array_of_a_loop_has_an_origin_of_its_own(seen, split, make):
    of = seen.origins.of
    first, second = make(split), make(split)
    assert UNKNOWN not in (of(first), of(second))
    assert of(first) != of(second)
    seen.begin_cell(6, same=True)
    again = make(split)
    assert of(again)[2].startswith("6 made 1 ")


def test_a_program_is_known_by_the_arrays_it_is_the_first_to_get(seen, split):
    total = jax.jit(lambda x: x.sum())
    first, second, third = rows(split), rows(split), rows(split, 16)
    for x in (second, first, third, first):
        total(x)
    assert list(seen.given) == ["5: 2 float32[8]", "5: 1 float32[8]", "5: 3 float32[16]", ""]


def test_another_array_in_its_place_is_another_checksum(seen, split):
    total = jax.jit(lambda x: x.sum())
    total(rows(split))

    def names(number):
        seen.in_step()
        seen.begin_cell(seen.made.run + 1, same=True)
        seen.made.run = 9
        total([rows(split) for _ in range(number)][-1])
        return seen.count.names

    assert names(3) == names(3) != names(2)


def test_two_arrays_that_a_program_gets_in_another_order_are_no_difference(seen, split):
    both = jax.jit(lambda x, y: x.sum() + y.sum())
    both(rows(split), rows(split, 16))
    small, large = rows(split), rows(split, 16)
    both(small, y=large)
    large, small = rows(split, 16), rows(split)
    both(small, y=large)
    assert [text.partition(" ")[2] for text in seen.given] == [
        "1 2 float32[16] float32[8]",
        "3 4 float32[16] float32[8]",
        "5 6 float32[16] float32[8]",
    ]


def test_what_was_there_when_a_cell_began_counts_by_its_shape_alone(seen, split):
    x = rows(split)
    seen.begin_cell(6, same=True)
    jax.jit(lambda x: x * 2)(x)
    assert list(seen.given) == ["0: float32[8]"]


def test_what_a_thread_makes_counts_by_its_shape_alone_and_is_not_looked_for(seen, split):
    found = []
    thread = threading.Thread(target=lambda: found.append(rows(split)), name="loader")
    thread.start()
    thread.join()
    own = rows(split)
    assert seen.origins.of(found[0])[2].startswith("thread loader made 1 ")
    assert seen.origins.of(own)[2].startswith("5 made 1 ")
    assert [array is own for array, _ in seen.origins] == [True], "also before the first program"
    jax.jit(lambda x: x * 2)(found[0])
    assert list(seen.given) == ["0: float32[8]"]
    assert id(found[0]) not in {id(array) for array, _ in seen.origins}


def test_of_arrays_that_no_longer_exist_nothing_stays(seen, split):
    for _ in range(3 * made.MANY):
        x = rows(split)
    assert len(seen.made._unused) <= made.MANY + 1
    total = jax.jit(lambda x: x.sum())
    total(x)
    assert list(seen.given) == [f"5: {3 * made.MANY} float32[8]"]


def test_programs_on_some_devices_have_numbers_and_origins_of_their_own(seen):
    some = jax.make_mesh((4,), ("d",), devices=jax.devices()[:4], axis_types=(AxisType.Auto,))
    u = jax.device_put(np.zeros(8, np.float32), NamedSharding(some, P("d")))
    add = jax.jit(lambda u: u + 1)
    steps = [u := add(u) for _ in range(3)]
    assert len({seen.origins.of(step) for step in steps}) == 3
    assert [count for count, _ in seen.parts.values()] == [3]
    (devices,) = seen.parts
    assert devices == "0,1,2,3/0"
    before = seen.origins.of(steps[0])
    seen.in_step()
    assert seen.parts == {}
    seen.begin_cell(6, same=True)
    assert seen.origins.of(add(u)) not in (before, UNKNOWN)


class Store:
    """The coordinator's store, in which another process has put its shape already."""

    def __init__(self, others=()):
        self.texts = dict(others)
        self.deleted = []

    def key_value_set(self, key, value):
        self.texts[key] = value

    def key_value_dir_get(self, folder):
        return [(key, text) for key, text in self.texts.items() if key.startswith(folder)]

    def key_value_delete(self, key):
        self.deleted.append(key)


HERE, THERE = "float32[8]", "float32[16]"


def announced_by_another(what, name, shape=THERE):
    return Store([(f"nbdist/announced/{what}/1", json.dumps([name, [shape]]))])


def test_a_global_shape_that_is_not_that_of_another_process_is_refused(seen, split, monkeypatch):
    store = announced_by_another("5/1", made.INFERS)
    monkeypatch.setattr(made, "coordinator_client", lambda: store)
    with pytest.raises(
        ArrayError,
        match=r"made float32\[8\] of the rows of this process, and float32\[16\] of those of process 1",
    ):
        rows(split)
    rows(split)  # known by now, and not the first
    rows(split, 24)  # new, and nobody has said another
    own = ["nbdist/announced/5/1/0", "nbdist/announced/5/3/0"]
    assert [key for key in store.texts if key.endswith("/0")] == own
    seen.begin_cell(6, same=True)
    assert store.deleted == own
    store.texts = announced_by_another("6/1", made.INFERS).texts
    with pytest.raises(ArrayError):  # known, and the first of its cell
        rows(split)


def test_a_shape_that_is_stated_is_not_compared(seen, split, monkeypatch):
    store = announced_by_another("5/1", made.INFERS)
    monkeypatch.setattr(made, "coordinator_client", lambda: store)
    jax.make_array_from_process_local_data(split, np.ones(8, np.float32), (8,))
    jax.make_array_from_process_local_data(split, np.ones(8, np.float32), global_shape=(8,))
    assert len(store.texts) == 1


@pytest.mark.parametrize(
    ("name", "shape", "refused"), [("f", THERE, 1), ("g", THERE, 0), ("f", HERE, 0)]
)
def test_a_program_is_refused_before_its_first_run_where_another_process_has_other_shapes(
    seen, split, monkeypatch, name, shape, refused
):
    x = rows(split)

    def f(x):
        return x + 1

    title = module.label(f).decode().partition(" ")[0].replace("f", name)
    store = announced_by_another(f"5/{seen.generation}/{seen.serial}", title, shape)
    monkeypatch.setattr(made, "coordinator_client", lambda: store)
    before = seen.serial
    with (
        pytest.raises(ArrayError, match="is to compute with")
        if refused
        else contextlib.nullcontext()
    ):
        jax.jit(f)(x)
    assert seen.serial == before + (not refused)


def test_a_coordinator_that_is_gone_stops_nothing(seen, split, monkeypatch):
    class Gone:
        def key_value_set(self, key, value):
            raise RuntimeError("UNAVAILABLE")

    monkeypatch.setattr(made, "coordinator_client", Gone)
    assert jax.jit(lambda x: x.sum())(rows(split)) == 8


def test_functions_that_make_arrays_are_themselves_where_they_are_pickled(seen):
    for name in made.MAKERS:
        function = getattr(jax, name)
        assert pickle.loads(cloudpickle.dumps(function)) is function


def test_what_is_made_after_a_round_of_copies_and_before_the_next_cell_is_not_of_a_cell(
    seen, split
):
    seen.made.in_cell = False
    seen.begin_cell(6, same=True, code=False)
    x = rows(split)
    assert x not in seen.origins
    jax.jit(lambda x: x.sum())(x)
    assert list(seen.given) == [""]
