"""A made-up pod of any size, for measuring: `python tests/golden/large.py 64 4 2000 > big.json`.

Prints the encoded snapshot alone; needs no JAX.
"""

from __future__ import annotations

import json
import math
import sys

from nbdist.contract.program import Collective, Grouping, MeshAxes, Program, ProgramMemory
from nbdist.contract.snapshot import (
    Array,
    Axis,
    Device,
    Memory,
    Mesh,
    NamedSharding,
    PerProcess,
    Process,
    SingleDevice,
    Snapshot,
)
from nbdist.contract.wire import encode
from nbdist.rehearsal.topology import read_topology
from nbdist.rehearsal.torus import devices_of, torus_of
from nbdist.view.program import compiled_snapshot

GB = 1 << 30
LAYER = (
    ("attention.query.kernel", (4096, 4096), ("data", "model")),
    ("attention.key.kernel", (4096, 4096), ("data", "model")),
    ("attention.value.kernel", (4096, 4096), ("data", "model")),
    ("attention.output.kernel", (4096, 4096), ("model", "data")),
    ("attention.norm.scale", (4096,), ("",)),
    ("mlp.up.kernel", (4096, 16384), ("data", "model")),
    ("mlp.up.bias", (16384,), ("model",)),
    ("mlp.down.kernel", (16384, 4096), ("model", "data")),
    ("mlp.down.bias", (4096,), ("",)),
    ("mlp.norm.scale", (4096,), ("",)),
)
"""Of each layer: path, shape as a multiple of the axis it lies on, axis of each dimension."""
TREES = ("params", "opt_state[0].mu", "opt_state[0].nu")


def large(hosts: int, devices_per_host: int, arrays: int) -> Snapshot:
    """A running session, one process a host, mesh data=hosts × model=devices_per_host.

    A thirteenth of the arrays is no plain mesh + spec: some lie on one device, some are each
    process's own, some hold partial sums.
    """
    keys = tuple(
        f"{host}:{host * devices_per_host + local}"
        for host in range(hosts)
        for local in range(devices_per_host)
    )
    meshes = _meshes(hosts, devices_per_host, keys)
    return Snapshot(
        session="large",
        sequence=1,
        time=1_760_000_000.0,
        state="running",
        processes=tuple(_process(host, meshes[0].id) for host in range(hosts)),
        devices=tuple(
            _device(key, host, local, devices_per_host)
            for host in range(hosts)
            for local, key in enumerate(
                keys[host * devices_per_host : (host + 1) * devices_per_host]
            )
        ),
        meshes=meshes,
        arrays=tuple(_array(number, meshes[0], devices_per_host) for number in range(arrays)),
    )


def large_program() -> Snapshot:
    """A made-up program on the largest pod of v5p, with 200 collectives along two axes."""
    topology = read_topology("v5p:16x20x28")
    devices = devices_of(topology)
    rows, columns = len(devices) // 16, 16
    across = tuple(tuple(range(row * columns, (row + 1) * columns)) for row in range(rows))
    down = tuple(tuple(range(column, rows * columns, columns)) for column in range(columns))
    collectives = tuple(
        Collective(
            kind="all-reduce",
            axes=("model",) if number % 2 == 0 else ("data",),
            devices="",
            group_size=columns if number % 2 == 0 else rows,
            bytes=(number + 1) << 10,
            arrays=("f32[1024]",),
            times=6,
            in_branch=False,
            direction="forward",
            inserted=False,
            fused="",
            file="train.py",
            line=number // 2 + 1,
            function="step",
            operation="",
            name=f"all-reduce.{number}",
            grouping=number % 2,
        )
        for number in range(200)
    )
    program = Program(
        name="jit_step",
        fits=True,
        memory=ProgramMemory(
            arguments=40 * GB,
            outputs=40 * GB,
            temporaries=30 * GB,
            aliased=40 * GB,
            code=GB,
            limit=95 * GB,
        ),
        collectives=collectives,
        mesh=MeshAxes(
            names=("data", "model"),
            shape=(rows, columns),
            devices=tuple(device.id for device in devices),
        ),
        groupings=(Grouping(groups=across, pairs=False), Grouping(groups=down, pairs=False)),
    )
    return compiled_snapshot(program, devices, torus=torus_of(topology, devices))


def _meshes(hosts: int, devices_per_host: int, keys: tuple[str, ...]) -> tuple[Mesh, ...]:
    data = Axis(name="data", size=hosts, type="auto")
    model = Axis(name="model", size=devices_per_host, type="auto")
    flat = Axis(name="all", size=len(keys), type="auto")
    return (
        Mesh(id="grid", axes=(data, model), devices=keys),
        Mesh(id="flat", axes=(flat,), devices=keys),
    )


def _process(host: int, mesh: str) -> Process:
    return Process(
        process_id=host,
        host=f"pod-{host:04d}",
        pid=1000 + host,
        role="worker",
        state="running",
        cell=31,
        line=7,
        source="params, opt_state, loss = step(params, opt_state, batch)",
        cell_seconds=128.4,
        line_seconds=0.2 + host % 7 / 100,
        waiting=host % 3 == 0,
        rss_bytes=12 * GB + host * 4096,
        context_mesh=mesh,
        error=None,
        silent_seconds=host % 10 / 100,
    )


def _device(key: str, host: int, local: int, devices_per_host: int) -> Device:
    number = host * devices_per_host + local
    used = 9 * GB + (number * 7919) % (4 * GB)
    return Device(
        key=key,
        process_id=host,
        id=number,
        platform="tpu",
        kind="TPU v5p",
        coords=(number % 16, number // 16 % 16, number // 256),
        memory=Memory(bytes_in_use=used, peak_bytes_in_use=used + GB, bytes_limit=95 * GB),
        live_bytes=used - GB // 2,
    )


def _array(number: int, mesh: Mesh, devices_per_host: int) -> Array:
    tree = TREES[number % 3]
    name, base, axes = LAYER[number // 3 % len(LAYER)]
    layer = number // 3 // len(LAYER)
    sizes = {axis.name: axis.size for axis in mesh.axes} | {"": 1}
    # A multiple of the axis, so that every dimension divides at any number of hosts.
    shape = tuple(
        math.ceil(size / sizes[axis]) * sizes[axis] for size, axis in zip(base, axes, strict=True)
    )
    named = NamedSharding(
        mesh=mesh.id,
        spec=tuple((axis,) if axis else () for axis in axes),
        unreduced=() if "data" in axes or number % 39 else ("data",),
        memory_kind="device",
    )
    sharding: NamedSharding | SingleDevice | PerProcess = named
    if number % 39 == 13:
        sharding = SingleDevice(device=mesh.devices[0], memory_kind="device")
    elif number % 39 == 26:
        sharding = PerProcess(devices=mesh.devices[::devices_per_host], memory_kind="device")
    return Array(
        path=f"{tree}['layers'][{layer}].{name}",
        shape=shape,
        dtype="float32",
        nbytes=4 * math.prod(shape),
        sharding=sharding,
        processes=(0,) if sharding.kind == "single" else (),
    )


if __name__ == "__main__":
    print(json.dumps(encode(large(*map(int, sys.argv[1:4])))))
