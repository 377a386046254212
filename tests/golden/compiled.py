"""Programs as the view shows them: what XLA for TPUs has made of `programs.py`, on the devices of a v5e:2x4.

With whom a device exchanges data is worked out from the axes that theory names, on a numpy grid, and never from
the groups in XLA's text.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nbdist.contract.program import MeshAxes, Program, ProgramMemory
from nbdist.program.compiled import read_program, refused
from nbdist.rehearsal.topology import read_topology
from nbdist.rehearsal.torus import devices_of, torus_of
from nbdist.view.program import compiled_snapshot

TEXTS = Path(__file__).parent / "programs_tpu"
TOPOLOGY = read_topology("v5e:2x4")
GB = 1 << 30
PARTS = ("argument", "output", "temp", "alias", "generated_code")
OUT_OF_MEMORY = (
    "RESOURCE_EXHAUSTED: Ran out of memory on HBM, the total memory required for HLO temporaries (64.05G) exceeds "
    "available HBM (15.75G)"
)


def program(name: str, limit: int, **axes: int) -> Program:
    """What XLA has made of a program, its memory against a limit in bytes."""
    recorded = json.loads((TEXTS / "recorded.json").read_text())["programs"][name]
    sizes = [recorded["memory"][part] for part in PARTS]
    arguments, outputs, temporaries, aliased, code = sizes
    return read_program(
        gzip.decompress((TEXTS / f"{name}.hlo.gz").read_bytes()).decode(),
        memory=ProgramMemory(
            arguments=arguments,
            outputs=outputs,
            temporaries=temporaries,
            aliased=aliased,
            code=code,
            limit=limit,
        ),
        meshes=[MeshAxes(names=tuple(axes), shape=tuple(axes.values()), devices=tuple(range(8)))],
    )


def case(
    found: Program, partners: Callable[[int, str], Sequence[int]] | None = None, **axes: int
) -> dict[str, Any]:
    devices = devices_of(TOPOLOGY)
    keys = {device.id: device.key for device in devices}

    def along(place: int, names: str) -> Sequence[int]:
        """All places that differ from one only along some axes."""
        grid = np.arange(8).reshape(tuple(axes.values()))
        at = np.unravel_index(place, grid.shape)
        line = tuple(
            slice(None) if name in names.split(", ") else at[number]
            for number, name in enumerate(axes)
        )
        return [int(other) for other in np.ravel(grid[line]) if other != place]

    snapshot = compiled_snapshot(found, devices, torus=torus_of(TOPOLOGY, devices))
    assert snapshot.program is not None
    exchanges = [
        {keys[n]: [keys[o] for o in sorted((partners or along)(n, each.along))] for n in range(8)}
        for each in snapshot.program.collectives
    ]
    return {"snapshot": snapshot, "expected": [], "exchanges": exchanges}


def compiled_step() -> dict[str, Any]:
    """A step in parts over two axes, which fits."""
    axes = {"data": 2, "model": 4}
    return case(program("tensor_parallel_step", 16 * GB, **axes), **axes)


def compiled_ring() -> dict[str, Any]:
    """Each device sends to the next around a ring; it needs more than there is."""
    found = program("ring", 60_000, seq=8)
    return case(found, lambda n, _: [(n + 1) % 8, (n - 1) % 8], seq=8)


def compiled_parts() -> dict[str, Any]:
    """Groups that are no axes of the mesh."""
    groups = ([0, 1, 2, 5], [3, 4, 6, 7])
    found = program("halves", 16 * GB, data=8)
    return case(found, lambda n, _: [o for g in groups if n in g for o in g if o != n], data=8)


def compiled_moved() -> dict[str, Any]:
    """Collectives along both axes, some of which nobody has written."""
    axes = {"data": 4, "model": 2}
    return case(program("overlapped", 16 * GB, **axes), **axes)


def compiled_refused() -> dict[str, Any]:
    """One that the compiler has refused."""
    found = refused(OUT_OF_MEMORY, "jit_step")
    assert found is not None
    return case(found)
