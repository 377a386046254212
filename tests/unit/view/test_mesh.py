"""A mesh in characters, and on it the part of an array that each device holds."""

from __future__ import annotations

import re

import pytest
from msgspec import structs

from nbdist.contract.snapshot import DeviceBytes
from nbdist.errors import ArrayError
from nbdist.view.mesh import mesh_text
from nbdist.view.status import DeviceNames
from tests.builders.golden import golden, snapshot
from tests.places import GOLDEN

NAMES = sorted(path.stem for path in GOLDEN.glob("*.json"))


def slices_text(slices):
    return f"[{', '.join(f'{start}:{stop}' for start, stop in slices)}]" if slices else "scalar"


def test_a_mesh_reads_as_in_the_design():
    array = structs.replace(snapshot("tour").arrays[0], path="w")
    text = mesh_text(structs.replace(snapshot("tour"), arrays=(array,)), path="w", width=120)
    assert text.splitlines() == [
        "mesh data=4 × model=2          w  f32[512, 256]  P('data', 'model')  "
        "8 shards of 128 × 128, 64 KB each, not replicated",
        "         model 0                        model 1",
        "data 0   p0 · d0  [0:128, 0:128]        p0 · d1  [0:128, 128:256]",
        "data 1   p1 · d0  [128:256, 0:128]      p1 · d1  [128:256, 128:256]",
        "data 2   p2 · d0  [256:384, 0:128]      p2 · d1  [256:384, 128:256]",
        "data 3   p3 · d0  [384:512, 0:128]      p3 · d1  [384:512, 128:256]",
    ]


@pytest.mark.parametrize("first", [False, True])
def test_an_array_is_shown_under_its_own_name_whichever_others_begin_with_it(first):
    named = structs.replace(snapshot("tour").arrays[0], path="big", shape=(8, 2))
    others = [
        structs.replace(named, path=path, shape=(512, 256)) for path in ("big['w']", "bigger")
    ]
    arrays = (named, *others) if first else (*others, named)
    text = mesh_text(structs.replace(snapshot("tour"), arrays=arrays), path="big", width=120)
    assert "big  f32[8, 2]" in text and "512" not in text


@pytest.mark.parametrize("width", [60, 200])
@pytest.mark.parametrize("name", NAMES)
def test_every_device_is_shown_with_the_slice_jax_gives_it_in_lines_that_fit(name, width):
    session = snapshot(name)
    assert max(map(len, mesh_text(session, width=width).splitlines())) <= width
    for expected in golden(name)["expected"]:
        text = mesh_text(session, path=expected["path"], width=width)
        versions = sum(array.path == expected["path"] for array in session.arrays)
        assert len(text.splitlines()) <= 48 * versions
        if "more devices" in text:
            continue
        names = DeviceNames(device.key for device in session.devices)
        for key, slices in expected["slices"].items():
            if session.processes[int(key.partition(":")[0])].state != "lost":
                held = re.escape(slices_text(slices))
                shown = rf"{names.short(key)} +(own )?{held}( |$)"
                assert re.search(shown, text, re.M)


@pytest.mark.parametrize(
    ("name", "path", "width", "line"),
    [
        ("axes_3", "cube", 100, "replica 2"),
        ("axes_5", "experts", 120, "pod 1, data 0, expert 1"),
        # Too wide: one device a line.
        ("tour", "batch", 50, "data 1, model 0   p1 · d0  [256:512, 0:64]"),
        ("pieces_256", "kernel", 100, "… and 216 more devices"),
    ],
)
def test_planes_have_labels_and_what_does_not_fit_is_listed_or_counted(name, path, width, line):
    assert line in mesh_text(snapshot(name), path=path, width=width).splitlines()


@pytest.mark.parametrize(
    ("name", "path", "text"),
    [
        ("unreduced", "gradient", "p1 · d0  [0:8, 0:8] partial sum 2"),
        ("per_process", "rng", "p1 · d0  own scalar"),
        ("failed", "batch", "p3 · d0  lost"),
        # Of a branch, the largest array that is cut, or the largest of all; but one of this very path.
        ("transformer", "model", "\nmodel.head.kernel  f32[256, 8192]"),
        ("transformer", "model.blocks[12]", "\nmodel.blocks[12].mlp.kernel  "),
        ("transformer", "model.embed", "\nmodel.embed.kernel  "),
        ("transformer", "w", "w  f32[512, 512]"),
    ],
)
def test_of_an_array_it_is_shown_how_it_lies(name, path, text):
    assert text in mesh_text(snapshot(name), path=path)


def test_without_an_array_the_devices_show_their_memory_and_what_is_counted():
    text = mesh_text(snapshot("tour"))
    assert text.splitlines()[:2] == [
        "mesh data=4 × model=2",
        "memory of each device (includes arrays awaiting garbage collection)",
    ]
    assert "p1 · d0  16.4 MB" in text
    measured = mesh_text(snapshot("axes_2"))
    assert measured.startswith("mesh data=4 × model=2 (explicit)\nmemory in use")
    assert "MB of 16 GB" in measured
    assert "awaiting" not in mesh_text(snapshot("tour"), path="params.dense2.kernel")


def test_each_version_of_an_array_has_its_own_picture():
    text = mesh_text(snapshot("out_of_step"), path="w")
    assert text.count("mesh data=") == 2
    assert "(processes 0, 1, 3)" in text and "(process 2)" in text


def test_before_any_mesh_the_devices_are_listed_by_process():
    assert mesh_text(snapshot("empty")) == "no devices known yet"
    lines = mesh_text(structs.replace(snapshot("tour"), meshes=(), arrays=())).splitlines()
    assert lines[0] == "no mesh yet; devices by process"
    assert (lines[2], len(lines)) == ("process 1  cpu devices 0, 1", 5)


def test_an_unknown_array_is_refused_with_names_that_look_alike():
    text = r"^no process has an array 'params.dense1.bais'\. Did you mean 'params.dense1.bias'"
    with pytest.raises(ArrayError, match=text + r".* 7 arrays are known\.$"):
        mesh_text(snapshot("tour"), path="params.dense1.bais")
    with pytest.raises(ArrayError, match=r"5 more lie too deep to be listed\.$"):
        mesh_text(structs.replace(snapshot("tour"), arrays_omitted=5), path="zzz")


def test_k5_the_mesh_is_followed_by_what_is_set_and_what_devices_hold_of_each_model():
    session = snapshot("keras_model")
    lines = mesh_text(session, width=120).splitlines()
    assert lines[lines.index("") + 1 :] == [
        "distribution ModelParallel  mesh batch=2 × model=2  batches split over batch, "
        "auto-sharding off, global batch 64",
        "  .*dense.*/kernel  P(None, 'model')",
        "  .*dense.*/bias  P('model')",
        "  .*attention.*/query/kernel  P(None, 'model', None)",
        "model  Sequential, 16 variables, 65.7 MB on each of 4 devices",
    ]
    assert "ModelParallel" not in mesh_text(session, path="x")
    first, *others = (device.key for device in session.devices)
    totals = (
        DeviceBytes(devices=(first,), nbytes=2048),
        DeviceBytes(devices=tuple(others), nbytes=1024),
    )
    session = structs.replace(session, models=(structs.replace(session.models[0], totals=totals),))
    last = mesh_text(session, width=120).splitlines()[-1]
    assert last.endswith("2 KB on p0 · d0; 1 KB on p0 · d1, p1 · d0, p1 · d1")
