"""A compiled program as a snapshot, and the still picture of it."""

from __future__ import annotations

from dataclasses import replace

from nbdist.contract.program import MeshAxes, Program
from nbdist.contract.snapshot import Axis, Device, Mesh
from nbdist.view.feed import OneFrame
from nbdist.view.picture import Picture, still_html
from nbdist.view.program import MESH, compiled_snapshot
from tests.builders.golden import snapshot

DEVICES = tuple(
    Device(
        key=f"{number // 2}:{number}",
        process_id=number // 2,
        id=number,
        platform="cpu",
        kind="cpu",
        coords=None,
        memory=None,
        live_bytes=12,
    )
    for number in range(4)
)
AXES = MeshAxes(names=("data", "model"), shape=(2, 2), devices=(0, 2, 1, 3))
PROGRAM = Program(name="jit_step", fits=True, mesh=AXES)


def mesh(*names):
    return Mesh(
        id="of the session",
        axes=tuple(Axis(name=name, size=2, type="explicit") for name in names),
        devices=("0:0", "1:2", "0:1", "1:3"),
    )


def test_the_mesh_of_the_program_has_its_devices_in_its_order():
    found = compiled_snapshot(PROGRAM, DEVICES)
    (made,) = found.meshes
    assert [(axis.name, axis.size) for axis in made.axes] == [("data", 2), ("model", 2)]
    assert made.devices == ("0:0", "1:2", "0:1", "1:3")
    assert found.state == "compiled"
    assert found.program is not None and found.program.mesh == made.id == MESH
    assert {device.live_bytes for device in found.devices} == {None}


def test_the_mesh_of_a_session_that_is_equal_is_taken_for_it():
    equal, other = mesh("data", "model"), mesh("x", "y")
    found = compiled_snapshot(PROGRAM, DEVICES, meshes=[other, equal])
    assert found.meshes == (other, equal)
    assert found.program is not None and found.program.mesh == equal.id
    assert [one.id for one in compiled_snapshot(PROGRAM, DEVICES, meshes=[other]).meshes] == [
        MESH,
        other.id,
    ]
    turned = replace(equal, devices=("0:0", "0:1", "1:2", "1:3"))
    found = compiled_snapshot(PROGRAM, DEVICES, meshes=[turned])
    assert found.program is not None and found.program.mesh == MESH


def test_a_mesh_with_a_device_that_is_not_there_is_none():
    found = compiled_snapshot(PROGRAM, DEVICES[:3])
    assert found.meshes == ()
    assert found.program is not None and found.program.mesh is None
    assert compiled_snapshot(replace(PROGRAM, mesh=None), DEVICES).meshes == ()


def test_each_device_takes_what_the_program_needs():
    ring = snapshot("compiled_ring")
    assert ring.program is not None and ring.program.memory is not None
    (memory,) = {device.memory for device in ring.devices}
    assert memory is not None
    assert (memory.bytes_in_use, memory.bytes_limit) == (ring.program.memory.needed, 60_000)
    assert (ring.program.needed, ring.program.limit, ring.program.fits) == (80_896, 60_000, False)


def test_of_a_program_that_was_refused_the_figures_are_the_compilers():
    refused = snapshot("compiled_refused").program
    assert refused is not None and refused.needed is not None and refused.limit is not None
    assert (refused.needed, refused.limit) == (round(64.05 * 2**30), round(15.75 * 2**30))
    assert refused.refusal is not None and "exceeds available HBM" in refused.refusal
    assert refused.title == "jit_step does not fit, 64 GB of 15.8 GB on each device"
    assert (refused.memory, refused.collectives) == (None, ())


def test_without_a_kernel_the_text_and_the_mesh_stay():
    step = snapshot("compiled_step")
    assert step.program is not None
    html = still_html(step, view_id="v")
    assert "jit_step: fits, 4 MB of 16 GB on each device" in html
    assert "reduce  model     32 KB      6  forward" in html
    assert "<b>tpu:3</b>" in html
    assert "processes" not in html
    assert Picture(OneFrame(step), lambda: step).text() == step.program.text
