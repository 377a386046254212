"""The walk finds named arrays in what people write, within bounds, and runs none of their code."""

import collections
import dataclasses
import enum
import math
import threading
import types
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.engine.walking import Met, paths


@pytest.fixture
def x():
    return jnp.ones(3)


class Pair(NamedTuple):
    left: Any
    right: Any


@dataclasses.dataclass
class Plain:
    weight: Any
    note: str = ""


@dataclasses.dataclass(slots=True, frozen=True)
class Slotted:
    weight: Any


class Anything:
    def __init__(self, **attributes):
        self.__dict__.update(attributes)


@jax.tree_util.register_pytree_node_class
class Registered:
    def __init__(self, inner):
        self.inner = inner

    def tree_flatten(self):
        raise AssertionError("the walk ran what a user wrote")

    @classmethod
    def tree_unflatten(cls, aux, children):
        return cls(*children)


def test_names_and_containers_are_reached_by_the_expression_a_user_would_write(x):
    namespace = {
        "w": x,
        "params": {"dense": Plain(x), 3: [x, (x,)], ("a", 1): x},
        "pair": Pair(x, {"b": x}),
        "slotted": Slotted(x),
        "ordered": collections.OrderedDict(a=x),
        "default": collections.defaultdict(list, a=[x]),
        "simple": types.SimpleNamespace(a=x),
        "own": Anything(batch=x, nested=Anything(y=x)),
    }
    assert paths(namespace) == {
        "w",
        "params['dense'].weight",
        "params[3][0]",
        "params[3][1][0]",
        "params[('a', 1)]",
        "pair.left",
        "pair.right['b']",
        "slotted.weight",
        "ordered['a']",
        "default['a'][0]",
        "simple.a",
        "own.batch",
        "own.nested.y",
    }


def test_names_of_ipython_private_names_modules_functions_classes_and_numpy_are_passed_over(x):
    class Holder:
        weight = x

    def function():
        return x

    function.weight = x
    namespace = {
        "_": x,
        "_private": x,
        "In": [x],
        "Out": {1: x},
        "jnp": jnp,
        "Holder": Holder,
        "function": function,
        "numpy_array": np.ones(3),
        "a_set": {1},
        "instance": Anything(_hidden=x),
    }
    assert paths(namespace) == set()


def test_keys_without_an_expression_are_passed_over(x):
    class Colour(enum.Enum):
        RED = 1

    assert paths({"by_key": {Colour.RED: x, math.inf: x, "a": x}}) == {"by_key['a']"}
    assert paths({"by_key": {1.5: x}}) == {"by_key[1.5]"}
    assert Met({"by_key": {Colour.RED: x}}).omitted == 1


def test_no_code_of_the_user_is_run(x):
    def refuse(*arguments, **options):
        raise AssertionError("the walk ran what a user wrote")

    class Hostile:
        weight = property(refuse)
        __getattr__ = refuse
        __iter__ = refuse
        __len__ = refuse
        __eq__ = refuse
        __hash__ = refuse
        __bool__ = refuse
        __repr__ = refuse
        __class__ = property(refuse)

        def __init__(self):
            vars(self)["kept"] = x
            vars(self)["weight"] = x

    class HostileDict(dict):
        __getitem__ = items = keys = values = __iter__ = __len__ = refuse

    class HostileViews(dict):
        get = items = keys = values = __iter__ = __len__ = __contains__ = refuse

    class HostileList(list):
        __getitem__ = __iter__ = __len__ = refuse

    class Hidden:
        def __init__(self):
            object.__setattr__(self, "weight", x)

        __getattribute__ = refuse

    met = Met(
        {
            "hostile": Hostile(),
            "mapping": HostileDict(a=x),
            "views": HostileViews(a=x),
            "items": HostileList([x]),
            "hidden": Hidden(),
            "registered": Registered(x),
        }
    )
    assert set(met.arrays) == {"hostile.kept", "views['a']", "registered.inner"}


def test_objects_that_are_not_told_to_hold_arrays_are_entered_two_deep_and_pytrees_deeper(x):
    plain = Anything(a=Anything(b=Anything(weight=x)))
    reported = Registered(Registered(Registered(Registered(x))))
    assert paths({"plain": plain, "reported": reported}) == {"reported.inner.inner.inner.inner"}


def test_a_registered_pytree_counts_as_a_plain_object_when_the_registry_is_gone(x, monkeypatch):
    monkeypatch.delattr("jax._src.tree_util._registry")
    reported = Registered(Registered(Registered(x)))
    assert paths({"near": Registered(x), "reported": reported}) == {"near.inner"}


def test_cycles_end_and_a_container_with_two_names_is_listed_under_both(x):
    loop = {"x": x}
    loop["self"] = loop
    trainer = Anything(weight=x)
    trainer.me = [trainer]
    shared = {"w": x}
    assert paths({"loop": loop, "trainer": trainer, "a": shared, "b": [shared]}) == {
        "loop['x']",
        "trainer.weight",
        "a['w']",
        "b[0]['w']",
    }


def test_arrays_beyond_the_bound_are_counted_and_near_ones_come_first(x):
    namespace = {"deep": {"deeper": [x] * 10}, "near": x}
    met = Met(namespace, arrays=4)
    assert list(met.arrays) == ["near", *(f"deep['deeper'][{i}]" for i in range(3))]
    assert met.omitted == 7


def test_depth_and_number_of_containers_are_bounded(x):
    nested = x
    for _ in range(30):
        nested = [nested]
    assert paths({"nested": nested}) == set()
    assert len(paths({"many": [[x] for _ in range(50)]}, containers=21)) == 20
    # A long list leaves room for what lies elsewhere.
    namespace = {"data": [{"i": i} for i in range(50)], "model": {"a": {"w": x}}}
    assert paths(namespace, containers=30, containers_in_one=20) == {"model['a']['w']"}


def test_tracers_are_passed_over_and_deleted_arrays_do_not_count(x):
    inside = []
    jax.jit(lambda traced: inside.append(Met({"traced": traced, "w": x})) or traced)(x)
    assert set(inside[0].arrays) == {"w"}
    gone = jnp.ones(4)
    gone.delete()
    assert Met({"gone": gone, "w": x}, arrays=1).omitted == 0


def test_meshes_are_met_wherever_they_are(mesh):
    assert Met({"mesh": mesh, "config": {"mesh": mesh}}).meshes == [mesh, mesh]


def test_a_namespace_that_changes_meanwhile_is_walked_to_the_end(x):
    namespace = {f"w{i}": x for i in range(200)}
    inner = namespace["inner"] = {f"w{i}": x for i in range(200)}
    stop = threading.Event()

    def change():
        count = 0
        while not stop.is_set():
            count += 1
            for names in (namespace, inner):
                names[f"new{count}"] = x
                names.pop(f"new{count - 5}", None)

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(50):
            assert len(Met(namespace).arrays) >= 400
    finally:
        stop.set()
        thread.join()
