from __future__ import annotations

import re
from dataclasses import replace

import pytest

from nbdist.contract.snapshot import DeviceBytes, Disagreement, Metric, Progress, Version
from nbdist.errors import ArrayError, OptionError
from nbdist.view.picture import still_html
from nbdist.view.text import arrays_text, mesh_text, shards_text, status_text
from tests.builders.golden import golden, snapshot
from tests.places import GOLDEN

NAMES = sorted(path.stem for path in GOLDEN.glob("*.json"))


def slices_text(slices):
    return f"[{', '.join(f'{start}:{stop}' for start, stop in slices)}]" if slices else "scalar"


def test_a_mesh_reads_as_in_the_design():
    array = replace(snapshot("tour").arrays[0], path="w")
    text = mesh_text(replace(snapshot("tour"), arrays=(array,)), path="w", width=120)
    assert text.splitlines() == [
        "mesh data=4 × model=2          w  f32[512, 256]  P('data', 'model')  "
        "8 pieces of 128 × 128, 64 KB each, one copy",
        "         model 0                             model 1",
        "data 0   cpu:0     p0  [0:128, 0:128]        cpu:1     p0  [0:128, 128:256]",
        "data 1   cpu:2048  p1  [128:256, 0:128]      cpu:2049  p1  [128:256, 128:256]",
        "data 2   cpu:4096  p2  [256:384, 0:128]      cpu:4097  p2  [256:384, 128:256]",
        "data 3   cpu:6144  p3  [384:512, 0:128]      cpu:6145  p3  [384:512, 128:256]",
    ]


@pytest.mark.parametrize("first", [False, True])
def test_an_array_is_shown_under_its_own_name_whichever_others_begin_with_it(first):
    named = replace(snapshot("tour").arrays[0], path="big", shape=(8, 2))
    others = [replace(named, path=path, shape=(512, 256)) for path in ("big['w']", "bigger")]
    arrays = (named, *others) if first else (*others, named)
    text = mesh_text(replace(snapshot("tour"), arrays=arrays), path="big", width=120)
    assert "big  f32[8, 2]" in text
    assert "512" not in text


@pytest.mark.parametrize("width", [60, 200])
@pytest.mark.parametrize("name", NAMES)
def test_every_device_is_shown_with_the_slice_jax_gives_it(name, width):
    session = snapshot(name)
    for expected in golden(name)["expected"]:
        text = mesh_text(session, path=expected["path"], width=width)
        if "more devices" in text:
            continue
        platform = session.devices[0].platform
        for key, slices in expected["slices"].items():
            process, _, device = key.partition(":")
            if session.processes[int(process)].state == "lost":
                continue
            held = re.escape(slices_text(slices))
            assert re.search(rf"{platform}:{device} +p{process}  (own )?{held}( |$)", text, re.M)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("width", [80, 120])
def test_no_text_is_longer_than_a_screen(name, width):
    session = snapshot(name)
    for array in session.arrays:
        versions = sum(other.path == array.path for other in session.arrays)
        text = mesh_text(session, path=array.path, width=width)
        assert len(text.splitlines()) <= 48 * versions
    assert all(len(line) <= width for line in mesh_text(session, width=width).splitlines())


def test_a_mesh_of_three_axes_is_blocks_by_the_leading_axis():
    lines = mesh_text(snapshot("axes_3"), path="cube").splitlines()
    assert lines[2].split() == ["model", "0", "model", "1"]
    assert [line for line in lines if line.startswith("replica")] == [
        "replica 0",
        "replica 1",
        "replica 2",
    ]
    assert lines[4] == "data 0   cpu:0     p0  [0:2, 0:4, 0:2]      cpu:1     p0  [0:2, 0:4, 2:4]"


def test_a_mesh_of_five_axes_labels_blocks_by_three():
    lines = mesh_text(snapshot("axes_5"), path="experts", width=120).splitlines()
    assert "pod 1, data 0, expert 1" in lines
    assert sum(line.startswith("pod") for line in lines) == 8


