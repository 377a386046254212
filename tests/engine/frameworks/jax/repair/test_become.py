"""Whoever refers to an old object refers to its twin afterwards, and nothing else about it changes."""

import collections
import ctypes
import dataclasses
import functools
import gc
import sys
import types
import weakref
from typing import Any, NamedTuple

import numpy as np
import pytest

from nbdist.engine.frameworks.jax.repair import become as module
from nbdist.engine.frameworks.jax.repair.become import become, instance_dict
from nbdist.engine.frameworks.jax.repair.survey import Twins, matters, objects, survey
from nbdist.engine.frameworks.jax.repair.versions import reached_from


class Thing:
    """Stands for a device, a mesh or an array: hashed and compared by identity."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


class Swap:
    """An old thing and its twin; `old` is given away once, so that no holder of the test's own is left."""

    def __init__(self) -> None:
        self.twins = Twins()
        self.new = Thing("new")
        old = Thing("old")
        self.old_id = id(old)
        self.twins.add(old, self.new)

    @property
    def old(self) -> Any:
        return self.twins._old[0]

    def done(self) -> int:
        return become(self.twins, survey(matters))


@pytest.fixture
def swap():
    return Swap()


@pytest.fixture(autouse=True)
def small_heap():
    """What was there before the test is not walked: it has nothing to do with it, and there is much of it."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


class Pair(NamedTuple):
    left: Any
    right: Any


class MyDict(dict):
    pass


class MyList(list):
    pass


class MyTuple(tuple):
    pass


class MySet(set):
    pass


class MyFrozen(frozenset):
    pass


class MyDeque(collections.deque):
    pass


class MyPartial(functools.partial):
    pass


# ---- containers


@pytest.mark.parametrize(
    "kind", [dict, MyDict, collections.OrderedDict, lambda: collections.defaultdict(list)]
)
def test_values_and_keys_of_a_mapping_change_and_their_order_stays(swap, kind):
    held = kind()
    held["first"] = 1
    held[swap.old] = "by key"
    held["last"] = swap.old
    swap.done()
    assert list(held.items()) == [("first", 1), (swap.new, "by key"), ("last", swap.new)]
    assert held[swap.new] == "by key"
    assert swap.old not in held


def test_an_ordered_dict_can_still_be_reordered(swap):
    held = collections.OrderedDict([(swap.old, 1), ("b", 2)])
    swap.done()
    held.move_to_end(swap.new)
    assert list(held) == ["b", swap.new]


def test_a_defaultdict_keeps_its_factory_and_a_subclass_its_attributes(swap):
    held, own = collections.defaultdict(list, {swap.old: 1}), MyDict(a=swap.old)
    own.note = swap.old
    swap.done()
    assert held["missing"] == []
    assert (own["a"], own.note) == (swap.new, swap.new)


@pytest.mark.parametrize("kind", [list, MyList, collections.deque, MyDeque])
def test_sequences_change_in_place(swap, kind):
    held = kind([1, swap.old, 2, swap.old])
    same = held
    swap.done()
    assert list(same) == [1, swap.new, 2, swap.new]


def test_a_deque_keeps_its_length_limit(swap):
    held = collections.deque([swap.old, 2], maxlen=2)
    swap.done()
    held.append(3)
    assert list(held) == [2, 3]


@pytest.mark.parametrize("kind", [set, MySet])
def test_sets_change_in_place(swap, kind):
    held = kind([swap.old, 1])
    swap.done()
    assert set(held) == {swap.new, 1}
    assert swap.old not in held


@pytest.mark.parametrize("kind", [frozenset, MyFrozen])
def test_frozen_sets_get_twins_of_their_own(swap, kind):
    held = {"it": kind([swap.old, 1])}
    swap.done()
    assert type(held["it"]) is kind
    assert set(held["it"]) == {swap.new, 1}


def test_tuples_get_twins_outwards_and_stay_of_their_kind(swap):
    held = [(1, (swap.old, ((swap.old,),))), Pair(swap.old, (swap.old,)), MyTuple([swap.old])]
    held[2].note = swap.old
    swap.done()
    new = swap.new
    assert held[0] == (1, (new, ((new,),)))
    assert held[1] == Pair(new, (new,))
    assert type(held[1]) is Pair
    assert type(held[2]) is MyTuple
    assert (held[2][0], held[2].note) == (new, new)


def test_a_tuple_that_a_thread_is_about_to_fill_is_known_for_a_moment_and_not_read():
    make = ctypes.pythonapi.PyTuple_New
    make.argtypes, make.restype = [ctypes.c_ssize_t], ctypes.py_object
    gc.collect()
    half = make(3)
    known = [sys.getrefcount(half) for _ in objects()]
    assert (min(known), known[-1]) == (known[-1], sys.getrefcount(half))
    assert max(known) > known[-1], "it was walked over"
    assert module._new_tuple(half, Twins()) is None


def test_tuples_in_tuples_are_followed_however_deep(swap):
    held: Any = (swap.old,)
    for _ in range(120):
        held = (held,)
    held = [held]
    swap.done()
    inner = held[0]
    while type(inner) is tuple:
        inner = inner[0]
    assert inner is swap.new


def test_aliases_stay_aliases(swap):
    one, pair, frozen = [swap.old], (swap.old, 1), frozenset([swap.old])
    held = {"a": one, "b": one, "c": pair, "d": [pair], "e": frozen, "f": (frozen,)}
    del one, pair, frozen
    swap.done()
    assert held["a"] is held["b"]
    assert held["c"] is held["d"][0]
    assert held["e"] is held["f"][0]


def test_containers_that_contain_themselves_are_walked_once(swap):
    held: list[Any] = [swap.old]
    held.append(held)
    around: dict[Any, Any] = {"old": swap.old}
    around["self"] = around
    circle: list[Any] = []
    circle.append((swap.old, circle))
    swap.done()
    assert held[0] is swap.new
    assert held[1] is held
    assert around["old"] is swap.new
    assert around["self"] is around
    assert circle[0][0] is swap.new
    assert circle[0][1] is circle


# ---- NumPy


@pytest.mark.parametrize("shape", [(2,), (1, 2), (2, 1, 1)])
def test_arrays_of_objects_change_in_place(swap, shape):
    held = np.empty(shape, object)
    held.reshape(-1)[1] = swap.old
    box = [held]
    swap.done()
    assert box[0] is held
    assert held.reshape(-1).tolist() == [None, swap.new]


def test_of_an_array_in_a_dict_of_arrays_only_the_garbage_collector_knows_neither(swap):
    held = {"devices": np.array([swap.old, 1], object)}
    within = ({"inner": (np.array([swap.old, 1], object),)},)
    gc.collect()
    assert not gc.is_tracked(held)
    box = [held, within]
    swap.done()
    assert box[0]["devices"][0] is swap.new
    assert box[1][0]["inner"][0][0] is swap.new


def test_an_array_of_arrays_of_objects_is_walked(swap):
    held = np.empty(1, object)
    held[0] = np.array([swap.old, 1], object)
    box = [held]
    swap.done()
    assert box[0][0][0] is swap.new


def test_an_array_of_objects_takes_sequences_as_they_are(swap):
    held = np.empty((2,), object)
    held[0], held[1] = (swap.old, 1), swap.old
    whole = np.empty((), object)
    whole[()] = swap.old
    box = [held, whole]
    swap.done()
    assert box[0][0] == (swap.new, 1)
    assert whole[()] is swap.new


def test_an_array_with_nothing_but_a_tuple_that_leads_there_gets_its_twin(swap):
    held = np.empty(1, object)
    held[0] = (swap.old, ((swap.old,),))
    box = [held]
    swap.done()
    assert box[0][0] == (swap.new, ((swap.new,),))


def test_a_twin_that_is_a_sequence_is_one_element():
    twins = Twins()
    twins.add(Thing("old"), MyList([1, 2]))
    held = np.empty(2, object)
    held[0] = twins._old[0]
    whole = np.empty((), object)
    whole[()] = twins._old[0]
    box = [held, whole]
    become(twins, survey(matters))
    assert box[0][0] == [1, 2]
    assert box[0][1] is None
    assert type(whole[()]) is MyList


def test_a_read_only_array_of_objects_changes_and_stays_read_only(swap):
    held = np.array([swap.old, 1], object)
    held.flags.writeable = False
    box = [held]
    swap.done()
    assert box[0][0] is swap.new
    assert not held.flags.writeable


def test_a_read_only_view_changes_with_what_it_views(swap):
    base = np.array([swap.old, 1], object)
    view = base[:]
    view.flags.writeable = False
    base.flags.writeable = False
    box = [base, view]
    swap.done()
    assert box[1][0] is swap.new
    assert not view.flags.writeable


# ---- code


def test_cells_defaults_and_attributes_of_functions_change(swap):
    old = swap.old

    def function(a, b=old, *, c=old):
        return a, b, c, old

    function.note = old
    del old  # a local of this frame is on nobody's heap
    old = swap.new
    swap.done()
    assert function(1) == (1, swap.new, swap.new, swap.new)
    assert function.note is swap.new


def test_a_closure_over_what_is_old_alone_changes(swap):
    def make(value):
        return lambda: value

    function = make(swap.old)
    swap.done()
    assert function() is swap.new


@pytest.mark.parametrize("kind", [functools.partial, MyPartial])
def test_partials_change_in_place(swap, kind):
    def gather(*arguments, **options):
        return arguments, options

    held = kind(gather, swap.old, 1, option=swap.old)
    held.note = swap.old
    same = [held]
    swap.done()
    assert same[0] is held
    assert held() == ((swap.new, 1), {"option": swap.new})
    assert held.note is swap.new


def test_a_partial_whose_class_overrides_its_state_changes_too(swap):
    class Own(functools.partial):
        def __setstate__(self, state):
            raise AssertionError("become ran what a user wrote")

    held = [Own(max, swap.old)]
    swap.done()
    assert held[0].args == (swap.new,)


def test_bound_methods_are_bound_to_the_twin():
    class Bound(Thing):
        def me(self):
            return self

    twins, new = Twins(), Bound("new")
    twins.add(Bound("old"), new)
    held = {"method": twins._old[0].me}
    become(twins, survey(matters))
    assert held["method"]() is new


def test_variables_of_a_generator_and_a_coroutine_that_stand_still_change(swap):
    def numbers(value):
        while True:
            yield value

    class Wait:
        def __await__(self):
            yield

    async def later(value):
        await Wait()
        return value

    async def many(value):
        while True:
            yield value

    found, coroutine, async_generator = numbers(swap.old), later(swap.old), many(swap.old)
    next(found)
    coroutine.send(None)
    with pytest.raises(StopIteration):
        async_generator.asend(None).send(None)
    swap.done()
    assert next(found) is swap.new
    with pytest.raises(StopIteration) as end:
        coroutine.send(None)
    assert end.value.value is swap.new
    with pytest.raises(StopIteration) as given:
        async_generator.asend(None).send(None)
    assert given.value.value is swap.new


def test_generators_that_have_not_begun_or_have_ended_do_no_harm(swap):
    def numbers(value):
        yield value

    begins, ended = numbers(swap.old), numbers(swap.old)
    list(ended)
    swap.done()
    assert next(begins) is swap.new


def test_attributes_of_a_class_change_for_code_that_has_read_them_before(swap):
    class Holder:
        mesh = swap.old

        def read(self):
            return self.mesh

    class Derived(Holder):
        pass

    one, other = Holder(), Derived()
    for _ in range(1000):  # until the interpreter keeps what it has found
        one.read()
        other.read()
        assert Holder.mesh is Derived.mesh
    swap.done()
    assert Holder.__dict__["mesh"] is swap.new
    assert (Holder.mesh, Derived.mesh, one.read(), other.read()) == (swap.new,) * 4


def test_globals_of_a_module_change(swap):
    made = types.ModuleType("made")
    exec("def read():\n    return mesh", made.__dict__)
    made.mesh = swap.old
    for _ in range(1000):
        made.read()
    swap.done()
    assert made.mesh is made.read() is swap.new


# ---- objects


class Plain:
    def __init__(self, weight: Any) -> None:
        self.weight = weight


class Slotted:
    __slots__ = ("empty", "weight")

    def __init__(self, weight: Any) -> None:
        self.weight = weight


class Derived(Slotted):
    __slots__ = ("__dict__", "other")


@dataclasses.dataclass(frozen=True)
class Frozen:
    weight: Any


@dataclasses.dataclass(frozen=True, slots=True)
class FrozenSlots:
    weight: Any


@pytest.mark.parametrize(
    "kind", [Plain, Slotted, Frozen, FrozenSlots, lambda x: types.SimpleNamespace(weight=x)]
)
def test_attributes_of_objects_change(swap, kind):
    held = kind(swap.old)
    swap.done()
    assert held.weight is swap.new


def test_slots_of_all_classes_of_an_object_change(swap):
    held = Derived(swap.old)
    held.other = held.anything = swap.old
    swap.done()
    assert (held.weight, held.other, held.anything) == (swap.new,) * 3


def refuse(*arguments, **options):
    raise AssertionError("become ran what a user wrote")


class Hostile:
    """Raises or lies about all that can be asked of it."""

    __dict__ = property(lambda self: {"weight": None})
    __class__ = property(refuse)
    __getattr__ = refuse
    __setattr__ = refuse
    __eq__ = refuse
    __hash__ = refuse
    __iter__ = refuse
    __len__ = refuse
    __bool__ = refuse
    __repr__ = refuse


class Raising:
    __dict__ = property(refuse)
    __getattribute__ = refuse


@pytest.mark.parametrize("kind", [Hostile, Raising])
def test_an_object_that_raises_or_lies_is_changed_all_the_same(swap, kind):
    held = kind()
    instance_dict(held)["weight"] = swap.old
    swap.done()
    assert instance_dict(held)["weight"] is swap.new


def test_a_class_that_lies_about_its_classes_is_changed_all_the_same(swap):
    class Liar(type):
        def __getattribute__(cls, name):
            raise AssertionError("become ran what a user wrote")

    class Lied(metaclass=Liar):
        __slots__ = ("weight",)

        def __init__(self, weight):
            self.weight = weight

    held = Lied(swap.old)
    swap.done()
    assert held.weight is swap.new


class Unhashable:
    """Was put into a dict before it began to raise."""

    raises = False

    def __hash__(self):
        if self.raises:
            raise RuntimeError("no hash any more")
        return 1

    def __eq__(self, other):
        if self.raises:
            raise RuntimeError("not comparable any more")
        return self is other


def test_a_mapping_whose_keys_raise_loses_nothing_and_the_rest_is_changed(swap):
    key = Unhashable()
    held, others = {"a": 1, key: 2, swap.old: 3, "z": 4}, [swap.old]
    values = {key: swap.old}
    key.raises = True
    swap.done()
    key.raises = False
    assert [*held.values()] == [1, 2, 3, 4]
    assert others == [swap.new]
    assert values[key] in (swap.new, swap.old)


def test_a_set_whose_elements_raise_loses_nothing():
    old, new, key = Thing("old"), Thing("new"), Unhashable()
    type(old).__hash__ = lambda self: 1  # they meet in the set, so that they are compared
    try:
        twins = Twins()
        held = {key, old}
        twins.add(old, new)
        key.raises = True
        del old
        become(twins, survey(matters))
        key.raises = False
        assert len(held) == 2
    finally:
        del Thing.__hash__


def test_keys_whose_hash_comes_from_what_has_changed_are_found_again(swap):
    by_key, members = {Frozen(swap.old): 1, "b": 2}, {Frozen((swap.old,)), "b"}
    nested = {(1, Frozen(Frozen(swap.old))): 1}
    frozen = [frozenset([Frozen(swap.old)])]
    assert len({*by_key, *members}) == 3
    swap.done()
    assert by_key[Frozen(swap.new)] == 1
    assert list(by_key.values()) == [1, 2]
    assert Frozen((swap.new,)) in members
    assert nested[1, Frozen(Frozen(swap.new))] == 1
    assert Frozen(swap.new) in frozen[0]


# ---- what is left


def test_weak_references_end_rather_than_lead_to_what_is_old(swap):
    held = weakref.ref(swap.old)
    values = weakref.WeakValueDictionary(a=swap.old)
    swap.done()
    swap.twins = None
    gc.collect()
    assert held() is None
    assert dict(values) == {}


def stale(swap, value):
    """What is said of the one name `kept` of a namespace."""
    namespace = {"_hidden": value, "kept": value}
    value = None
    swap.done()
    left = [h for h in swap.twins.holders() if h not in swap.twins]
    return {(reached_from(h, namespace), type(h).__name__) for h in left} - {(None, "frame")}


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (lambda old: map(print, [1], iter((old,))), "tuple_iterator"),
        (lambda old: functools.lru_cache(lambda: old), None),
        (lambda old: zip(iter([old]), strict=True), None),
        (lambda old: __import__("itertools").repeat(old), "repeat"),
        (lambda old: __import__("itertools").chain([old], [1]), None),
        (lambda old: old.__repr__.__self__.__str__, "method-wrapper"),
        (lambda old: types.MappingProxyType({"a": old}), None),
        (lambda old: memoryview(b""), None),
    ],
)
def test_what_cannot_be_changed_is_left_and_found_by_its_name(swap, make, kind):
    assert stale(swap, make(swap.old)) == (set() if kind is None else {("kept", kind)})


def test_a_cache_of_results_is_found_by_its_name(swap):
    @functools.lru_cache(maxsize=4)
    def kept(key):
        return key

    kept(swap.old)
    assert ("kept", "_lru_cache_wrapper") in stale(swap, kept)


def test_a_cache_of_a_library_is_not_called_by_the_name_of_its_module(swap):
    library = types.ModuleType("library")
    library.kept = functools.lru_cache(lambda key: key)
    library.kept(swap.old)
    assert {name for name, _ in stale(swap, library)} == {None}, "libraries stay"


# ---- the walk as a whole


def test_references_are_counted_and_a_second_pass_finds_none(swap):
    held = [swap.old, {"a": swap.old}, (swap.old,)]
    assert swap.done() == 3
    assert swap.done() == 0
    assert held == [swap.new, {"a": swap.new}, (swap.new,)]


def test_nothing_else_is_touched(swap):
    held = [Thing("other"), (1, 2), {"a": (3,)}]
    before = [*map(id, held), id(held[2]["a"])]
    swap.done()
    assert [*map(id, held), id(held[2]["a"])] == before


def test_a_heap_of_a_million_objects_is_walked_a_few_times_only(swap, monkeypatch):
    heap = [[] for _ in range(1_000_000)]
    for one in heap[::1000]:
        one.append((swap.old,))
    passes = 0
    every = gc.get_objects

    def counted(generation):
        nonlocal passes
        passes += generation == 0
        return every(generation)

    monkeypatch.setattr(module.gc, "get_objects", counted)
    swap.done()
    assert all(one[0][0] is swap.new for one in heap[::1000])
    assert passes <= 5


def test_no_reference_is_lost_or_added(swap):
    held = [swap.old] * 10
    before = sys.getrefcount(swap.twins._old[0]), sys.getrefcount(swap.new)
    swap.done()
    after = sys.getrefcount(swap.twins._old[0]), sys.getrefcount(swap.new)
    assert (after[0] - before[0], after[1] - before[1]) == (-10, 10)
    assert len(held) == 10
