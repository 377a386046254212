"""Reports of a made-up session of four processes with two devices each."""

from __future__ import annotations

from msgspec import structs

from nbdist.contract.snapshot import (
    VERSION,
    Activity,
    Array,
    Axis,
    Device,
    Mesh,
    NamedSharding,
    Report,
    SingleDevice,
)
from nbdist.monitor import Merger
from nbdist.monitor.states import ExpectedProcess, Known

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
RUNNING = structs.replace(
    IDLE,
    state="running",
    cell=12,
    line=4,
    source="loss = step(x)",
    cell_seconds=3.2,
    line_seconds=3.0,
    waiting=True,
)


def running(**changes):
    """A process in the middle of a cell."""
    return structs.replace(RUNNING, **changes)


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
        version=VERSION,
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
            ExpectedProcess(process_id=n, host=f"h{n // 2 + 1}", role="worker")
            for n in range(count)
        ]
        self.merger = Merger("s", planned)
        self.take(*reports)

    def take(self, *reports, at=NOW):
        for one in reports:
            self.merger.update(one, time_s=at)

    def settled(self, **known):
        self.merger.snapshot(Known(**known), time_s=NOW)
        return self.merger.snapshot(Known(**known), time_s=NOW + 2.5)
