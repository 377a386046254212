from __future__ import annotations

import importlib.util
import time
from dataclasses import replace
from pathlib import Path

import pytest

from nbdist.errors import VersionError
from nbdist.merge import Failure, Known, Merger, Planned
from nbdist.snapshot import (
    Activity,
    Array,
    Axis,
    Device,
    Mesh,
    NamedSharding,
    Notice,
    PerProcess,
    Report,
    SingleDevice,
    Version,
)

NOW = 1_760_000_000.0
AXES = (Axis(name="data", size=4, type="auto"), Axis(name="model", size=2, type="auto"))
KEYS = tuple(f"{n // 2}:{2048 * (n // 2) + n % 2}" for n in range(8))
MESH = Mesh(id="m", axes=AXES, devices=KEYS)
TURNED = Mesh(id="t", axes=AXES, devices=KEYS[::-1])
FLAT = Mesh(id="f", axes=(Axis(name="data", size=8, type="auto"),), devices=KEYS)
MESHES = (MESH, TURNED, FLAT)
IDLE = Activity(
    state="idle",
    cell=None,
    line=None,
    source=None,
    cell_seconds=None,
    line_seconds=None,
    waiting=False,
    rss_bytes=1000,
    context_mesh=None,
)
RUNNING = replace(
    IDLE,
    state="running",
    cell=12,
    line=4,
    source="loss = step(x)",
    cell_seconds=3.2,
    line_seconds=3.0,
    waiting=True,
)


def named(path="w", spec=(("data",), ("model",)), *, mesh="m", shape=(512, 256), dtype="float32"):
    sharding = NamedSharding(mesh=mesh, spec=spec, unreduced=(), memory_kind="device")
    nbytes = 4 * shape[0] * shape[1]
    return Array(path=path, shape=shape, dtype=dtype, nbytes=nbytes, sharding=sharding)


def single(process, path="x", *, local=0, shape=(8,), memory_kind="device"):
    sharding = SingleDevice(device=KEYS[2 * process + local], memory_kind=memory_kind)
    return Array(path=path, shape=shape, dtype="float32", nbytes=32, sharding=sharding)


def device(process, local):
    key = KEYS[2 * process + local]
    return Device(
        key=key,
        process_id=process,
        id=int(key.partition(":")[2]),
        platform="cpu",
        kind="cpu",
        coords=None,
        memory=None,
        live_bytes=0,
    )


def report(process, *arrays, sequence=1, activity=IDLE, meshes=MESHES, **changes):
    return Report(
        version=1,
        process_id=process,
        sequence=sequence,
        host=f"h{process // 2 + 1}",
        pid=100 + process,
        activity=activity,
        devices=(device(process, 0), device(process, 1)),
        meshes=meshes,
        arrays=arrays,
        arrays_omitted=0,
        **changes,
    )


class Session:
    """A merger of four planned processes, asked once and again after differences have settled."""

    def __init__(self, *reports, count=4):
        planned = [
            Planned(process_id=n, host=f"plan{n // 2 + 1}", role="worker") for n in range(count)
        ]
        self.merger = Merger("s", planned)
        self.take(*reports)

    def take(self, *reports, at=NOW):
        for one in reports:
            self.merger.update(one, time_s=at)

    def settled(self, **known):
        self.merger.snapshot(Known(**known), time_s=NOW)
        return self.merger.snapshot(Known(**known), time_s=NOW + 2.5)


def test_processes_not_heard_from_come_from_the_plan():
    snapshot = Session(report(1)).settled()
    assert [process.state for process in snapshot.processes] == ["starting", "idle"] + [
        "starting"
    ] * 2
    assert snapshot.processes[0].host == "plan1"
    assert snapshot.processes[0].heard_seconds is None
    assert snapshot.processes[1].heard_seconds == 2.5
    assert snapshot.state == "starting"


def test_equal_arrays_of_all_processes_become_one_without_a_list_of_processes():
    snapshot = Session(*(report(n, named()) for n in range(4))).settled()
    assert snapshot.arrays == (named(),)
    assert snapshot.meshes == MESHES
    assert [one.key for one in snapshot.devices] == list(KEYS)
    assert snapshot.disagreements == ()
    assert snapshot.state == "idle"


def test_an_array_of_its_own_on_each_process_becomes_one_per_process():
    snapshot = Session(*(report(n, single(n)) for n in range(4))).settled()
    [array] = snapshot.arrays
    assert array.sharding == PerProcess(devices=KEYS[::2], memory_kind="device")
    assert array.processes == ()
    assert snapshot.disagreements == ()


