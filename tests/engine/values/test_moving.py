"""Values that an engine offers, piece by piece, and takes: one process, eight devices, no kernel."""

from __future__ import annotations

import dataclasses
import gc
import math
import os
import random
import sys
import threading
import types
import weakref
from collections import OrderedDict, namedtuple
from pathlib import Path

import jax
import jax.numpy as jnp
import keras
import ml_dtypes
import numpy as np
import optax
import pytest
from flax import nnx
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P
from msgspec import structs

from nbdist.contract.calls.stepping import Save
from nbdist.contract.calls.values import ArrayType, OfferedBox, box
from nbdist.engine.frameworks import parts
from nbdist.engine.frameworks.jax.arrays import offer_array, placed
from nbdist.engine.kernel.calls import save
from nbdist.engine.values.arrays import digest, is_numpy_array, packed, unpacked
from nbdist.engine.values.incoming import COMMON, Incoming, Moving
from nbdist.engine.values.outgoing import Outgoing, ValueTree
from nbdist.errors import ArrayError, SessionError, SpecError, StaleError
from nbdist.machine.sealed import Sealed, mapped
from nbdist.notation import dtype_name, dtype_named

Pair = namedtuple("Pair", "left right")


@dataclasses.dataclass
class Settings:
    rate: float
    table: object


@jax.tree_util.register_pytree_with_keys_class
class Registered:
    def __init__(self, inside, name):
        self.inside, self.name = inside, name

    def tree_flatten_with_keys(self):
        return [(jax.tree_util.GetAttrKey("inside"), self.inside)], self.name

    @classmethod
    def tree_unflatten(cls, name, children):
        return cls(*children, name)


class Opaque:
    """Says nothing of what it holds."""

    def __init__(self, held):
        self.held = held


def tree(value, expression="x"):
    return ValueTree(value, expression, offer_array, parts())


def out(value, expression="x"):
    return Outgoing(value, expression, offer_array, parts())


def come(value, expression="x"):
    """What a kernel makes of a value of one process."""
    offered = out(value, expression)
    arrays = {}
    for path, array in offered.describe().arrays.items():
        whole = arrays[path] = np.empty(array.shape, dtype_named(array.dtype))
        for number, bounds in enumerate(array.pieces):
            data = offered.take([part_of(path, number, bounds)])
            part = whole[(*(slice(*pair) for pair in bounds), ...)]
            part[...] = np.frombuffer(data, whole.dtype).reshape(part.shape)
    return unpacked(offered.structure(), arrays.__getitem__)


def part_of(path, piece, bounds):
    return OfferedBox(path=path, piece=piece, box=box(bounds))


def mesh():
    return jax.make_mesh((8,), ("x",))


def trees():
    """Made when a test runs: the devices are chosen by then."""
    one = jnp.arange(3)
    return {
        "dict": {"w": jnp.ones((2, 3)), "n": 1, "none": None},
        "ordered": OrderedDict(b=np.arange(3), a=jnp.zeros(2)),
        "lists": [1, (2.5, [jnp.ones(3)]), "text", b"bytes"],
        "namedtuple": Pair(jnp.arange(4), {"deep": Pair(1, np.eye(2))}),
        "registered": Registered({"w": jnp.ones(2)}, "kept"),
        "optax": optax.adam(0.1).init({"w": jnp.ones(3)}),
        "shared": [one, one],
    }


NAMES = ("dict", "ordered", "lists", "namedtuple", "registered", "optax", "shared")


@pytest.mark.parametrize("name", NAMES)
def test_a_container_comes_with_its_structure_and_numpy_arrays_in_it(name):
    value = trees()[name]
    found = come(value)
    given, given_shape = jax.tree_util.tree_flatten(value)
    back, back_shape = jax.tree_util.tree_flatten(found)
    assert back_shape == given_shape
    for one, other in zip(given, back, strict=True):
        np.testing.assert_array_equal(one, other)
        assert type(other) is (np.ndarray if isinstance(one, jax.Array) else type(one))


def test_objects_of_any_class_come_with_the_arrays_in_them():
    found = come([Settings(0.5, {"t": jnp.arange(3)}), Opaque({"a": jnp.ones(3)})])
    assert (type(found[0]), found[0].rate) == (Settings, 0.5)
    assert type(found[0].table["t"]) is type(found[1].held["a"]) is np.ndarray
    assert found[1].held["a"].tolist() == [1, 1, 1]