def test_a_mesh_too_wide_is_listed_one_device_a_line():
    lines = mesh_text(snapshot("tour"), path="batch", width=50).splitlines()
    assert "data 1, model 0   cpu:2048  p1  [256:512, 0:64]" in lines


def test_a_large_mesh_is_cut_and_the_rest_counted():
    lines = mesh_text(snapshot("pieces_256"), path="kernel").splitlines()
    assert len(lines) == 43
    assert lines[-1] == "… and 216 more devices"


def test_partial_sums_are_named_and_never_called_copies():
    text = mesh_text(snapshot("unreduced"), path="gradient")
    assert "cpu:2048  p1  [0:8, 0:8] addend 1" in text
    assert "4 copies" not in text


def test_of_a_branch_the_largest_array_that_is_cut_is_shown():
    session = snapshot("transformer")
    assert "\nmodel.head.kernel  f32[256, 8192]" in mesh_text(session, path="model")
    assert "\nmodel.blocks[12].mlp.kernel  " in mesh_text(session, path="model.blocks[12]")
    assert "\nmodel.embed.kernel  " in mesh_text(session, path="model.embed"), "none is cut"
    assert "\nw  f32[512, 512]" in mesh_text(session, path="w"), "an array of this very path"


def test_what_each_process_has_for_itself_says_so():
    assert "cpu:2048  p1  own scalar" in mesh_text(snapshot("per_process"), path="rng")


def test_devices_of_a_lost_process_are_lost():
    assert "cpu:6144  p3  lost" in mesh_text(snapshot("failed"), path="batch")


def test_without_an_array_the_devices_show_their_memory():
    text = mesh_text(snapshot("tour"))
    assert text.startswith(
        "mesh data=4 × model=2\n"
        "bytes of live arrays on each device, with what Python has not collected yet\n"
    )
    assert "cpu:2048  p1  16.4 MB" in text
    measured = mesh_text(snapshot("axes_2"))
    assert "\nmemory in use on each device, with what Python has not" in measured
    assert "MB of 16 GB" in measured


def test_bytes_are_explained_only_where_they_are_shown():
    assert "collected" not in mesh_text(snapshot("tour"), path="params.dense2.kernel")
    assert "collected" in still_html(snapshot("tour"), view_id="v")


def test_the_mesh_asked_for_is_shown():
    session = snapshot("several_meshes")
    assert mesh_text(session, mesh=session.meshes[0].id).startswith("mesh all=8")


def test_axis_types_other_than_auto_are_named():
    assert mesh_text(snapshot("axes_2")).startswith("mesh data=4 × model=2 (explicit)")


def test_each_version_of_an_array_has_its_own_picture():
    text = mesh_text(snapshot("out_of_step"), path="w")
    assert text.count("mesh data=") == 2
    assert "(processes 0, 1, 3)" in text and "(process 2)" in text


def test_nothing_known_yet_is_said():
    empty = snapshot("empty")
    assert mesh_text(empty) == "no devices known yet"
    assert arrays_text(empty) == "no arrays yet"
    assert status_text(empty).startswith("starting   4 processes on 2 hosts\n")


def test_before_any_mesh_the_devices_are_listed_by_process():
    bare = replace(snapshot("tour"), meshes=(), arrays=())
    lines = mesh_text(bare).splitlines()
    assert lines[0] == "no mesh yet; devices by process"
    assert lines[2] == "process 1  cpu:2048  cpu:2049"
    assert len(lines) == 5


def test_an_unknown_array_is_refused_with_names_that_look_alike():
    text = r"^no process has an array 'params.dense1.bais'\. Did you mean 'params.dense1.bias'"
    with pytest.raises(ArrayError, match=text + r".* 7 arrays are known\.$"):
        mesh_text(snapshot("tour"), path="params.dense1.bais")


def test_an_unknown_array_may_be_among_those_left_out():
    session = replace(snapshot("tour"), arrays_omitted=5)
    with pytest.raises(ArrayError, match=r"5 more lie too deep to be listed\.$"):
        mesh_text(session, path="zzz")


