"""Bytes on devices from descriptions alone, for each kind of sharding."""

import json
import math

import jax
import numpy as np
import pytest
from jax.sharding import NamedSharding, SingleDeviceSharding
from jax.sharding import PartitionSpec as P

from nbdist.contract.snapshot import Array, DeviceBytes, Indexed, Piece, Snapshot
from nbdist.contract.wire import decode
from nbdist.engine.frameworks.jax.observe import describe
from nbdist.pieces import fullest_bytes, holders, is_whole_everywhere, totals
from tests.places import GOLDEN


def described(array):
    """An array as a report has it, and its meshes by id."""
    found, meshes = describe(array)
    return found, {mesh.id: mesh for mesh in meshes}


@pytest.mark.parametrize(
    "spec", [P(), P("data"), P(None, "model"), P(("data", "model")), P("data", "model")]
)
def test_bytes_are_those_of_the_real_shards(mesh, spec):
    array = jax.device_put(np.ones((16, 6), np.float32), NamedSharding(mesh, spec))
    found, meshes = described(array)
    assert {fullest_bytes(found, meshes)} == {
        shard.data.nbytes for shard in array.addressable_shards
    }
    assert set(holders(found, meshes)) == {f"0:{s.device.id}" for s in array.addressable_shards}
    assert is_whole_everywhere(found, meshes) == (spec == P())


def test_one_device_holds_a_single_array_whole():
    array = jax.device_put(np.ones((3, 2), np.float32), SingleDeviceSharding(jax.devices()[5]))
    found, meshes = described(array)
    assert (fullest_bytes(found, meshes), holders(found, meshes)) == (24, ("0:5",))
    assert not is_whole_everywhere(found, meshes)


def test_an_array_by_index_is_counted_by_its_largest_piece():
    pieces = (
        Piece(slices=((0, 3),), devices=("0:0",)),
        Piece(slices=((3, 4),), devices=("0:1", "0:2")),
    )
    sharding = Indexed(pieces=pieces, memory_kind=None)
    found = Array(path="w", shape=(4,), dtype="float32", nbytes=16, sharding=sharding)
    assert (fullest_bytes(found, {}), holders(found, {})) == (12, ("0:0", "0:1", "0:2"))


def test_empty_arrays_and_unknown_meshes_do_no_harm(mesh):
    found, meshes = described(
        jax.device_put(np.ones((0, 4), np.float32), NamedSharding(mesh, P("data")))
    )
    assert fullest_bytes(found, meshes) == 0
    assert (holders(found, {}), is_whole_everywhere(found, {})) == ((), False)


def test_totals_add_up_by_device_and_put_the_fullest_first(mesh):
    spread, meshes = described(
        jax.device_put(np.ones(8, np.float32), NamedSharding(mesh, P("data")))
    )
    single, _ = described(jax.device_put(np.ones(5, np.float32), jax.devices()[2]))
    rest = tuple(f"0:{number}" for number in (0, 1, 3, 4, 5, 6, 7))
    assert totals([spread, spread, single], meshes) == (
        DeviceBytes(devices=("0:2",), nbytes=36),
        DeviceBytes(devices=rest, nbytes=16),
    )


ARRAYS = [
    pytest.param(array, snapshot.meshes, one["slices"], id=f"{path.stem}-{one['path']}")
    for path in sorted(GOLDEN.glob("*.json"))
    for content in [json.loads(path.read_text(encoding="utf-8"))]
    for snapshot in [decode(Snapshot, content["snapshot"])]
    for array, one in zip(snapshot.arrays, content["expected"], strict=True)
]


@pytest.mark.parametrize(("array", "meshes", "slices"), ARRAYS)
def test_the_fullest_device_has_the_bytes_of_the_golden_also_where_an_array_is_cut_unevenly(
    array, meshes, slices
):
    itemsize = array.nbytes // max(math.prod(array.shape), 1)
    fullest = max(math.prod(stop - start for start, stop in held) for held in slices.values())
    assert fullest_bytes(array, {mesh.id: mesh for mesh in meshes}) == fullest * itemsize
