"""From nothing to the first collective, against plain Python processes that do the same.

Each measurement starts a fresh interpreter, as a person's first `%dist_init` in a fresh kernel imports all it
needs; rounds of both kinds alternate, since absolute times drift on a shared machine.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from nbdist.machine.ports import free_ports
from tests.bench.figures import ratio

HERE = Path(__file__).parent
ENVIRONMENT = {**os.environ, "JAX_PLATFORMS": "cpu"}

COLLECTIVE = """
import jax, numpy as np
from jax.sharding import NamedSharding, PartitionSpec
n = jax.device_count()
mesh = jax.make_mesh((n,), ("data",), axis_types=(jax.sharding.AxisType.Auto,))
ones = jax.make_array_from_callback((n,), NamedSharding(mesh, PartitionSpec("data")), lambda i: np.ones(1))
total = jax.jit(lambda x: x.sum(), out_shardings=NamedSharding(mesh, PartitionSpec()))(ones)
assert float(total) == n
"""
SESSION = f"""
import time, sys
import nbdist
with nbdist.start(int(sys.argv[1]), devices_per_process=2, platform="cpu") as session:
    session.run({COLLECTIVE!r})
    print(time.time())
"""
STOPS = "    began = time.time()\nprint(time.time() - began)\n"


def plain_processes(count: int, script: str = "plain.py", **environment: str) -> float:
    """Seconds until the last of `count` plain processes has done its first collective."""
    (port,) = free_ports(1)
    started = time.time()
    processes = [
        subprocess.Popen(
            [sys.executable, str(HERE / script), str(i), str(count), str(port)],
            env={**ENVIRONMENT, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        for i in range(count)
    ]
    done = [float(process.communicate()[0].split()[-1]) for process in processes]
    return max(done) - started


def session(count: int, code: str = SESSION, **environment: str) -> float:
    """Seconds until a session's first collective is done, imports included."""
    started = time.time()
    return _last_number(code, count, **environment) - started


def stop(count: int) -> float:
    """Seconds that the end of a session takes, until none of its processes is left."""
    return _last_number(SESSION + STOPS, count)


def _last_number(code: str, count: int, **environment: str) -> float:
    done = subprocess.run(
        [sys.executable, "-c", code, str(count)],
        env={**ENVIRONMENT, **environment},
        check=True,
        capture_output=True,
        text=True,
    )
    return float(done.stdout.split()[-1])


def measure(count: int, *, rounds: int) -> dict[str, list[float]]:
    """Alternating rounds of both, in seconds."""
    times: dict[str, list[float]] = {"plain": [], "nbdist": []}
    for _ in range(rounds):
        times["plain"].append(plain_processes(count))
        times["nbdist"].append(session(count))
    return times


def main(rounds: int = 5) -> None:
    """Prints a line for the start and one for the stop, for N=2 and for N=4."""
    for count in (2, 4):
        times = measure(count, rounds=rounds)
        what, wanted = f"start to first collective  N={count}", "2 at most, at N=4"
        ratio(what, times["nbdist"], times["plain"], of="plain processes", wanted=wanted)
        stops = [stop(count) for _ in range(rounds)]
        print(
            f"stop  N={count}: {statistics.median(stops):.2f} s (slowest {max(stops):.2f} s; wanted: 1 s at most)"
        )


if __name__ == "__main__":
    main()