def test_an_array_that_is_there_twice_comes_once():
    described = out(trees()["shared"]).describe()
    assert list(described.arrays) == ["x[0]"]
    found = come(trees()["shared"])
    assert found[0] is found[1]


def test_a_module_of_flax_comes_as_its_state():
    model = nnx.Linear(2, 3, rngs=nnx.Rngs(0))
    found = come({"model": model})["model"]
    assert isinstance(found, nnx.State)
    np.testing.assert_array_equal(found["kernel"].get_value(), model.kernel.get_value())
    assert type(found["kernel"].get_value()) is np.ndarray
    assert "x['model']['kernel']" in out({"model": model}).describe().arrays


def test_a_parameter_of_flax_by_itself_comes_as_its_array():
    kernel = nnx.Linear(2, 3, rngs=nnx.Rngs(0)).kernel
    found = come(kernel)
    assert type(found) is np.ndarray
    np.testing.assert_array_equal(found, kernel.get_value())


def test_arrays_are_named_by_their_paths():
    value = {"a": [jnp.ones(1), Pair(jnp.ones(2), Settings(1.0, jnp.ones(3)))]}
    paths = ["x['a'][0]", "x['a'][1].left", "x['a'][1].right.table"]
    assert list(out(value).describe().arrays) == paths


def test_keys_with_the_same_text_are_not_mixed_up():
    key, other = Opaque(1), Opaque(2)
    assert len(out({key: jnp.ones(1), other: jnp.zeros(1)}).describe().arrays) == 2


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        ({"a", "b", "c"}, {"c", "b", "a"}),
        (["aa", "aa"], ["".join("aa"), "".join(["a", "a"])]),
        (float("nan"), float("nan")),
        (np.float32(1), np.float32(1)),
        ({n: n for n in range(5000)}, {n: n for n in reversed(range(5000))}),
        ({"w": np.ones(3)}, {"w": np.ones(3)}),
    ],
)
def test_what_is_equal_has_one_digest(one, other):
    assert tree(one).digest() == tree(other).digest()


def defined(code):
    """A function of a notebook."""
    space = {"__name__": "__main__"}
    exec(code, space)
    return space["f"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 2),
        (1, True),
        (1, 1.0),
        ("a" * 100 + "b", "a" * 100 + "c"),
        ([1, 2], (1, 2)),
        ({"a": 1}, {"a": 1, "b": 1}),
        ({"a": 1}, {"a": 2}),
        (np.ones(3), np.ones(4)),
        (np.ones(3), np.ones(3, "f4")),
        (np.ones(3), [1.0, 1.0, 1.0]),
        (Registered(1, "a"), Registered(1, "b")),
        (Opaque(1), Opaque(2)),
        ({1}, {2}),
        ([0] * 5000, [0] * 4999 + [1]),
        ({n: n for n in range(5000)}, {n: n or 1 for n in range(5000)}),
        (Settings(1.0, 1), Settings(1.0, 2)),
        (defined("def f(): return 1"), defined("def f(): return 2")),
        (
            defined("def g(a):\n    return lambda: a\nf = g(1)"),
            defined("def g(a):\n    return lambda: a\nf = g(2)"),
        ),
    ],
)
def test_what_differs_has_another_digest(one, other):
    assert tree(one).digest() != tree(other).digest()


def test_the_values_of_arrays_are_compared_by_digests_of_their_pieces():
    digests = [
        out({"w": w}).digests([("x['w']", 0)]) for w in (jnp.ones(3), jnp.ones(3), -jnp.ones(3))
    ]
    assert digests[0] == digests[1] != digests[2]


def test_a_difference_anywhere_in_a_large_array_is_seen():
    array = np.arange((3 << 18) + 3, dtype=np.float32)
    equal = digest(array)
    assert digest(array.copy()) == equal
    for place in (0, 1 << 18, array.size - 1):
        other = array.copy()
        other[place] = -1
        assert digest(other) != equal
    swapped = array.copy()
    swapped[[1, 3]] = swapped[[3, 1]]
    assert digest(swapped) != equal
    assert digest(-array) != equal
    assert digest(np.roll(array, 1 << 18)) != equal


