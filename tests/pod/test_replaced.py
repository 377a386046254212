"""Functions of JAX that put values on devices past any trace."""

from __future__ import annotations

import itertools

import jax
import numpy as np
import pytest
from jax.sharding import NamedSharding, SingleDeviceSharding
from jax.sharding import PartitionSpec as P

from nbdist.errors import RehearsalError
from nbdist.rehearsal.rehearsal import Replaced, global_shape_of
from tests.pod.rehearsed import rehearsed


def test_arrays_of_callbacks_and_parts_are_described(mesh):
    sharding = NamedSharding(mesh, P("data"))
    with rehearsed() as rehearsal:
        functions = Replaced(rehearsal.trace)
        asked = []
        x = functions.make_array_from_callback(
            (8, 4), sharding, lambda index: asked.append(index) or np.zeros((2, 4), np.int32)
        )
        assert (x.shape, x.dtype, x.sharding, len(asked)) == ((8, 4), np.int32, sharding, 1)
        functions.make_array_from_callback((8,), sharding, None, dtype=np.int32)
        y = functions.make_array_from_process_local_data(sharding, np.ones((8, 4), np.float32))
        assert (y.shape, y.sharding) == ((8, 4), sharding)
        tree = functions.make_array_from_process_local_data(sharding, {"a": np.ones(8)})
        assert tree["a"].shape == (8,)
        z = functions.make_array_from_single_device_arrays(
            (8, 4), sharding, [one.data for one in y.addressable_shards]
        )
        assert (z.shape, z.dtype) == ((8, 4), np.float32)


def test_a_shape_that_cannot_be_cut_is_refused_as_jax_does(mesh):
    with rehearsed() as rehearsal, pytest.raises(ValueError, match="partitioned 4 times"):
        Replaced(rehearsal.trace).make_array_from_callback(
            (6,), NamedSharding(mesh, P("data")), None, dtype=np.float32
        )


@pytest.mark.parametrize(
    "spec", [P("data"), P("model"), P(("data", "model")), P(None, "data"), P()]
)
def test_the_global_shape_is_that_of_the_parts_of_each_host(mesh, spec, monkeypatch):
    """Two hosts, each with half of the devices: as many rows as the parts that they have."""
    for first in (mesh.devices[:2], mesh.devices[2:]):
        sharding = NamedSharding(mesh, spec)
        here = list(first.flat)
        every = sharding.devices_indices_map((16, 16))
        rows = [{index[n].indices(16)[:2] for index in (every[d] for d in here)} for n in (0, 1)]
        local = [sum(stop - start for start, stop in parts) for parts in rows]
        monkeypatch.setattr(
            NamedSharding,
            "addressable_devices_indices_map",
            lambda self, shape, here=here: {
                d: i for d, i in self.devices_indices_map(shape).items() if d in here
            },
        )
        assert global_shape_of(sharding, local) == (16, 16)
        monkeypatch.undo()


def test_a_sharding_that_does_not_say_it_needs_the_global_shape():
    with pytest.raises(RehearsalError, match="give global_shape"):
        global_shape_of(SingleDeviceSharding(jax.devices()[0]), (3,))


def test_a_mesh_is_set_outside_of_jit_and_refused_inside(mesh, monkeypatch):
    for place, name in itertools.product((jax, jax.sharding), ("set_mesh", "get_mesh")):
        if hasattr(place, name):
            monkeypatch.setattr(place, name, getattr(place, name))
    for name in ("make_array_from_callback", "make_array_from_process_local_data"):
        monkeypatch.setattr(jax, name, getattr(jax, name))
    monkeypatch.setattr(
        jax, "make_array_from_single_device_arrays", jax.make_array_from_single_device_arrays
    )
    monkeypatch.setattr(jax.distributed, "initialize", jax.distributed.initialize)
    with rehearsed() as rehearsal:
        Replaced(rehearsal.trace).install()
        jax.distributed.initialize("nowhere:1", 4, 0)
        with jax.set_mesh(mesh):
            assert jax.sharding.get_mesh() == mesh

        def step(x):
            with jax.set_mesh(mesh):
                return x

        with pytest.raises(ValueError, match="outside of"):
            jax.jit(step)(np.ones(3, np.float32))
