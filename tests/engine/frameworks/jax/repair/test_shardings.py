"""Devices, meshes and shardings get the twins that stand at the same places."""

import sys

import jax
import numpy as np
import pytest
from jax.sharding import AxisType, Mesh, NamedSharding, SingleDeviceSharding
from jax.sharding import PartitionSpec as P

from nbdist.engine.frameworks.jax.repair.anew import (
    NewDevices,
    Old,
    add_twins,
    device_key,
    find_old,
    sharding_like,
)
from nbdist.engine.frameworks.jax.repair.survey import Survey, Twins


def turned():
    """The devices there are, each standing for the one before it: as good as new ones, and there."""
    every = jax.devices()
    after = every[1:] + every[:1]
    keys = {device_key(old): new for old, new in zip(every, after, strict=True)}
    return NewDevices(by_key=keys, local={d.id: d for d in every}), dict(
        zip(every, after, strict=True)
    )


def twins_of(*shardings, meshes=()):
    devices, after = turned()
    twins = Twins()
    old = Old(jax.devices(), list(meshes), list(shardings), ["cpu"], Survey())
    add_twins(old, devices, twins)
    return twins, after


def test_a_device_is_known_by_platform_process_and_id():
    assert device_key(jax.devices()[3]) == ("cpu", 0, 3)


def test_the_devices_there_are_are_found_by_what_stays_of_them():
    found = NewDevices.now(["cpu"])
    assert found.by_key[device_key(jax.devices()[5])] is jax.devices()[5]
    assert found.local[5] is jax.devices()[5]
    assert len(found.by_key) == len(found.local) == 8


@pytest.mark.parametrize("kind", list(AxisType))
def test_a_mesh_keeps_its_shape_names_types_and_places(kind):
    mesh = jax.make_mesh((2, 4), ("a", "b"), axis_types=(kind, AxisType.Auto))
    twins, after = twins_of(meshes=[mesh])
    new = twins.of(mesh)
    assert (new.axis_names, new.axis_types) == (mesh.axis_names, mesh.axis_types)
    assert new.devices.shape == (2, 4)
    assert [after[d] for d in mesh.devices.flat] == list(new.devices.flat)


@pytest.mark.parametrize(
    "spec", [P(), P("a"), P(None, "b"), P(("a", "b")), P(P.UNCONSTRAINED, "a")]
)
def test_a_named_sharding_keeps_its_spec_and_memory_on_the_new_mesh(spec):
    mesh = Mesh(np.array(jax.devices()).reshape(2, 4), ("a", "b"))
    old = NamedSharding(mesh, spec, memory_kind="pinned_host")
    twins, _ = twins_of(old, meshes=[mesh])
    new = twins.of(old)
    assert new.mesh is twins.of(mesh)
    assert (new.spec, new.memory_kind) == (spec, "pinned_host")


def test_a_sharding_of_one_device_goes_to_its_twin():
    old = SingleDeviceSharding(jax.devices()[2], memory_kind="pinned_host")
    twins, after = twins_of(old)
    new = twins.of(old)
    assert new.device_set == {after[jax.devices()[2]]}
    assert new.memory_kind == "pinned_host"


def test_a_sharding_over_an_abstract_mesh_needs_no_twin():
    abstract = NamedSharding(jax.sharding.AbstractMesh((8,), ("a",)), P("a"))
    twins, _ = twins_of(abstract)
    assert abstract not in twins


def hlo_sharding():
    """What a compiled function may give an array: neither a name nor one device."""
    kinds = sys.modules["jax._src.sharding_impls"]
    named = NamedSharding(Mesh(np.array(jax.devices()), ("a",)), P("a"))
    return kinds.GSPMDSharding(tuple(jax.devices()), named._to_xla_hlo_sharding(1))


def test_a_sharding_of_xlas_is_made_on_the_new_devices():
    old = hlo_sharding()
    twins, after = twins_of()
    new = sharding_like(old, twins)
    places = {after[d]: index for d, index in old.devices_indices_map((8,)).items()}
    assert new.devices_indices_map((8,)) == places


def test_a_device_without_a_successor_is_an_error():
    devices, _ = turned()
    del devices.by_key["cpu", 0, 7]
    with pytest.raises(KeyError, match="7"):
        add_twins(Old(jax.devices(), [], [], ["cpu"], Survey()), devices, Twins())


def test_all_that_refers_to_devices_is_found():
    mesh = jax.make_mesh((8,), ("here",))
    sharding, empty = NamedSharding(mesh, P("here")), Mesh(np.empty((), object), ())
    old = find_old()
    assert any(found is mesh for found in old.meshes)
    assert not any(found is empty for found in old.meshes)
    assert any(found is sharding for found in old.shardings)
    assert old.devices == jax.devices()
    assert old.platforms == ["cpu"]


def test_objects_that_lie_about_their_class_do_not_stop_the_search():
    def refuse(self):
        raise AssertionError("asked for its class")

    held = [type("Liar", (), {"__class__": property(refuse)})()]
    assert find_old().devices
    assert held
