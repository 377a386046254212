"""How long a plan of 1,000 arrays takes on the largest pods, beside JAX laying the mesh over the pod.

python -m tests.bench.plan
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import jax
from jax.sharding import PartitionSpec as P

import nbdist
from nbdist.engine.frameworks.jax.inspection import mesh_over
from nbdist.rehearsal.topology import read_topology
from nbdist.rehearsal.torus import stand_ins
from tests.bench.figures import seconds

ARRAYS = 1000
ROUNDS = 15
PODS = (
    ("v5p:16x20x28", {"data": 560, "model": 16}),
    ("v5p-8960", {"data": 280, "model": 16}),
    ("v5e-256", {"data": 16, "model": 16}),
)


def tree() -> dict[str, Any]:
    """Arrays of all sizes, as a model has them."""
    return {
        f"layer{n}": jax.ShapeDtypeStruct((1024 + 16 * (n % 50), 4096), jax.numpy.bfloat16)
        for n in range(ARRAYS)
    }


def median(work: Callable[[], object]) -> float:
    """The seconds of several rounds."""
    return statistics.median(seconds(work) for _ in range(ROUNDS))


def main() -> None:
    """Prints one line a pod."""
    shapes = tree()
    for topology, axes in PODS:
        devices = stand_ins(read_topology(topology))
        sizes = list(axes.values())

        def lay(sizes: list[int] = sizes, devices: list[Any] = devices) -> object:
            return mesh_over(sizes, devices)

        def plan(topology: str = topology, axes: dict[str, int] = axes) -> str:
            return nbdist.plan(shapes, P(None, "model"), topology=topology, mesh=axes).text()

        took, floor = median(plan), median(lay)
        print(
            f"plan of {ARRAYS} arrays on {topology}: {took:.3f} s; JAX lays that mesh in {floor:.3f} s "
            f"({took / floor:.1f} times)",
            flush=True,
        )


if __name__ == "__main__":
    main()
