"""What copies cost: one round after a cell that has changed all weights, against 30 seconds of training."""

from __future__ import annotations

import statistics

import nbdist
from tests.bench.figures import Silent

PROCESSES = 4
ROUNDS = 5
EVERY_SECONDS = 30
WEIGHTS = 16  # of 4 MB each, divided over the processes

SETUP = f"""
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P
mesh = jax.make_mesh((jax.process_count(),), ("data",))
there = NamedSharding(mesh, P("data"))
made = lambda: jax.make_array_from_callback(
    (1024, 1024), there, lambda part: np.ones((1024, 1024), np.float32)[part])
weights = [made() for _ in range({WEIGHTS})]
step = jax.jit(lambda weights: [w * 1.5 for w in weights])
"""


def main() -> None:
    """Prints the median of a round, its share of 30 seconds, and how long NumPy takes to copy the same bytes."""
    with nbdist.start(
        processes=PROCESSES, devices_per_process=1, platform="cpu", copies_s=0
    ) as session:
        session.run(SETUP, renderer=Silent())
        rounds = []
        for _ in range(ROUNDS):
            session.run("weights = step(weights)", renderer=Silent())
            kept = session._life.engines.copies.kept
            assert kept is not None and kept.copied.sent == WEIGHTS << 22
            rounds.append(kept.seconds)
        session.run(
            "import time\nparts = [np.asarray(w.addressable_data(0)) for w in weights]\n"
            "began = time.perf_counter()\n"
            "copies = [[part.copy() for part in parts] for _ in range(2)]\n"
            "took = time.perf_counter() - began",
            renderer=Silent(),
        )
        floor = max(session.pull("took", each=True).values())
    took = statistics.median(rounds)
    print(
        f"copies: {WEIGHTS << 2} MB of weights on {PROCESSES} processes: {took:.2f} s a round, "
        f"{took / EVERY_SECONDS:.1%} of {EVERY_SECONDS} s (wanted 5 %), {took / floor:.0f} times "
        f"NumPy's two copies of the same bytes ({floor:.3f} s)"
    )


if __name__ == "__main__":
    main()
