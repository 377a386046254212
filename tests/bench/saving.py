"""What saving and restoring 1 GB by shard takes, against `cp` of the same bytes."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

import nbdist
from tests.bench.figures import Silent, seconds

PROCESSES = 4
ARRAYS = 16  # of 64 MB each, divided over the processes

SETUP = f"""
import jax, numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P
mesh = jax.make_mesh((jax.process_count(),), ("data",))
there = NamedSharding(mesh, P("data"))
whole = np.random.default_rng(0).random((4096, 4096), np.float32)
weights = [jax.device_put(whole, there) for _ in range({ARRAYS})]
"""


def main() -> None:
    """Prints both times and their ratios; random numbers, so that nothing can be compressed."""
    folder = Path(tempfile.mkdtemp(prefix="nbdist-bench-"))
    try:
        with nbdist.start(processes=PROCESSES, devices_per_process=1, platform="cpu") as session:
            session.run(SETUP, renderer=Silent())
            session.save(folder / "first", ["weights"])  # imports Orbax
            saved = seconds(lambda: session.save(folder / "it", ["weights"]))
            restored = seconds(lambda: session.restore(folder / "it"))
        size = sum(one.stat().st_size for one in (folder / "it").rglob("*") if one.is_file())
        shutil.rmtree(folder / "first")
        floor = min(
            seconds(
                lambda to=to: subprocess.run(["cp", "-r", folder / "it", folder / to], check=True)
            )
            for to in ("copy", "again")
        )
        print(
            f"save: {size / 1e9:.2f} GB of {PROCESSES} processes: {saved:.1f} s, {saved / floor:.1f} "
            f"times cp of the same files ({floor:.1f} s); restore {restored:.1f} s, "
            f"{restored / floor:.1f} times"
        )
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
