"""Topologies as people say them, and what an unknown one is answered with."""

from __future__ import annotations

import math
import re

import pytest

from nbdist.errors import OptionError
from nbdist.rehearsal.plan.chips import CHIPS
from nbdist.rehearsal.plan.mesh import (
    Topology,
    counted_name,
    read_topology,
    topology_text,
)


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


def test_slices_are_counted() -> None:
    found = read_topology("v5e:16x16", slices=4)
    assert (found.chips, found.devices, str(found)) == (1024, 1024, "4 slices of v5e:16x16")
    assert topology_text(found) == "4 slices of v5e:16x16, 1024 chips"
    assert topology_text(read_topology("v3-8")) == "v3:2x2, 4 chips, 8 devices"


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        ("v5x-256", "no chip is called 'v5x'. Known chips: v5p, v5e"),
        ("h100", "no chip is called 'h100'. Known chips: v2, v3"),
        ("v5e-250", "Nearest: v5e:16x16 (v5litepod-256), v5e:8x16 (v5litepod-128)"),
        ("v5e-512", "Nearest: v5e:16x16 (v5litepod-256)"),
        ("v5e:3x5", "15 chips are no slice of v5e in this shape. Nearest: v5e:4x4"),
        ("v5e:4x4x4", "v5e is a torus of 2 dimensions. Nearest: v5e:8x8"),
        ("v5p:4x4", "v5p is a torus of 3 dimensions. Nearest: v5p:2x2x4 (v5p-32)"),
        ("v5p-100", "The number counts TensorCores, 2 a chip. From 4x4x4 on"),
        ("v5p:4x4x6", "each dimension is a multiple of 4, up to 8960 chips"),
        ("v4:16x20x28", "Nearest: v4:16x16x16"),
        ("v5e", "does not say how large the slice is. Known: v5e:1x1"),
        ("0x4", "has no chips"),
        ("", "no chip is called ''"),
    ],
)
def test_an_unknown_topology_is_answered_with_the_nearest(said: str, answer: str) -> None:
    with pytest.raises(OptionError, match=re.escape(answer)):
        read_topology(said)


def test_no_slices_are_refused() -> None:
    with pytest.raises(OptionError, match="0 slices"):
        read_topology("v5e-8", slices=0)


@pytest.mark.parametrize(
    ("said", "wraps"),
    [
        ("v5e:16x16", (True, True)),
        ("v5e:8x16", (False, True)),
        ("v5e:8x8", (False, False)),
        ("v5p:4x4x8", (True, True, True)),
        ("v5p:2x4x4", (False, False, False)),
        ("v3:32x32", None),
        ("tpu7x:4x4x4", None),
        ("4x4x4", None),
    ],
)
def test_links_from_the_last_chip_to_the_first_are_where_a_page_says_so(
    said: str, wraps: tuple[bool, ...] | None
) -> None:
    assert read_topology(said).wraps == wraps


@pytest.mark.parametrize("chip", CHIPS, ids=lambda chip: chip.name)
def test_the_whole_pod_is_a_topology_and_its_name_leads_back(chip: object) -> None:
    each = chip.cores if chip.counts == "cores" else 1
    pod = read_topology(f"{chip.name}-{chip.pod * each}")
    assert pod.chips == chip.pod
    assert read_topology(pod.name) == pod == read_topology(counted_name(pod))


@pytest.mark.parametrize("chip", CHIPS, ids=lambda chip: chip.name)
def test_each_row_of_the_table_names_a_page_and_agrees_with_itself(chip: object) -> None:
    assert chip.source.startswith("https://")
    assert chip.ici_links == 2 * chip.dimensions
    assert chip.cores % chip.devices == 0
    assert all(len(shape) == chip.dimensions for shape in chip.shapes)
    assert all(math.prod(shape) <= chip.pod for shape in chip.shapes)


def test_a_topology_of_unknown_chips_has_no_other_name() -> None:
    assert counted_name(Topology(chip=None, shape=(4, 4))) == ""
