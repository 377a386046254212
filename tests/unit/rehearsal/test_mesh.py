"""The axes of a mesh as people write them, which would fit, and the pod with a mesh that a person asks for."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest

from nbdist.errors import OptionError
from nbdist.rehearsal.mesh import (
    AskedPod,
    axes_over,
    check_devices,
    fitting,
    read_axes,
    read_each,
    with_rest,
)
from nbdist.rehearsal.topology import read_topology


@pytest.mark.parametrize(
    "mesh", ["data=16,model=8", " data = 16 , model = 8 ", {"data": 16, "model": 8}]
)
def test_axes_are_read_in_their_order(mesh: Any) -> None:
    assert list(read_axes(mesh).items()) == [("data", 16), ("model", 8)]


@pytest.mark.parametrize(
    ("mesh", "answer"),
    [
        ("data", "cannot read 'data'"),
        ("data=", "cannot read 'data='"),
        ("data=x", "cannot read 'data=x'"),
        ("=4", "cannot read '=4'"),
        ("", "cannot read ''"),
        ("data=4,data=2", "has axis 'data' twice"),
        ("data=0", "axis 'data' has size 0"),
        ("data=-2", "axis 'data' has size -2"),
        ({"data": 0}, "axis 'data' has size 0"),
        ({"data": "4"}, "axis 'data' of size '4'"),
        ({"data": True}, "axis 'data' of size True"),
        ((4, 4), "is no mesh"),
        (None, "is no mesh"),
    ],
)
def test_what_is_no_mesh_is_refused(mesh: Any, answer: str) -> None:
    with pytest.raises(OptionError, match=re.escape(answer)):
        read_axes(mesh)


def test_one_axis_takes_what_the_others_leave() -> None:
    assert with_rest({"data": -1, "model": 16}, 256) == {"data": 16, "model": 16}
    assert with_rest({"data": 4}, None) == {"data": 4}


@pytest.mark.parametrize(
    ("axes", "devices"),
    [({"a": -1, "b": -1}, 8), ({"a": -1, "b": 3}, 8), ({"a": -1}, None)],
)
def test_a_rest_that_is_none_is_refused(axes: dict[str, int], devices: int | None) -> None:
    with pytest.raises(OptionError, match="size -1 takes what"):
        with_rest(axes, devices)


def test_a_mesh_of_another_size_is_answered_with_those_that_fit() -> None:
    said = (
        "mesh data=16 × model=8 has 128 devices, v5e:16x16 has 256. These would fit: data=16,model=16; "
        "data=32,model=8"
    )
    with pytest.raises(OptionError, match=re.escape(said)):
        check_devices({"data": 16, "model": 8}, 256, "v5e:16x16")
    check_devices({"data": 32, "model": 8}, 256, "v5e:16x16")


def test_what_the_number_of_a_name_counts_is_said_where_somebody_took_it_for_chips() -> None:
    said = (
        "The number in v5p-8960 counts TensorCores, 2 a chip: 8960 chips of one slice are v5p-17920"
    )
    with pytest.raises(OptionError, match=said):
        axes_over(read_topology("v5p-8960"), "data=560,model=16")


@pytest.mark.parametrize("axes", [{"a": 3}, {"a": 3, "b": 5}, {"a": 2, "b": 7, "c": 3, "d": 1}])
def test_all_that_are_offered_fit_each_once(axes: dict[str, int]) -> None:
    found = list(fitting(axes, 96))
    assert all(math.prod(one.values()) == 96 and list(one) == list(axes) for one in found)
    assert len({tuple(one.values()) for one in found}) == len(found) > 0


def test_nothing_is_offered_for_many_axes_nor_for_none() -> None:
    assert list(fitting({}, 8)) == []
    assert list(fitting(dict.fromkeys("abcde", 2), 32)) == []


@pytest.mark.parametrize(
    ("topology", "meshes", "slices", "asked"),
    [
        ("v5e-16", ["data=4,model=4"], 1, [("v5e:4x4", "data=4,model=4")]),
        ("v5e:4x4", ["data=-1", "a=2,b=-1"], 2, [("v5e:4x4", "data=32"), ("v5e:4x4", "a=2,b=16")]),
        ("v5p-8", [], 1, [("v5p:2x2x1", None)]),
    ],
)
def test_a_pod_is_asked_for_with_each_mesh(topology, meshes, slices, asked):
    pods = [AskedPod(topology=name, slices=slices, mesh=mesh) for name, mesh in asked]
    assert list(read_each(topology, meshes, slices=slices)) == pods


@pytest.mark.parametrize(
    ("topology", "meshes", "slices", "said"),
    [
        ("v5e:3x3", [], 1, "no topology 'v5e:3x3'"),
        ("4x4", [], 1, "names no chip.*v5e:4x4"),
        ("v5e:4x4", ["data=4,model=2"], 1, "8 devices, v5e:4x4 has 16.*data=4,model=4"),
        ("v5e:4x4", ["a=16", "a=4,b=3"], 1, "a=4 × b=3 has 12 devices, v5e:4x4 has 16"),
        ("v5e:4x4", ["a=32", "a=16"], 2, "a=16 has 16 devices, 2 slices of v5e:4x4 has 32"),
        ("v5e:2x2", ["a=2,b=2,c=2,d=2"], 4, "4 slices.*multiple of 4"),
        ("v5e:4x4", ["a=16", "a=-1"], 1, "a=16 is given twice"),
    ],
)
def test_pods_that_cannot_be_are_refused_before_anything_starts(topology, meshes, slices, said):
    with pytest.raises(OptionError, match=said):
        read_each(topology, meshes, slices=slices)