@pytest.mark.parametrize("dtype", ["f4", "f8", "u1", "f2"])
def test_a_difference_in_any_bit_of_some_or_all_elements_is_seen(dtype):
    rng = np.random.default_rng(0)
    array = rng.integers(1, 100, 1 << 20).astype(dtype)
    raw = array.view(f"u{array.itemsize}")
    found = [digest(array)]
    for bit in range(8 * array.itemsize):
        flipped = np.array(1 << bit, raw.dtype)
        for places in (slice(None), slice(0, None, 2), slice(1, None, 2), [3, 11], [0, 8, 1, 9]):
            other = raw.copy()
            other[places] ^= flipped
            found.append(digest(other))
    assert len(set(found)) == len(found)


def test_models_of_keras_are_compared_by_their_variables(monkeypatch):
    dense = keras.layers.Dense(2)
    dense.build((None, 3))
    equal = tree({"m": dense}).digest()
    # What a pickle of it holds of the time is not compared.
    monkeypatch.setattr("time.time", lambda: 1e9)
    assert tree({"m": dense}).digest() == equal
    dense.bias.assign([1, 1])
    assert tree({"m": dense}).digest() != equal


def test_a_value_that_holds_itself_has_an_end():
    value = [1]
    value.append(value)
    assert come(value)[1][1][0] == 1


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (
            {"a": [threading.Lock()]},
            r"\"x\['a'\]\[0\]\" \(of type lock\) cannot be sent to the notebook",
        ),
        ({"a": (i for i in ())}, r"\(of type generator\) cannot be sent"),
    ],
)
def test_what_cannot_be_sent_is_named_with_its_path(value, text):
    with pytest.raises(ArrayError, match=text):
        out(value)


class Raises:
    """Each look at it raises an error whose text raises, too."""

    class Mute(Exception):
        def __str__(self):
            raise KeyError("no text")

    def __getattr__(self, name):
        raise self.Mute

    def __repr__(self):
        raise self.Mute

    def __reduce_ex__(self, version):
        raise self.Mute

    __eq__ = __array__ = __getattr__
    __hash__ = None


def test_a_value_that_raises_is_named_and_its_error_too():
    for value in (Raises(), {"a": Raises()}, (1, [Raises()])):
        with pytest.raises(ArrayError, match=r"x.*Mute: \(its text cannot be shown"):
            out(value)


def test_what_raises_when_it_is_taken_apart_is_named_with_its_path():
    @jax.tree_util.register_pytree_node_class
    class Leaky:
        def tree_flatten(self):
            raise ValueError("lost")

        tree_unflatten = classmethod(tuple)

    with pytest.raises(ArrayError, match=r"\"x\['a'\]\[1\]\" cannot be sent .* ValueError: lost"):
        out({"a": [1, Leaky()]})


def test_ways_without_end_to_the_same_lists_end():
    value = [np.arange(3)]
    for _ in range(60):
        value = [value, value]
    found = come(value)
    for _ in range(60):
        assert found[0] is found[1]
        found = found[0]
    assert np.array_equal(found[0], np.arange(3))


def test_an_array_without_values_is_named_with_its_path():
    gone = jnp.ones(3)
    gone.delete()
    with pytest.raises(ArrayError, match=r"x\['a'\]\[1\].*deleted or donated"):
        out({"a": [1, gone]})


def test_a_class_of_a_cell_is_missed_by_its_name_where_it_is_not(monkeypatch):
    main = types.ModuleType("__main__")
    monkeypatch.setitem(__import__("sys").modules, "__main__", main)
    exec("class Mine:\n    pass", main.__dict__)
    data = packed({"a": main.Mine()}, lambda value: None, code_by_value=False)
    assert type(unpacked(data, None)["a"]) is main.Mine
    cls = main.Mine
    del main.Mine
    with pytest.raises(ArrayError, match="the class Mine is defined in a cell of the processes"):
        unpacked(data, None)
    main.Mine = cls
    by_value = packed(main.Mine(), lambda value: None, code_by_value=True)
    del main.Mine
    assert type(unpacked(by_value, None)).__name__ == "Mine"


