"""Pods of several slices: what goes between them, along which axes of the mesh over all."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from nbdist.errors import OptionError
from nbdist.program.axes import mesh_axes
from nbdist.program.compiled import program_of
from nbdist.rehearsal.devices import describe
from nbdist.rehearsal.topology import read_topology

MB = 2**20
BOTH = P(("a", "b"))


@pytest.fixture(scope="module")
def four():
    """Four slices of eight devices."""
    return describe(read_topology("v5e:2x4", slices=4))


def exchanged(mesh, function, inside, outside):
    """What a function of the devices' parts exchanges, of an array of 512 × 512 numbers."""
    mapped = jax.shard_map(function, mesh=mesh, in_specs=inside, out_specs=outside, check_vma=False)
    x = jax.ShapeDtypeStruct((512, 512), jnp.float32, sharding=NamedSharding(mesh, inside))
    program = program_of(jax.jit(mapped).lower(x).compile())
    assert program.mesh == mesh_axes(mesh)
    for one in program.collectives:
        assert names_of(program.groupings[one.grouping], mesh) == one.axes
    return [(one.kind, one.axes, one.between_slices, one.bytes) for one in program.collectives]


def names_of(grouping, mesh):
    """The axes along which its devices differ."""
    axes = set()
    for group in grouping.groups:
        places = np.array(np.unravel_index(group, mesh.devices.shape))
        axes |= {mesh.axis_names[n] for n, row in enumerate(places) if len(set(row)) > 1}
    return tuple(name for name in mesh.axis_names if name in axes)


def test_a_mesh_has_whole_slices_along_the_axis_that_goes_over_them(four):
    mesh = four.mesh("data=8,model=4")
    slices = [[device.slice_index for device in row] for row in mesh.devices]
    assert slices == [[number] * 4 for number in (0, 0, 1, 1, 2, 2, 3, 3)]
    other = four.mesh("data=2,model=16")
    slices = [device.slice_index for device in other.devices[0]]
    assert slices == [number for number in range(4) for _ in range(4)]
    with pytest.raises(OptionError, match="multiple of 4"):
        describe(read_topology("v5e:2x2", slices=4)).mesh("a=2,b=2,c=2,d=2")


@pytest.mark.parametrize(
    ("axes", "kind", "function", "inside", "outside", "size"),
    [
        ("a", "all-reduce", lambda x: jax.lax.psum(x, "a"), P("a", "b"), P(None, "b"), MB // 4),
        ("b", "all-reduce", lambda x: jax.lax.psum(x, "b"), P("a", "b"), P("a"), MB // 4),
        ("ab", "all-reduce", lambda x: jax.lax.psum(x, ("a", "b")), P("a", "b"), P(), MB // 4),
        ("b", "all-gather", lambda x: jax.lax.all_gather(x, "b", tiled=True), P("b"), P(), MB),
        ("b", "reduce-scatter", lambda x: jax.lax.psum_scatter(x, "b", tiled=True), P("a"), BOTH, MB // 2),
        ("a", "all-to-all", lambda x: jax.lax.all_to_all(x, "a", 1, 0, tiled=True), P("a"), P("a"), MB // 2),
        ("a", "collective-permute", lambda x: jax.lax.ppermute(x, "a", [(0, 1), (1, 0)]), P("a"), P("a"), MB // 2),
    ],
)  # fmt: skip
def test_what_goes_between_slices_has_its_axes_and_bytes(
    four, axes, kind, function, inside, outside, size
):
    mesh = Mesh(np.array(four.all).reshape(2, 2, 8), ("a", "b", "c"))
    assert exchanged(mesh, function, inside, outside) == [(kind, tuple(axes), True, size)]


def test_what_stays_within_slices_has_the_axes_of_the_mesh_over_all(four):
    """Also where the devices of a slice lie in another order than libtpu's."""
    order = [5, 2, 0, 7, 1, 3, 4, 6]
    placed = np.array(four.all).reshape(4, 8)[:, order].reshape(4, 2, 4)
    mesh = Mesh(placed, ("slice", "a", "b"))
    for axis, spec in (("a", P("a")), ("b", P("b"))):
        found = exchanged(mesh, lambda x, axis=axis: jax.lax.psum(x, axis), spec, P())
        assert [(kind, axes, between) for kind, axes, between, _ in found] == [
            ("all-reduce", (axis,), False)
        ]


def test_a_sum_over_all_is_one_within_slices_and_one_between(four):
    mesh = Mesh(np.array(four.all).reshape(4, 8), ("slice", "a"))
    found = exchanged(mesh, lambda x: jax.lax.psum(x, ("slice", "a")), P("slice", "a"), P())
    assert ("all-reduce", ("slice",), True) in [one[:3] for one in found]
    assert {one[1:3] for one in found} == {(("slice",), True), (("a",), False)}
    # The slices may be the axis that changes fastest.
    mesh = Mesh(np.array(four.all).reshape(4, 8).T, ("a", "slice"))
    for axis, left, between in (("slice", P("a"), True), ("a", P(None, "slice"), False)):
        found = exchanged(mesh, lambda x, n=axis: jax.lax.psum(x, n), P("a", "slice"), left)
        assert found[0][:3] == ("all-reduce", (axis,), between)


def test_v4_has_a_device_for_each_chip():
    for slices in (1, 2):
        devices = describe(read_topology("v4:2x2x1", slices=slices))
        assert len(devices.all) == 4 * slices
        assert devices.mesh(f"a={4 * slices}").size == 4 * slices
