"""Topologies as people say them, what an unknown one is answered with, and the devices on their torus."""

from __future__ import annotations

import math
import re

import pytest
from msgspec import structs

from nbdist.errors import OptionError
from nbdist.rehearsal.topology import CHIPS, Topology, read_topology, topology_text
from nbdist.rehearsal.torus import devices_of, torus_of


@pytest.mark.parametrize(
    ("said", "name", "chips", "devices"),
    [
        ("v5e-256", "v5e:16x16", 256, 256),
        ("v5litepod-256", "v5e:16x16", 256, 256),
        ("V5E:16x16", "v5e:16x16", 256, 256),
        ("v5e-16x16", "v5e:16x16", 256, 256),
        ("v5e:4×2", "v5e:2x4", 8, 8),
        ("v6e-8", "v6e:2x4", 8, 8),
        ("v6e-1", "v6e:1x1", 1, 1),
        ("4x4x4", "4x4x4", 64, 64),
        # From here on the number counts TensorCores, two a chip.
        ("v5p-8", "v5p:2x2x1", 4, 4),
        ("v5p-128", "v5p:4x4x4", 64, 64),
        ("v5p-12288", "v5p:16x16x24", 6144, 6144),
        ("v5p-8960", "v5p:8x20x28", 4480, 4480),
        ("v5p-17920", "v5p:16x20x28", 8960, 8960),
        ("v5p:16x20x28", "v5p:16x20x28", 8960, 8960),
        ("v4-32", "v4:2x2x4", 16, 16),
        ("tpu-v4-4096", "v4:8x16x16", 2048, 2048),
        # Each TensorCore is a device.
        ("v3-8", "v3:2x2", 4, 8),
        ("v2-512", "v2:16x16", 256, 512),
        ("tpu7x-8", "tpu7x:2x2x1", 4, 8),
        ("ironwood:4x4x4", "tpu7x:4x4x4", 64, 128),
    ],
)
def test_a_topology_is_read_as_people_say_it(
    said: str, name: str, chips: int, devices: int
) -> None:
    found = read_topology(said)
    assert (found.name, found.chips, found.devices) == (name, chips, devices)


def test_slices_and_devices_are_counted_in_its_text() -> None:
    found = read_topology("v5e:16x16", slices=4)
    assert (found.chips, found.devices, str(found)) == (1024, 1024, "4 slices of v5e:16x16")
    assert topology_text(found) == "4 slices of v5e:16x16, 1024 chips"
    assert topology_text(read_topology("v3-8")) == "v3:2x2, 4 chips, 8 devices"


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        ("v5x-256", "no chip is called 'v5x'. Known chips: v5p, v5e"),
        ("h100", "'h100'. Known chips: v2, v3"),
        ("v5e-250", "Nearest: v5e:16x16 (v5litepod-256), v5e:8x16 (v5litepod-128)"),
        ("v5e-512", "Nearest: v5e:16x16 (v5litepod-256)"),
        ("v5e:3x5", "15 chips are no slice of v5e in this shape. Nearest: v5e:4x4"),
        ("v5e:4x4x4", "2 dimensions. Nearest: v5e:8x8"),
        ("v5p:4x4", "3 dimensions. Nearest: v5p:2x2x4 (v5p-32)"),
        ("v5p-100", "TensorCores, 2 a chip. From 4x4x4 on"),
        ("v5p:4x4x6", "multiple of 4, up to 8960 chips"),
        ("v4:16x20x28", "Nearest: v4:16x16x16"),
        ("v5e", "Known: v5e:1x1"),
        ("0x4", "'0x4' has no chips"),
        ("", "no chip is called ''"),
    ],
)
def test_an_unknown_topology_is_answered_with_the_nearest(said: str, answer: str) -> None:
    with pytest.raises(OptionError, match=re.escape(answer)):
        read_topology(said)


def test_no_slices_are_refused() -> None:
    with pytest.raises(OptionError, match="0 slices"):
        read_topology("v5e-8", slices=0)


@pytest.mark.parametrize("chip", CHIPS, ids=lambda chip: chip.name)
def test_the_whole_pod_is_a_topology_and_its_name_leads_back(chip: object) -> None:
    pod = read_topology(f"{chip.name}-{chip.pod * chip.cores}")
    assert pod.chips == chip.pod == max(map(math.prod, chip.shapes))
    assert read_topology(pod.name) == pod == read_topology(pod.counted_name)
    assert all(len(shape) == chip.dimensions for shape in chip.shapes)
    assert chip.source.startswith("https://") and chip.cores % chip.devices == 0
    assert Topology(chip=None, shape=pod.shape).counted_name == ""


@pytest.mark.parametrize(
    ("name", "axes", "wraps"),
    [
        ("v5e:4x4", {"y": 4, "x": 4}, ()),
        ("v5e:16x16", {"y": 16, "x": 16}, ("x", "y")),
        ("v5e:8x16", {"y": 16, "x": 8}, ("y",)),
        ("v5p:4x4x8", {"z": 8, "y": 4, "x": 4}, ("x", "y", "z")),
        ("v5p:2x2x2", {"z": 2, "y": 2, "x": 2}, ()),
        ("v5p:16x20x28", {"z": 28, "y": 20, "x": 16}, ("x", "y", "z")),
        ("v3:4x4", {"y": 4, "x": 4, "core": 2}, None),
        ("tpu7x:4x4x4", {"z": 4, "y": 4, "x": 4, "core": 2}, None),
    ],
)
def test_each_device_is_at_its_coordinates(name, axes, wraps):
    topology = read_topology(name)
    devices = devices_of(topology)
    found = torus_of(topology, devices)
    assert found is not None
    assert {axis.name: axis.size for axis in found.axes} == axes
    assert found.wraps == wraps
    by_key = {device.key: device for device in devices}
    names = [axis for axis in axes if axis != "core"]
    for number, key in enumerate(found.devices):
        at, place = {}, number // axes.get("core", 1)
        for axis in reversed(names):
            place, at[axis] = divmod(place, axes[axis])
        assert by_key[key].coords == (at["x"], at["y"], at.get("z", 0))
    assert sorted(found.devices) == sorted(by_key)


def test_slices_come_one_after_the_other() -> None:
    topology = read_topology("v5e:2x4", slices=2)
    found = torus_of(topology, devices_of(topology))
    assert found is not None
    assert [(axis.name, axis.size) for axis in found.axes] == [("slice", 2), ("y", 4), ("x", 2)]
    processes = [int(key.partition(":")[0]) for key in found.devices]
    assert (set(processes[:8]), set(processes[8:])) == ({0, 1}, {2, 3})


def test_devices_that_are_not_where_the_topology_has_them_have_no_torus() -> None:
    topology = read_topology("v5e:2x4")
    first, *others = devices_of(topology)
    assert torus_of(topology, [structs.replace(first, coords=None), *others]) is None
    assert torus_of(topology, [structs.replace(first, coords=(7, 7, 0)), *others]) is None
    assert torus_of(topology, others[:4]) is None