def test_an_unknown_mesh_is_refused_with_the_known_ones():
    with pytest.raises(OptionError, match=r"no mesh 'm'; allowed: \w+ \(data=4 × model=2\)\."):
        mesh_text(snapshot("tour"), mesh="m")


def test_status_has_a_row_for_each_process():
    lines = status_text(snapshot("failed")).splitlines()
    assert lines[0] == "stuck   4 processes on 2 hosts   8 cpu devices"
    assert lines[1].split() == ["process", "host", "state", "cell", "line", "seconds", "memory"]
    assert lines[2].split(maxsplit=8) == (
        ["0", "h1", "waiting", "12", "4", "3.2", "s", "400", "MB  loss = step(params, x)"]
    )
    assert "failed" in lines[3] and lines[3].endswith("ValueError: empty batch")
    assert "lost" in lines[5] and lines[5].endswith("ended by signal 9 (SIGKILL)")
    assert lines[6].startswith("Process 1 raised, processes 0, 2 still in the cell. On process 1")


def test_of_a_session_that_was_stopped_no_process_is_called_idle():
    stopped = replace(snapshot("tour"), state="stopped")
    assert status_text(stopped).startswith("stopped   4 processes on 2 hosts   8 cpu devices")
    assert "idle" not in status_text(stopped)


def test_status_says_what_disagrees():
    assert (
        "array x differs: processes 0, 1 f32[64] P('data'); processes 2, 3 missing"
        in status_text(snapshot("out_of_step")).splitlines()
    )


def test_status_of_a_pod_shows_trouble_first_and_counts_the_rest():
    session = snapshot("tour")
    many = tuple(
        replace(session.processes[0], process_id=n, waiting=False, state="idle") for n in range(100)
    )
    session = replace(session, processes=(*many[:99], replace(many[99], state="lost")))
    lines = status_text(session).splitlines()
    assert lines[2].startswith("99 ")
    assert "… and 60 more processes: 60 idle" in lines


def test_roles_are_shown_where_they_differ():
    session = snapshot("tour")
    assert "worker" not in status_text(session)
    evaluator = replace(session.processes[3], role="evaluator")
    text = status_text(replace(session, processes=(*session.processes[:3], evaluator)))
    assert "evaluator" in text and "worker" in text


def test_arrays_are_listed_with_bytes_and_copies():
    lines = arrays_text(snapshot("tour")).splitlines()
    assert lines[0].split("  ")[0] == "array"
    assert lines[6].split() == [
        "embedding",
        "f32[8192,",
        "512]",
        "P(None,",
        "None)",
        "16",
        "MB",
        "×8",
    ]


def test_partial_sums_and_own_arrays_are_not_counted_as_copies():
    assert "4 addends" in arrays_text(snapshot("unreduced")).splitlines()[1]
    assert arrays_text(snapshot("per_process")).splitlines()[1].endswith("own")


def test_array_names_that_do_not_fit_differ_all_the_same():
    session = snapshot("long_names")
    lines = arrays_text(session, width=80).splitlines()[1:]
    assert len({line.split("  ")[0] for line in lines}) == len(session.arrays)
    assert all(len(line) <= 80 for line in lines)


def test_arrays_can_be_found_by_a_part_of_their_path():
    lines = arrays_text(snapshot("tour"), find="DENSE2").splitlines()
    assert len(lines) == 2 and lines[1].startswith("params.dense2.kernel")
    assert arrays_text(snapshot("tour"), find="q") == "no array with 'q' in its path"


def test_arrays_left_out_are_counted():
    session = replace(snapshot("tour"), arrays_omitted=3)
    assert arrays_text(session).endswith("… and 3 more arrays")


def shards(name, path):
    session = snapshot(name)
    [array] = [array for array in session.arrays if array.path == path]
    return shards_text(array, {mesh.id: mesh for mesh in session.meshes}, session)


