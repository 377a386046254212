"""`--framework keras` from nothing to the first collective, against plain processes that do the same.

The collective is Keras' own: under a distribution a new variable is compared between all processes. Rounds
alternate, each in fresh interpreters, as in `tests/bench/start.py`.
"""

from __future__ import annotations

import statistics

from tests.bench.start import plain_processes, session

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


def main(rounds: int = 3, counts: tuple[int, ...] = (2, 4)) -> None:
    """Prints one line for each number of processes."""
    for count in counts:
        pairs = [
            (plain_processes(count, "keras_plain.py"), session(count, SESSION))
            for _ in range(rounds)
        ]
        plain, ours = (statistics.median(times) for times in zip(*pairs, strict=True))
        spread = ", ".join(f"{b / a:.2f}" for a, b in pairs)
        print(
            f"keras to first collective  N={count}: nbdist {ours:.2f} s, plain processes {plain:.2f} s, "
            f"ratio {ours / plain:.2f} (rounds: {spread}; wanted: {WANTED} at most)"
        )


if __name__ == "__main__":
    main()
