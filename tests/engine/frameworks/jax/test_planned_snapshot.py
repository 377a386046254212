"""A plan as a snapshot: the devices, their processes and their places are those that JAX would have."""

from __future__ import annotations

import json

import jax
import numpy as np
from jax.experimental import mesh_utils
from jax.sharding import PartitionSpec as P

import nbdist
from nbdist.contract.snapshot import Snapshot
from nbdist.contract.wire import decode, encode
from nbdist.pieces import meshes_of, pieces, split
from nbdist.rehearsal.array_plan import ArrayPlan, largest_split, snapshot_of
from nbdist.rehearsal.topology import read_topology
from nbdist.rehearsal.torus import stand_ins
from nbdist.view.feed import OneFrame
from nbdist.view.picture import still_html

TREE = {
    "w": jax.ShapeDtypeStruct((64, 32), "float32"),
    "b": jax.ShapeDtypeStruct((32,), "float32"),
}


def shown(topology: str, mesh: str, slices: int = 1) -> tuple[ArrayPlan, Snapshot]:
    plan = nbdist.plan(
        TREE, [("w", P("x", "y"))], topology=topology, mesh=mesh, slices=slices, name="p"
    )
    found = snapshot_of(plan)
    assert found is not None
    return plan, found


def test_devices_have_the_ids_and_processes_of_libtpu() -> None:
    _, found = shown("v5e:4x4", "x=4,y=4")
    # What libtpu 0.0.42 answers for v5e:4x4: four chips a process, ids with x fastest.
    assert [(d.id, d.process_id, d.coords) for d in found.devices[:6]] == [
        (0, 0, (0, 0, 0)),
        (1, 0, (1, 0, 0)),
        (4, 0, (0, 1, 0)),
        (5, 0, (1, 1, 0)),
        (2, 1, (2, 0, 0)),
        (3, 1, (3, 0, 0)),
    ]
    assert {device.key for device in found.devices} == set(found.meshes[0].devices)


def test_the_mesh_lies_where_jax_lays_it() -> None:
    _, found = shown("v5p:4x4x8", "x=8,y=16")
    devices = stand_ins(read_topology("v5p:4x4x8"))
    grid = mesh_utils.create_device_mesh((8, 16), devices=devices)
    expected = [f"{one.process_index}:{one.id}" for one in grid.flat]
    assert list(found.meshes[0].devices) == expected


def test_slices_follow_each_other_along_the_axis_that_goes_over_them() -> None:
    _, found = shown("v5e:2x4", "x=4,y=4", slices=2)
    grid = np.array(found.meshes[0].devices).reshape(4, 4)
    ids = np.vectorize(lambda key: int(key.partition(":")[2]))(grid)
    assert sorted(ids[:2].flat) == list(range(8)) and sorted(ids[2:].flat) == list(range(8, 16))
    assert len(set(grid.flat)) == 16
    # The middle axis of three, too.
    plan = nbdist.plan(TREE, P(), topology="v5e:2x2", slices=2, mesh="a=1,b=2,c=4")
    order = snapshot_of(plan).meshes[0].devices
    assert [int(key.partition(":")[2]) // 4 for key in order] == [0] * 4 + [1] * 4


def test_the_view_counts_the_bytes_that_the_plan_counts() -> None:
    plan, found = shown("v5e:4x4", "x=4,y=4")
    meshes = meshes_of(found)
    for array, planned in zip(found.arrays, plan.arrays, strict=True):
        assert split(array, meshes).piece_bytes == planned.device_bytes
        assert sum(len(part.devices) for part in pieces(array, meshes)) == 16
    assert {device.memory.bytes_in_use for device in found.devices} == {plan.device_bytes}
    assert largest_split(plan) == "p['w']"


def test_it_is_a_snapshot_that_goes_through_json_and_has_a_still_picture() -> None:
    plan, found = shown("v5e:4x4", "x=4,y=4")
    assert decode(Snapshot, json.loads(json.dumps(encode(found)))) == found
    html = still_html(found, path=largest_split(plan), view_id="v")
    assert "<b>planned</b> 16 tpu devices" in html and "processes on" not in html
    assert "P(&#x27;x&#x27;, &#x27;y&#x27;)" in html


def test_there_is_no_picture_where_it_is_not_known_how_the_mesh_lies() -> None:
    for options in ({"devices": 16}, {"topology": "4x4"}):
        assert nbdist.plan(TREE, P("x"), mesh="x=16", **options).picture() is None
    assert nbdist.plan(TREE, P("x"), mesh="x=16", topology="v5e-16").picture() is not None


def test_a_view_that_asks_gets_the_whole_and_nobody_else_anything() -> None:
    _, found = shown("v5e:4x4", "x=4,y=4")
    source, frames = OneFrame(found), []

    class Sink:
        def take(self, frame: object) -> None:
            frames.append(frame)

    source.attach(Sink())
    assert frames == [] and source.values is None and source.session == "plan of p"
    source.refresh(Sink())
    source.refresh(Sink())
    assert frames[0] == frames[1] and frames[0]["base"] is None
    assert decode(Snapshot, frames[0]["snapshot"]) == found
