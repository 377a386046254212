"""The axes of a mesh as people write them, and which would fit."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest

from nbdist.errors import OptionError
from nbdist.rehearsal.plan.mesh import check_devices, fitting, read_axes, with_rest


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
    with pytest.raises(OptionError, match="takes what the others leave"):
        with_rest(axes, devices)


def test_a_mesh_of_another_size_is_answered_with_those_that_fit() -> None:
    with pytest.raises(
        OptionError,
        match=re.escape(
            "mesh data=16 × model=8 has 128 devices, v5e:16x16 has 256. These would fit: "
            "data=16,model=16; data=32,model=8"
        ),
    ):
        check_devices({"data": 16, "model": 8}, 256, "v5e:16x16")
    check_devices({"data": 32, "model": 8}, 256, "v5e:16x16")


@pytest.mark.parametrize("axes", [{"a": 3}, {"a": 3, "b": 5}, {"a": 2, "b": 7, "c": 3, "d": 1}])
def test_all_that_are_offered_fit_each_once(axes: dict[str, int]) -> None:
    found = list(fitting(axes, 96))
    assert all(math.prod(one.values()) == 96 and list(one) == list(axes) for one in found)
    assert len({tuple(one.values()) for one in found}) == len(found) > 0


def test_nothing_is_offered_for_many_axes_nor_for_none() -> None:
    assert list(fitting({}, 8)) == []
    assert list(fitting(dict.fromkeys("abcde", 2), 32)) == []
