"""The devices of a pod that is not there, on its torus."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nbdist.rehearsal.plan.mesh import read_topology
from nbdist.rehearsal.plan.torus import devices_of, torus_of


def torus(name, slices=1):
    topology = read_topology(name, slices=slices)
    devices = devices_of(topology)
    return torus_of(topology, devices), {device.key: device for device in devices}


@pytest.mark.parametrize(
    ("name", "axes", "wraps"),
    [
        ("v5e:4x4", {"y": 4, "x": 4}, ()),
        ("v5e:16x16", {"y": 16, "x": 16}, ("x", "y")),
        ("v5e:8x16", {"y": 16, "x": 8}, ("y",)),
        ("v5p:4x4x8", {"z": 8, "y": 4, "x": 4}, ("x", "y", "z")),
        ("v5p:2x2x2", {"z": 2, "y": 2, "x": 2}, ()),
        ("v3:4x4", {"y": 4, "x": 4, "core": 2}, None),
    ],
)
def test_each_device_is_at_its_coordinates(name, axes, wraps):
    found, devices = torus(name)
    assert found is not None
    assert {axis.name: axis.size for axis in found.axes} == axes
    assert found.wraps == wraps
    names = [axis for axis in axes if axis != "core"]
    seen = iter(found.devices)
    for place in range(len(found.devices) // axes.get("core", 1)):
        at = {}
        for axis in reversed(names):
            place, at[axis] = divmod(place, axes[axis])
        for _ in range(axes.get("core", 1)):
            assert devices[next(seen)].coords == (at["x"], at["y"], at.get("z", 0))
    assert sorted(found.devices) == sorted(devices)


def test_slices_come_one_after_the_other():
    found, devices = torus("v5e:2x4", slices=2)
    assert found is not None
    assert [(axis.name, axis.size) for axis in found.axes] == [("slice", 2), ("y", 4), ("x", 2)]
    assert {devices[key].process_id for key in found.devices[:8]} == {0, 1}
    assert {devices[key].process_id for key in found.devices[8:]} == {2, 3}


def test_the_largest_pod_has_a_torus():
    found, _ = torus("v5p:16x20x28")
    assert found is not None
    assert len(set(found.devices)) == 8960


def test_devices_that_are_not_where_the_topology_has_them_have_none():
    topology = read_topology("v5e:2x4")
    devices = devices_of(topology)
    assert torus_of(topology, [replace(devices[0], coords=None), *devices[1:]]) is None
    assert torus_of(topology, [replace(devices[0], coords=(7, 7, 0)), *devices[1:]]) is None
    assert torus_of(topology, devices[:4]) is None