def test_a_class_that_is_not_installed_is_named(monkeypatch):
    module = types.ModuleType("only_there")
    exec("class Thing:\n    pass", module.__dict__)
    monkeypatch.setitem(__import__("sys").modules, "only_there", module)
    data = packed(module.Thing(), lambda value: None, code_by_value=False)
    monkeypatch.delitem(__import__("sys").modules, "only_there")
    with pytest.raises(ArrayError, match=r"only_there\.Thing cannot be imported"):
        unpacked(data, None)


DTYPES = [
    "bool",
    "int8",
    "uint64",
    "float16",
    ">f4",
    "complex64",
    "datetime64[ns]",
    "U5",
    "S3",
    ml_dtypes.bfloat16,
    ml_dtypes.float8_e4m3fn,
    [("a", "f4"), ("b", "i2", (2,))],
]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_arrays_of_every_type_come_as_they_are(dtype):
    array = np.zeros((3, 2), dtype)
    array.view(np.uint8)[...] = 1 if np.dtype(dtype).kind != "U" else 0
    found = come(array)
    assert found.dtype == array.dtype
    assert found.tobytes() == array.tobytes()
    assert dtype_named(dtype_name(array.dtype)) == array.dtype


def test_what_bytes_do_not_say_all_of_is_pickled():
    padded = np.zeros(2, np.dtype([("a", "i1"), ("b", "i4")], align=True))
    for array in (np.array([{}, 1], object), np.ma.masked_array([1, 2], [0, 1]), padded):
        assert not is_numpy_array(array)
        found = come({"a": array})["a"]
        assert type(found) is type(array)
        assert str(found) == str(array)


def test_an_array_over_devices_comes_whole_and_in_parts():
    array = jax.device_put(np.arange(32.0).reshape(8, 4), NamedSharding(mesh(), P("x")))
    np.testing.assert_array_equal(come(array), np.arange(32.0).reshape(8, 4))
    data = out(array).take([part_of("x", 0, [[2, 4], [1, 3]]), part_of("x", 0, [[0, 1], [0, 1]])])
    assert np.frombuffer(data, array.dtype).tolist() == [9, 10, 13, 14, 0]


def test_scalars_keys_and_arrays_without_elements_come():
    assert come(jnp.float32(2)).shape == ()
    assert come(jax.random.key(7)).tolist() == [0, 7]
    assert come(np.zeros((0, 4))).shape == (0, 4)


def test_an_error_shows_how_an_array_begins():
    assert out(np.arange(9)).preview("x", 0) == "[0, 1, 2, …]"
    assert out(np.float32([1, 2])).preview("x", 0) == "[1.0, 2.0]"


def test_pieces_are_written_into_memory_of_the_kernel():
    w = jax.device_put(
        np.arange(32.0, dtype=np.float32).reshape(8, 4), NamedSharding(mesh(), P("x"))
    )
    owner = Sealed(1024)
    offered = out({"w": w, "s": jnp.float32(7)})
    assert offered.open([owner.address])
    for path, at in (("x['w']", 64), ("x['s']", 512)):
        pieces = offered.describe().arrays[path].pieces
        boxes = [part_of(path, number, bounds) for number, bounds in enumerate(pieces)]
        offered.write(boxes, [(0, at)] * len(boxes))
    offered.close()
    owner.seal()
    memory = mapped(owner.address)
    owner.close()
    np.testing.assert_array_equal(np.ndarray((8, 4), np.float32, memory, 64), w)
    assert np.ndarray((), np.float32, memory, 512) == 7


def test_memory_of_a_kernel_elsewhere_is_not_opened():
    owner = Sealed(1024)
    offered = out(jnp.ones(3))
    before = os.listdir("/proc/self/fd")  # noqa: PTH208 - as few descriptors as can be
    address = owner.address
    assert not offered.open([address, structs.replace(address, name="nbdist-another")])
    assert len(os.listdir("/proc/self/fd")) == len(before)  # noqa: PTH208
    owner.close()
    assert not offered.open([address])


