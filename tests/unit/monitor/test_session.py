from __future__ import annotations

import pytest
from msgspec import structs

from nbdist.contract.snapshot import VERSION, PerProcess, Report, SingleDevice
from nbdist.errors import VersionError
from nbdist.monitor import Merger, merged
from nbdist.monitor.states import ExpectedProcess, Known
from tests.builders.reports import (
    KEYS,
    MESHES,
    NOW,
    RUNNING,
    Session,
    named,
    report,
    single,
)


def test_processes_not_heard_from_come_from_the_plan():
    snapshot = Session(report(1)).settled()
    assert [process.state for process in snapshot.processes] == ["starting", "idle"] + [
        "starting"
    ] * 2
    assert snapshot.processes[0].host == "h1"
    assert snapshot.processes[0].silent_seconds is None
    assert snapshot.processes[1].silent_seconds == 2.5
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
    assert snapshot.arrays == (structs.replace(single(1), processes=(1,)),)
    assert snapshot.disagreements == ()


def test_a_lost_process_is_not_asked_for_its_arrays_and_its_devices_stay():
    session = Session(*(report(n, *[named()] * (n != 3)) for n in range(4)))
    snapshot = session.settled(lost={3: "ended by signal 9 (SIGKILL)"})
    assert snapshot.disagreements == ()
    assert snapshot.arrays == (named(),)
    assert len(snapshot.devices) == 8
    assert snapshot.processes[3].state == "lost"
    assert snapshot.processes[3].error == "ended by signal 9 (SIGKILL)"
    assert snapshot.state == "stuck"


def test_when_all_are_lost_the_last_picture_stays():
    session = Session(*(report(n, named()) for n in range(4)))
    assert session.settled(lost=dict.fromkeys(range(4), "gone")).arrays == (named(),)


def test_an_array_whose_mesh_is_not_known_yet_is_counted_not_shown():
    session = Session(report(0, named(), meshes=()))
    snapshot = session.settled()
    assert (snapshot.arrays, snapshot.arrays_omitted) == ((), 1)
    session.take(report(0, named(), sequence=2))
    assert session.settled().arrays == (named(),)


def test_sections_that_are_none_leave_what_is_known():
    session = Session(report(0, named()))
    late = Report(version=VERSION, process_id=0, sequence=2, host="h1", pid=100, activity=RUNNING)
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
    session.take(structs.replace(report(0), pid=999, arrays=None))
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
    text = rf"process 3 \(host h2\).* version 99, .* version {VERSION}"
    with pytest.raises(VersionError, match=text):
        Session(structs.replace(report(3), version=99))


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


def test_processes_with_equal_arrays_are_merged_as_one_group(monkeypatch):
    looked = []
    real = merged._is_own
    monkeypatch.setattr(merged, "_is_own", lambda array: looked.append(array) or real(array))
    shared = [named(f"w{n}") for n in range(20)]
    planned = [ExpectedProcess(process_id=n, host="h", role="worker") for n in range(1000)]
    merger = Merger("s", planned)
    for n in range(1000):
        own = structs.replace(single(0), sharding=SingleDevice(device=f"{n}:0", memory_kind=None))
        one = structs.replace(report(0, meshes=MESHES), process_id=n, arrays=(*shared, own))
        merger.update(one, time_s=NOW)
    snapshot = merger.snapshot(Known(), time_s=NOW + 3)
    assert len(looked) < 100, "groups × arrays, not processes × arrays"
    assert len(snapshot.arrays) == 21
    assert snapshot.arrays[20].sharding.devices == tuple(f"{n}:0" for n in range(1000))
    assert snapshot.disagreements == ()
