"""A cell with `--check` against the same cell without, on the same processes."""

from __future__ import annotations

import statistics

import nbdist
from tests.bench.figures import Silent
from tests.bench.noop import timed

PROCESSES = 4
ARRAYS = 200
WANTED_MS = 20.0

SETUP = f"""
import jax, numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((jax.device_count(),), ("data",))
sharding = NamedSharding(mesh, P("data"))
params = {{
    f"layer_{{i}}": jax.make_array_from_callback((8, 8), sharding, lambda part: np.ones((8, 8))[part])
    for i in range({ARRAYS})
}}
key = jax.random.key(0)
step = jax.jit(lambda params, key: params)
"""
CELL = "(step, params, key);"


def measure(*, blocks: int) -> list[float]:
    """By how many milliseconds a cell is longer with the comparison; one figure for each pair of blocks."""
    differences = []
    with nbdist.start(PROCESSES, devices_per_process=2, platform="cpu") as session:
        renderer = Silent()
        session.run(SETUP, renderer=renderer)
        for number in range(blocks + 1):
            took = {}
            # Each kind comes first as often as second: the machine's drift falls on both.
            for check in (bool(number % 2), not number % 2):
                took[check] = timed(
                    lambda check=check: session.run(CELL, check=check, renderer=renderer)  # type: ignore[misc]
                )
            differences.append(took[True] - took[False])
    return differences[1:]  # the first blocks warm up


def main(blocks: int = 10) -> None:
    """Prints one line."""
    found = measure(blocks=blocks)
    print(
        f"cell with --check          N={PROCESSES}, {ARRAYS} global arrays: {statistics.median(found):+.1f} ms "
        f"(blocks {min(found):+.1f} to {max(found):+.1f}; wanted: {WANTED_MS:g} at most)"
    )


if __name__ == "__main__":
    main()