def test_any_box_of_an_array_is_written_where_it_belongs():
    rng = random.Random(0)
    for _ in range(300):
        shape = tuple(rng.randrange(1, 5) for _ in range(rng.randrange(0, 4)))
        array = np.arange(math.prod(shape), dtype=np.int16).reshape(shape) + 1
        starts = [rng.randrange(size) for size in shape]
        box = [[a, rng.randrange(a, size + 1)] for a, size in zip(starts, shape, strict=True)]
        index = (*(slice(*pair) for pair in box), ...)
        owner = Sealed(4096)
        owner.write_box(64, shape, box, array[index])
        memory = mapped(owner.address)
        wanted = np.zeros_like(array)
        wanted[index] = array[index]
        np.testing.assert_array_equal(np.ndarray(shape, np.int16, memory, 64), wanted)
        assert not any(memory[:64]) and not any(memory[64 + array.nbytes :])
        owner.close()


# -- what is held ----------------------------------------------------------------------------------


def test_one_value_is_held_at_a_time_and_only_under_its_token():
    moving = Moving()
    moving.begin("a", first := out(1))
    assert moving.held("a", Outgoing) is first
    with pytest.raises(StaleError, match="try again"):
        moving.held("a", Incoming)
    moving.begin("b", second := out(2))
    with pytest.raises(StaleError, match="were repaired, or another kernel moved values"):
        moving.held("a", Outgoing)
    moving.end("a")
    assert moving.held("b", Outgoing) is second
    moving.end("b")
    with pytest.raises(StaleError):
        moving.held("b", Outgoing)


def test_a_repair_lets_go_of_arrays_of_the_old_back_end():
    moving = Moving()
    moving.begin("a", out(jnp.ones(3)))
    begun = types.SimpleNamespace(begun=True, saved="what was saved")
    save(types.SimpleNamespace(moving=moving, repair=begun), Save(common=0))
    with pytest.raises(StaleError):
        moving.held("a", Outgoing)


# -- what comes in ---------------------------------------------------------------------------------


def spots_of(incoming):
    """One behind the other in one memory that is not the common one."""
    spots, end = [], 0
    for piece in incoming.describe().wanted[0]:
        spots.append([1, end])
        end += math.prod(stop - start for start, stop in piece) * 4
    return [spots], [0, end]


def put_whole(incoming, array):
    spots, sizes = spots_of(incoming)
    incoming.share(sizes, spots)
    for (memory, at), bounds in zip(spots[0], incoming.describe().wanted[0], strict=True):
        part = array[tuple(slice(*pair) for pair in bounds)].tobytes()
        incoming.put(memory, at, part[:3])
        incoming.put(memory, at + 3, part[3:])


def described(array):
    return [ArrayType(dtype=dtype_name(array.dtype), shape=array.shape)]


def test_an_array_comes_in_parts_and_has_no_name_before():
    array = np.arange(12, dtype=np.int32).reshape(3, 4)
    incoming = Incoming(described(array), place=None)
    with pytest.raises(SessionError, match="did not arrive completely"):
        incoming.values()
    put_whole(incoming, array)
    with pytest.raises(SessionError, match="did not arrive completely"):
        incoming.values()
    numbers = {id(array): 0}
    incoming.make(packed({"a": [array]}, lambda v: numbers.get(id(v)), code_by_value=True))
    np.testing.assert_array_equal(incoming.values()["a"][0], array)


@pytest.mark.parametrize("spec", [P("x"), P(None, "x"), P()], ids=str)
def test_an_array_is_made_of_its_pieces_under_a_sharding(spec):
    array = np.arange(128, dtype=np.float32).reshape(8, 16)
    sharding = NamedSharding(mesh(), spec)
    incoming = Incoming(described(array), place=placed(sharding, "s"))
    assert len(incoming.describe().wanted[0]) == (1 if spec == P() else 8)
    put_whole(incoming, array)
    incoming.make(packed({"a": 1}, lambda v: None, code_by_value=True))
    numbers = {id(array): 0}
    put_whole(other := Incoming(described(array), place=placed(sharding, "s")), array)
    other.make(packed({"a": array}, lambda v: numbers.get(id(v)), code_by_value=True))
    made = other.values()["a"]
    assert made.sharding == sharding
    np.testing.assert_array_equal(made, array)


def written(array):
    """Memory of an owner with an array in it, and where it is."""
    owner = Sealed(array.nbytes)
    owner.write(0, array.tobytes())
    return owner


