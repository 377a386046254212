"""`--framework keras` from nothing to the first collective, against plain processes that do the same.

The collective is Keras' own: under a distribution a new variable is compared between all processes. Rounds
alternate, each in fresh interpreters, as in `tests/bench/start.py`.
"""

from __future__ import annotations

import tempfile

from tests.bench.figures import ratio
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
    """Prints one line for each number of processes, and one for a first start, for which nothing is compiled."""
    for count in counts:
        pairs = [
            (plain_processes(count, "keras_plain.py"), session(count, SESSION))
            for _ in range(rounds)
        ]
        report(f"keras to first collective  N={count}", pairs)
    report(f"the same, nothing compiled N={count}", [first_start(count) for _ in range(rounds)])


def first_start(count: int) -> tuple[float, float]:
    """Seconds of both where Python finds none of its compiled files, as after an installation."""
    with tempfile.TemporaryDirectory() as none, tempfile.TemporaryDirectory() as none_either:
        plain = plain_processes(count, "keras_plain.py", PYTHONPYCACHEPREFIX=none)
        return plain, session(count, SESSION, PYTHONPYCACHEPREFIX=none_either)


def report(what: str, pairs: list[tuple[float, float]]) -> None:
    """Prints a line of the medians of plain processes and nbdist, in seconds."""
    plain, ours = zip(*pairs, strict=True)
    ratio(what, ours, plain, of="plain processes", wanted=f"{WANTED} at most")


if __name__ == "__main__":
    main()