def test_per_process_arrays_keep_the_device_each_process_has_them_on():
    sections = [
        (single(n, "a", local=0), single(n, "b", local=1), single(n, "c", local=n % 2))
        for n in range(4)
    ]
    snapshot = Session(*(report(n, *section) for n, section in enumerate(sections))).settled()
    devices = {array.path: array.sharding.devices for array in snapshot.arrays}
    assert devices == {
        "a": KEYS[::2],
        "b": KEYS[1::2],
        "c": (KEYS[0], KEYS[3], KEYS[4], KEYS[7]),
    }


def test_an_array_on_one_device_of_one_process_stays_there():
    snapshot = Session(report(0), report(1, single(1)), report(2), report(3)).settled()
    assert snapshot.arrays == (replace(single(1), processes=(1,)),)
    assert snapshot.disagreements == ()


def test_a_different_spec_is_two_arrays_and_a_disagreement():
    other = named(spec=(("data",), ()))
    snapshot = Session(*(report(n, other if n == 2 else named()) for n in range(4))).settled()
    assert snapshot.arrays == (
        replace(named(), processes=(0, 1, 3)),
        replace(other, processes=(2,)),
    )
    [disagreement] = snapshot.disagreements
    assert disagreement.about == "array w"
    assert disagreement.versions == (
        Version(processes=(0, 1, 3), value="f32[512, 256] P('data', 'model')"),
        Version(processes=(2,), value="f32[512, 256] P('data', None)"),
    )


@pytest.mark.parametrize(
    ("other", "values"),
    [
        (
            named(spec=(("data",), ()), mesh="f"),
            ["on mesh data=4 × model=2 in device", "on mesh data=8 in device memory"],
        ),
        (named(spec=(("data",), ()), mesh="t"), ["memory", "memory over other devices"]),
    ],
)
def test_versions_that_would_read_alike_are_told_apart(other, values):
    first = named(spec=(("data",), ()))
    snapshot = Session(*(report(n, first if n < 3 else other) for n in range(4))).settled()
    [disagreement] = snapshot.disagreements
    texts = [version.value for version in disagreement.versions]
    assert texts[0] != texts[1]
    assert all(value in text for value, text in zip(values, texts, strict=True))


def test_a_spanning_array_that_some_lack_is_a_disagreement():
    snapshot = Session(*(report(n, *[named()] * (n < 3)) for n in range(4))).settled()
    assert snapshot.arrays[0].processes == (0, 1, 2)
    [disagreement] = snapshot.disagreements
    assert disagreement.versions[1] == Version(processes=(3,), value="missing")


def test_arrays_within_each_process_may_lie_differently_but_not_differ_in_type():
    local = [
        Mesh(id=f"l{n}", axes=(Axis(name="d", size=2, type="auto"),), devices=KEYS[2 * n :][:2])
        for n in range(4)
    ]

    def reports(shapes):
        return [
            report(n, named(spec=(("d",), ()), mesh=f"l{n}", shape=shapes[n]), meshes=(local[n],))
            for n in range(4)
        ]

    same = Session(*reports([(8, 8)] * 4)).settled()
    assert len(same.arrays) == 4
    assert same.disagreements == ()
    [disagreement] = Session(*reports([(8, 8)] * 3 + [(4, 8)])).settled().disagreements
    assert [version.value for version in disagreement.versions] == ["f32[8, 8]", "f32[4, 8]"]


def test_a_difference_counts_only_after_it_has_lasted():
    session = Session(*(report(n, *[named()] * (n < 3)) for n in range(4)))
    known = Known()
    assert session.merger.snapshot(known, time_s=NOW).disagreements == ()
    assert session.merger.snapshot(known, time_s=NOW + 1.9).disagreements == ()
    session.take(report(3, named(), sequence=2))
    assert session.merger.snapshot(known, time_s=NOW + 2.5).disagreements == ()
    session.take(report(3, sequence=3))
    assert session.merger.snapshot(known, time_s=NOW + 3).disagreements == ()
    assert len(session.merger.snapshot(known, time_s=NOW + 5).disagreements) == 1