def joined(owner, array, memory):
    incoming = Incoming(described(array), place=None)
    addresses = (
        [structs.replace(owner.address, nbytes=0), owner.address] if memory else [owner.address]
    )
    assert incoming.join(addresses, [[[memory, 0]]])
    numbers = {id(array): 0}
    incoming.make(packed({"a": array}, lambda v: numbers.get(id(v)), code_by_value=True))
    return incoming.values()["a"]


def test_a_shared_array_can_be_written_by_each_process_for_itself():
    array = np.arange(4096, dtype=np.int64)
    owner = written(array)
    one, other = joined(owner, array, 1), joined(owner, array, 1)
    owner.seal()
    with pytest.raises(PermissionError):
        owner.write(0, b"1")
    owner.close()
    one += 1
    np.testing.assert_array_equal(one, array + 1)
    np.testing.assert_array_equal(other, array)


def test_small_arrays_keep_nothing_of_the_memory_they_came_in():
    array = np.arange(8, dtype=np.int64)
    owner = written(array)
    name = owner.address.name
    found = joined(owner, array, COMMON)
    owner.close()
    np.testing.assert_array_equal(found, array)
    assert found.flags.owndata and name not in Path("/proc/self/maps").read_text()


def test_the_memory_of_an_array_goes_with_it():
    array = np.arange(1 << 16, dtype=np.int64)
    owner = written(array)
    name = owner.address.name
    found = joined(owner, array, 1)
    owner.close()
    assert name in Path("/proc/self/maps").read_text()
    del found
    gc.collect()
    assert name not in Path("/proc/self/maps").read_text()


def test_arrays_that_stay_take_no_descriptors_where_python_can_do_without():
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    array = np.arange(1 << 16, dtype=np.int64)
    kept = []
    for _ in range(5):
        owner = written(array)
        kept.append(joined(owner, array, 1))
        owner.close()
    taken = len(os.listdir("/proc/self/fd")) - before  # noqa: PTH208
    assert taken == (0 if sys.version_info >= (3, 13) else len(kept))


def test_memory_that_is_not_there_is_not_taken():
    array = np.arange(8, dtype=np.int64)
    owner = written(array)
    incoming = Incoming(described(array), place=None)
    other = structs.replace(owner.address, name="nbdist-another")
    assert not incoming.join([other], [[[COMMON, 0]]])
    assert not incoming.join([structs.replace(owner.address, nbytes=1 << 40)], [[[COMMON, 0]]])
    address = owner.address
    owner.close()
    assert not incoming.join([address], [[[COMMON, 0]]])


def test_nothing_refers_to_an_array_that_was_packed_or_made():
    gc.collect()
    gc.disable()
    try:
        array = np.zeros(8)
        numbers = {id(array): 0}
        data = packed([array], lambda v: numbers.get(id(v)), code_by_value=True)
        (made,) = unpacked(data, lambda number: np.zeros(8))
        gone = [weakref.ref(array), weakref.ref(made)]
        del array, made
        assert [ref() for ref in gone] == [None, None]
    finally:
        gc.enable()


def test_without_memory_to_share_messages_fill_memory_of_its_own(monkeypatch):
    monkeypatch.delattr(os, "memfd_create")
    array = np.arange(12, dtype=np.int32)
    incoming = Incoming(described(array), place=None)
    assert incoming.share([0, 48], [[[1, 0]]]) == []
    incoming.put(1, 0, array[:5].tobytes())
    incoming.put(1, 20, array[5:].tobytes())
    numbers = {id(array): 0}
    incoming.make(packed({"a": array}, lambda v: numbers.get(id(v)), code_by_value=True))
    np.testing.assert_array_equal(incoming.values()["a"], array)


def test_a_sharding_that_does_not_fit_is_refused():
    place = placed(NamedSharding(mesh(), P("x")), "NamedSharding(mesh, P('x'))")
    with pytest.raises(SpecError, match=r"does not fit an array of shape \(3,\)"):
        place((np.dtype("f4"), (3,)))
    with pytest.raises(SpecError, match=r"does not fit an array of shape \(8,\)"):
        placed(NamedSharding(mesh(), P(None, "x")), "s")((np.dtype("f4"), (8,)))
    with pytest.raises(ArrayError, match="JAX has no float64 here"):
        place((np.dtype("f8"), (8,)))
    with pytest.raises(ArrayError, match="'mesh' is a Mesh, not a sharding"):
        placed(mesh(), "mesh")
