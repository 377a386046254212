"""`--framework keras` from nothing to the first collective, against plain processes that do the same.

The collective is Keras' own: under a distribution a new variable is compared between all processes. Rounds
alternate, each in fresh interpreters, as in `tests/bench/start.py`.
"""

from __future__ import annotations

import socket
import statistics
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

from tests.bench.start import ENVIRONMENT

HERE = Path(__file__).parent
WANTED = 1.3

SESSION = """
import time, sys
import nbdist
with nbdist.start(int(sys.argv[1]), devices_per_process=2, platform="cpu", framework="keras") as session:
    session.run('''
import keras
keras.distribution.set_distribution(keras.distribution.DataParallel(auto_shard_dataset=False))
layer = keras.layers.Dense(4)
layer.build((None, 8))
''')
    print(time.time())
"""


def plain_processes(count: int) -> float:
    """Seconds until the last of `count` plain processes has done its first collective."""
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    started = time.time()
    processes = [
        subprocess.Popen(
            [sys.executable, str(HERE / "keras_plain.py"), str(i), str(count), str(port)],
            env=ENVIRONMENT,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        for i in range(count)
    ]
    done = [float(process.communicate()[0].split()[-1]) for process in processes]
    return max(done) - started


def session(count: int) -> float:
    """Seconds until a session's first collective is done, imports included."""
    started = time.time()
    done = subprocess.run(
        [sys.executable, "-c", SESSION, str(count)],
        env=ENVIRONMENT,
        check=True,
        capture_output=True,
        text=True,
    )
    return float(done.stdout.split()[-1]) - started


def main(rounds: int = 3, counts: tuple[int, ...] = (2, 4)) -> None:
    """Prints one line for each number of processes."""
    for count in counts:
        pairs = [(plain_processes(count), session(count)) for _ in range(rounds)]
        plain, ours = (statistics.median(times) for times in zip(*pairs, strict=True))
        spread = ", ".join(f"{b / a:.2f}" for a, b in pairs)
        print(
            f"keras to first collective  N={count}: nbdist {ours:.2f} s, plain processes {plain:.2f} s, "
            f"ratio {ours / plain:.2f} (rounds: {spread}; wanted: {WANTED} at most)"
        )


if __name__ == "__main__":
    main()