def test_processes_in_different_lines_are_not_compared():
    ahead = replace(RUNNING, line=5, context_mesh="m")
    session = Session(report(0, named(), activity=ahead), report(1, activity=RUNNING))
    assert session.settled().disagreements == ()
    session.take(report(0, named(), activity=RUNNING, sequence=2))
    assert len(session.settled().disagreements) == 1


def test_meshes_in_context_that_differ_are_named():
    contexts = ["m", "m", "f", None]
    snapshot = Session(
        *(report(n, activity=replace(IDLE, context_mesh=contexts[n])) for n in range(4))
    ).settled()
    [disagreement] = snapshot.disagreements
    assert disagreement.about == "mesh in context"
    assert [(version.processes, version.value) for version in disagreement.versions] == [
        ((0, 1), "data=4 × model=2"),
        ((2,), "data=8"),
        ((3,), "none"),
    ]


def test_a_lost_process_is_not_asked_for_its_arrays_and_its_devices_stay():
    session = Session(*(report(n, *[named()] * (n != 3)) for n in range(4)))
    snapshot = session.settled(lost={3: "ended by signal 9 (SIGKILL)"})
    assert snapshot.disagreements == ()
    assert snapshot.arrays == (named(),)
    assert len(snapshot.devices) == 8
    assert snapshot.processes[3].state == "lost"
    assert snapshot.processes[3].error == "ended by signal 9 (SIGKILL)"
    assert snapshot.state == "stuck"
    [notice] = snapshot.notices
    assert notice.title == "Process 3 is lost."
    assert notice.text == "Process 3 on h2: ended by signal 9 (SIGKILL)."


def test_when_all_are_lost_the_last_picture_stays():
    session = Session(*(report(n, named()) for n in range(4)))
    assert session.settled(lost=dict.fromkeys(range(4), "gone")).arrays == (named(),)


def test_a_process_that_raised_shows_where_and_who_is_still_inside():
    session = Session(report(1), *(report(n, activity=RUNNING) for n in (0, 2, 3)))
    failure = Failure(error="ValueError: empty batch", cell=12, line=2, source="x = next(b)")
    snapshot = session.settled(failed={1: failure})
    process = snapshot.processes[1]
    assert (process.state, process.line, process.error) == ("failed", 2, "ValueError: empty batch")
    assert snapshot.state == "stuck"
    [notice] = snapshot.notices
    assert notice.level == "bad"
    assert notice.title == "Process 1 raised, processes 0, 2, 3 still in the cell."
    assert notice.text == (
        "On process 1 (h1): ValueError: empty batch in line 2, x = next(b). "
        "Processes 0, 2, 3 are in line 4, loss = step(x) for 3.0 s."
    )


def test_a_failure_with_nobody_inside_does_not_make_the_session_stuck():
    snapshot = Session(*(report(n) for n in range(4))).settled(failed={1: Failure(error="E: x")})
    assert snapshot.state == "idle"


@pytest.mark.parametrize(
    ("known", "state"),
    [
        ({}, "running"),
        ({"out_of_step": True}, "out of step"),
        ({"stuck": frozenset({2}), "out_of_step": True}, "stuck"),
        ({"stopped": True, "lost": {0: "gone"}}, "stopped"),
    ],
)
def test_the_state_of_the_session_is_what_matters_most(known, state):
    session = Session(*(report(n, activity=RUNNING) for n in range(4)))
    assert session.settled(**known).state == state


def test_a_stuck_process_keeps_its_line():
    session = Session(*(report(n, activity=RUNNING) for n in range(4)))
    snapshot = session.settled(stuck=frozenset({2}))
    assert (snapshot.processes[2].state, snapshot.processes[2].line) == ("stuck", 4)
    assert snapshot.notices[0].title == "Process 2 is stuck."


def test_many_lost_processes_are_counted_not_listed():
    lost = dict.fromkeys(range(6), "gone")
    notice = Session(count=8).settled(lost=lost).notices[0]
    assert notice.title == "Processes 0–5 are lost."
    assert notice.text.endswith("And 3 more.")


def test_the_largest_array_that_is_whole_everywhere_is_named():
    arrays = [
        named("small", ((), ()), shape=(8, 8)),
        named("embedding", ((), ()), shape=(8192, 512)),
        named("second", ((), ()), shape=(4096, 512)),
        named("sharded", shape=(81920, 512)),
    ]
    snapshot = Session(*(report(n, *arrays) for n in range(4))).settled()
    assert snapshot.notices == (
        Notice(level="warn", title="embedding", text="is whole on all 8 devices (16 MB each)"),
    )


