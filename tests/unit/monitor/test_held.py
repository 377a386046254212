"""What a process held when it last reported."""

from __future__ import annotations

from msgspec import structs

from nbdist.contract.snapshot import VERSION, Report, SingleDevice
from nbdist.monitor.monitor import Holdings, largest
from tests.builders.reports import IDLE, MESHES, named

BY_ID = {mesh.id: mesh for mesh in MESHES}
"""Of 8 devices, 2 of each of 4 processes."""


def report(sequence: int = 1, *, pid: int = 7, **sections: object) -> Report:
    return Report(
        version=VERSION,
        process_id=1,
        sequence=sequence,
        host="h1",
        pid=pid,
        **sections,  # type: ignore[arg-type]
    )


def own(path: str, shape: tuple[int, int], device: str):  # type: ignore[no-untyped-def]
    sharding = SingleDevice(device=device, memory_kind="device")
    return structs.replace(named(path, shape=shape), sharding=sharding)


def test_arrays_are_ordered_by_the_bytes_on_the_devices_of_the_process() -> None:
    arrays = (
        named("divided", shape=(1024, 1024)),
        named("copied", ((), ()), shape=(512, 512)),
        named("halved", ((), ("model",)), shape=(512, 512)),
        own("mine", (512, 384), "1:2048"),
        own("theirs", (4096, 4096), "2:4096"),
        named("unknown", mesh="nowhere", shape=(4096, 4096)),
    )
    found = largest(arrays, BY_ID, process_id=1)
    assert [(one.path, one.nbytes) for one in found] == [
        ("copied", 2 << 20),
        ("divided", 1 << 20),
        ("halved", 1 << 20),
    ]
    assert largest(arrays[3:], BY_ID, process_id=3) == ()


def test_pieces_are_listed_for_few_arrays_alone(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    from nbdist.monitor import monitor as module

    listed: list[str] = []
    real = module.pieces

    def pieces(array, meshes):  # type: ignore[no-untyped-def]
        listed.append(array.path)
        return real(array, meshes)

    monkeypatch.setattr(module, "pieces", pieces)
    arrays = [named(f"w{i}", shape=(512, 8 * i)) for i in range(1, 100)]
    assert [one.path for one in largest(arrays, BY_ID, process_id=0)] == ["w99", "w98", "w97"]
    assert listed == ["w99", "w98", "w97"]


def test_sections_that_have_not_changed_are_kept_and_a_new_process_holds_its_own() -> None:
    holdings = Holdings()
    assert holdings.held(1) is None
    holdings.take(report(meshes=MESHES, arrays=(named("w"),)))
    assert holdings.held(1) is None  # its memory is not known
    holdings.take(report(2, activity=structs.replace(IDLE, rss_bytes=5000)))
    found = holdings.held(1)
    assert found is not None
    assert (found.rss_bytes, [one.path for one in found.arrays]) == (5000, ["w"])
    holdings.take(report(3, pid=8, activity=IDLE))
    found = holdings.held(1)
    assert found is not None and found.arrays == ()