def test_shards_list_each_piece_with_its_devices():
    assert shards("tour", "params.dense1.bias").splitlines() == [
        "params.dense1.bias  f32[256]  P('model') on mesh data=4 × model=2",
        "2 pieces of 128, 512 B each, 4 copies",
        "[0:128]    512 B  cpu:0 p0, cpu:2048 p1, cpu:4096 p2, cpu:6144 p3",
        "[128:256]  512 B  cpu:1 p0, cpu:2049 p1, cpu:4097 p2, cpu:6145 p3",
    ]


def test_many_pieces_and_many_copies_are_counted():
    assert shards("pieces_256", "kernel").endswith("… and 216 more pieces")
    assert "cpu:2048 p1, cpu:2056" not in shards("pieces_256", "bias")
    assert "and 12 more" in shards("pieces_256", "bias")


def test_what_differs_is_one_line():
    versions = (Version(processes=(0, 1, 2), value="a"), Version(processes=(3,), value="b"))
    session = replace(
        snapshot("empty"), disagreements=(Disagreement(about="x", versions=versions),)
    )
    assert status_text(session).endswith("x differs: processes 0–2 a; process 3 b")


def test_k5_the_mesh_is_followed_by_what_is_set_and_what_devices_hold_of_each_model():
    lines = mesh_text(snapshot("keras_model"), width=120).splitlines()
    assert lines[lines.index("") + 1 :] == [
        "distribution ModelParallel  mesh batch=2 × model=2  batches split over batch, "
        "auto-sharding off, global batch 64",
        "  .*dense.*/kernel  (None, 'model')",
        "  .*dense.*/bias  ('model',)",
        "  .*attention.*/query/kernel  (None, 'model', None)",
        "model  Sequential, 16 variables, 65.7 MB on each of 4 devices",
    ]
    assert "ModelParallel" not in mesh_text(snapshot("keras_model"), path="x")


def test_k4_the_status_shows_each_distribution_with_its_processes():
    text = status_text(snapshot("keras_disagree"), width=120)
    assert (
        "distribution DataParallel  mesh batch=4  batches split over batch, auto-sharding on  "
        "(processes 0, 1, 3)\n" in text
    )
    assert "distribution differs: processes 0, 1, 3 DataParallel on mesh batch=4; process 2" in text


def test_t2_t4_t7_the_status_shows_tasks_progress_and_replicas():
    text = status_text(snapshot("tensorflow"), width=200)
    assert re.search(r"^0 +h1 +worker 0, chief +running", text, re.M)
    assert re.search(r"^2 +h2 +evaluator 0 +idle", text, re.M)
    assert "fit, epoch 4 of 5  loss 0.287  accuracy 0.923  (processes 0, 1)\n" in text
    assert "evaluate, checkpoint ckpt-3  loss 0.418  accuracy 0.88  (process 2)\n" in text
    assert "4 replicas, global batch 10, on the replicas 3, 3, 2, 2" in text


def test_devices_that_hold_different_numbers_of_bytes_are_named():
    session = snapshot("keras_model")
    keys = [device.key for device in session.devices]
    totals = (
        DeviceBytes(devices=tuple(keys[:1]), nbytes=2048),
        DeviceBytes(devices=tuple(keys[1:]), nbytes=1024),
    )
    session = replace(session, models=(replace(session.models[0], totals=totals),))
    last = mesh_text(session, width=120).splitlines()[-1]
    assert last.endswith("2 KB on device 0:0; 1 KB on device 0:1, device 1:2048, device 1:2049")


@pytest.mark.parametrize(
    ("value", "text"), [(0.31244, "0.312"), (1534.4, "1534"), (1.2e-5, "1.2e-05"), (7.0, "7")]
)
def test_metrics_have_three_significant_digits(value, text):
    session = snapshot("empty")
    reported = Progress(what="fit", metrics=(Metric(name="loss", value=value),))
    session = replace(session, processes=(replace(session.processes[0], progress=reported),))
    assert f"fit  loss {text}  (process 0)" in status_text(session)