def test_notices_of_the_kernel_come_first():
    told = Notice(level="bad", title="T", text="t")
    snapshot = Session(report(0)).settled(notices=(told,), stuck=frozenset({0}))
    assert [notice.title for notice in snapshot.notices] == ["T", "Process 0 is stuck."]


def test_only_twenty_differences_are_listed():
    arrays = [named(f"w{n}") for n in range(50)]
    snapshot = Session(report(0, *arrays), report(1)).settled()
    assert len(snapshot.disagreements) == 20
    assert snapshot.notices[0].title == "30 more differences between processes"


def test_an_array_whose_mesh_is_not_known_yet_is_counted_not_shown():
    session = Session(report(0, named(), meshes=()))
    snapshot = session.settled()
    assert (snapshot.arrays, snapshot.arrays_omitted) == ((), 1)
    session.take(report(0, named(), sequence=2))
    assert session.settled().arrays == (named(),)


def test_sections_that_are_none_leave_what_is_known():
    session = Session(report(0, named()))
    late = Report(version=1, process_id=0, sequence=2, host="h1", pid=100, activity=RUNNING)
    session.take(late)
    snapshot = session.settled()
    assert snapshot.arrays == (named(),)
    assert len(snapshot.devices) == 2
    assert snapshot.processes[0].state == "running"


def test_a_report_older_than_the_newest_is_ignored():
    session = Session(report(0, named(), sequence=5))
    session.take(report(0, sequence=4))
    assert session.settled().arrays == (named(),)


def test_a_restarted_process_starts_afresh_even_with_lower_sequence_numbers():
    session = Session(report(0, named(), sequence=500))
    session.take(replace(report(0), pid=999, arrays=None))
    snapshot = session.settled()
    assert snapshot.arrays == ()
    assert snapshot.processes[0].pid == 999


def test_a_forgotten_process_is_starting_again():
    session = Session(report(0, named()))
    session.merger.forget(0)
    snapshot = session.settled()
    assert snapshot.processes[0].state == "starting"
    assert (snapshot.arrays, snapshot.meshes, snapshot.devices) == ((), (), ())


def test_reports_of_processes_outside_the_plan_are_ignored():
    assert len(Session(report(3, named()), count=2).settled().processes) == 2


def test_another_version_of_the_contract_is_refused_with_the_host():
    text = r"process 3 \(host h2\) sends reports of version 2, this kernel reads version 1"
    with pytest.raises(VersionError, match=text):
        Session(replace(report(3), version=2))


def test_arrays_are_merged_again_only_after_a_change():
    session = Session(*(report(n, named(), single(n)) for n in range(4)))
    first = session.settled()
    session.take(*(report(n, named(), single(n), sequence=2, activity=RUNNING) for n in range(4)))
    second = session.settled()
    assert second.processes[0].state == "running"
    assert second.arrays[1].sharding is first.arrays[1].sharding
    session.take(report(0, single(0), sequence=3))
    assert session.settled().arrays != second.arrays


def test_removed_arrays_disappear():
    session = Session(*(report(n, named("a"), named("b")) for n in range(4)))
    session.settled()
    session.take(*(report(n, named("b"), sequence=2) for n in range(4)))
    assert session.settled().arrays == (named("b"),)


def test_a_pod_of_2240_processes_is_merged_in_bounded_time():
    path = Path(__file__).parents[1] / "golden/large.py"
    spec = importlib.util.spec_from_file_location("golden_large", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    pod = module.large(2240, 4, 2000)
    shared = [array for array in pod.arrays if array.sharding.kind == "named"][:100]
    merger = Merger("s", [Planned(process_id=n, host="h", role="worker") for n in range(2240)])
    first = report(0, meshes=pod.meshes)
    for n in range(2240):
        own = SingleDevice(device=pod.meshes[0].devices[4 * n], memory_kind=None)
        section = (*shared, *(replace(array, sharding=own) for array in pod.arrays[1980:]))
        merger.update(replace(first, process_id=n, arrays=section), time_s=NOW)
    began = time.perf_counter()
    snapshot = merger.snapshot(Known(), time_s=NOW + 3)
    assert time.perf_counter() - began < 1
    assert len(snapshot.arrays) == 120
    assert snapshot.arrays[100].sharding.devices == pod.meshes[0].devices[::4]
    assert snapshot.disagreements == ()
