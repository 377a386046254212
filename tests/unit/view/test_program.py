"""A compiled program as text, as a snapshot, and as the still picture of it."""

from __future__ import annotations

from msgspec import structs

from nbdist.contract.program import Buffer, MeshAxes, Program, ProgramMemory
from nbdist.contract.snapshot import Axis, Device, Mesh
from nbdist.program.compiled import refused
from nbdist.view.feed import OneFrame
from nbdist.view.picture import Picture, still_html
from nbdist.view.program import MESH, compiled_snapshot, line_text, program_text
from tests.builders.golden import snapshot
from tests.unit.program.test_sent import collective

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
    turned = structs.replace(equal, devices=("0:0", "0:1", "1:2", "1:3"))
    found = compiled_snapshot(PROGRAM, DEVICES, meshes=[turned])
    assert found.program is not None and found.program.mesh == MESH


def test_a_mesh_with_a_device_that_is_not_there_is_none():
    found = compiled_snapshot(PROGRAM, DEVICES[:3])
    assert found.meshes == ()
    assert found.program is not None and found.program.mesh is None
    assert compiled_snapshot(structs.replace(PROGRAM, mesh=None), DEVICES).meshes == ()


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
    assert refused.refusal is not None and "(64.05G)" in refused.refusal
    assert (refused.memory, refused.collectives) == (None, ())


def test_without_a_kernel_the_text_and_the_mesh_stay():
    step = snapshot("compiled_step")
    assert step.program is not None
    html = still_html(step, view_id="v")
    assert step.program.title in html and "  32 KB  " in html
    assert "<b>p0 · d3</b>" in html
    assert "processes" not in html
    assert Picture(OneFrame(step), lambda: step).text() == step.program.text


MEMORY = ProgramMemory(
    arguments=2 * 2**30, outputs=2**30, temporaries=2**30, aliased=2**30, code=0, limit=4 * 2**30
)
EXPLAINED = Program(
    name="jit_step",
    fits=True,
    memory=MEMORY,
    collectives=(
        collective("all-gather", inserted=True, bytes=2**20, times=6, direction="forward"),
        collective(
            axes=None, devices="{0, 1}, {2, 3}", times=2, in_branch=True, file="a/b.py", line=3
        ),
        collective("all-to-all", axes=("data", "model"), times=None),
    ),
    flops=2e12,
    matmul_flops=19_300_000_000,
    loops=1,
    largest=(
        Buffer(bytes=2**20, array="f32[512,512]", file="b.py", line=4, operation="", name="x"),
    ),
    unread=("1 send",),
)

TEXT = """\
jit_step: fits, 3 GB of 4 GB on each device

arguments                    2 GB  ███████████████
outputs                      1 GB  ████████
temporaries                  1 GB  ████████
reused arguments (donated)  −1 GB  ████████
together                     3 GB  ██████████████████████
limit                        4 GB  ██████████████████████████████

collective    along                   per device  times  pass     line
all-gather *  data                          1 MB      6  forward
all-reduce    devices {0, 1}, {2, 3}         8 B    ≤ 2           b.py:3
all-to-all    data, model                    8 B      ?

along data: 6 MB per device in one run
along devices that are no axes: at most 16 B per device in one run
along data, model: 0 B per device in one run, and 1 collective of unknown times

* Inserted by the compiler, since a value is not laid out as its user needs it.

Not counted: 1 send.

matrix products: 19.3 G operations per device
as XLA counts, each loop's body once: 2 T operations per device

largest values
1 MB  f32[512,512]  b.py:4"""


def test_all_of_a_program_is_in_its_text():
    assert program_text(EXPLAINED) == TEXT


def test_one_that_does_not_fit_says_so():
    small = structs.replace(EXPLAINED, fits=False, memory=structs.replace(MEMORY, limit=2**30))
    assert program_text(small).startswith("jit_step: does not fit, 3 GB of 1 GB ")
    said = "Ran out of memory in memory space hbm. Used 18.2G of 15.5G hbm."
    refused_program = refused(said, "jit_step")
    assert refused_program is not None
    assert program_text(refused_program) == (
        f"jit_step does not fit, 18.2 GB of 15.5 GB on each device. The compiler:\n{said}"
    )


def test_what_is_not_known_is_not_shown():
    text = program_text(Program(name="jit_f", fits=True))
    assert text.strip() == (
        "jit_f: compiled; its memory is not known\n\nIts devices exchange nothing."
    )
    text = program_text(structs.replace(EXPLAINED, memory=structs.replace(MEMORY, limit=None)))
    assert text.startswith("jit_step: 3 GB on ")


def test_a_line_of_a_cell_is_said_to_be_one():
    assert line_text("/tmp/ipykernel_12/345.py", 4) == "cell, line 4"
    assert line_text("", 0) == ""


def test_no_line_is_wider_than_asked_for():
    wide = structs.replace(EXPLAINED, collectives=(collective(axes=None, devices="{0}, " * 40),))
    assert max(map(len, program_text(wide, width=60).splitlines())) == 60
