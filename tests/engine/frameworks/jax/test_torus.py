"""How a mesh lies on the network of a pod. What is expected is what JAX answered for libtpu's own devices of these
topologies (libtpu 0.0.42, jax 0.10.2)."""

from __future__ import annotations

from typing import Any

import pytest

from nbdist.engine.frameworks.jax import inspection
from nbdist.rehearsal.topology import read_topology
from nbdist.rehearsal.torus import place_lines, place_mesh


@pytest.mark.parametrize(
    ("topology", "axes", "lengths"),
    [
        ("v5e:16x16", {"data": 16, "model": 16}, [{"y": 16}, {"x": 16}]),
        ("v5e:16x16", {"all": 256}, [{"x": 16, "y": 16}]),
        ("v5e:16x16", {"data": 8, "model": 32}, [{"y": 8}, {"x": 16, "y": 2}]),
        ("v5p:4x4x8", {"data": 8, "model": 16}, [{"z": 8}, {"x": 4, "y": 4}]),
        ("v5p:16x20x28", {"data": 560, "model": 16}, [{"y": 20, "z": 28}, {"x": 16}]),
        ("tpu7x:4x4x4", {"data": 16, "model": 8}, [{"y": 4, "z": 4}, {"x": 4, "core": 2}]),
        ("v5e:2x4", {"x": 8}, [{"x": 2, "y": 4}]),
        # The devices of a host come one after the other, and JAX leaves them so.
        ("v3:4x4", {"a": 4, "b": 8}, [{"x": 2, "y": 2}, {"x": 2, "y": 2, "core": 2}]),
    ],
)
def test_an_axis_lies_where_jax_puts_it(
    topology: str, axes: dict[str, int], lengths: list[dict[str, int]]
) -> None:
    place = place_mesh(read_topology(topology), axes)
    assert place is not None
    assert [dict(axis.lengths) for axis in place.axes] == lengths


def test_a_ring_goes_along_a_whole_dimension_that_wraps_around() -> None:
    place = place_mesh(read_topology("v5e:8x16"), {"data": 16, "model": 8})
    assert place is not None
    assert place_lines(place) == ["  data=16  along y (16, a ring)", "  model=8  along x (8)"]


def test_a_dimension_that_is_split_is_said_since_make_mesh_refuses_it() -> None:
    place = place_mesh(read_topology("v5e:16x16"), {"data": 8, "model": 32})
    assert place is not None and place.split
    assert "allow_split_physical_axes=True" in place_lines(place)[-1]
    whole = place_mesh(read_topology("v5e:16x16"), {"data": 16, "model": 16})
    assert whole is not None and not whole.split


def test_the_first_axis_that_can_goes_over_the_slices() -> None:
    place = place_mesh(read_topology("v5e:16x16", slices=4), {"data": 64, "model": 16})
    assert place is not None
    assert [axis.slices for axis in place.axes] == [4, 1]
    assert place_lines(place)[0] == (
        "  data=64   4 slices, through the data center's network; along y (16, a ring)"
    )
    assert place_mesh(read_topology("v5e:2x2", slices=4), {"a": 2, "b": 2, "c": 2, "d": 2}) is None


def test_nothing_is_said_where_the_chip_is_not_known() -> None:
    assert place_mesh(read_topology("4x4x4"), {"x": 64}) is None


def test_nothing_is_said_where_jax_asks_for_more_than_a_stand_in_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def asks(shape: Any, devices: Any, **_: Any) -> Any:
        return devices[0].something_new

    monkeypatch.setattr("jax.experimental.mesh_utils.create_device_mesh", asks)
    assert inspection.mesh_over([4], [object()] * 4) is None
    assert place_mesh(read_topology("v5e:2x2"), {"x": 4}) is None
