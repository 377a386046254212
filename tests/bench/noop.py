"""A cell that does nothing, against ipyparallel's own `execute` on the same engines."""

from __future__ import annotations

import statistics
from collections.abc import Callable

import nbdist
from tests.bench.figures import Silent, ratio, seconds

BLOCK = 20


def timed(action: Callable[[], object]) -> float:
    """Median milliseconds of one block of calls."""
    return 1e3 * statistics.median(seconds(action) for _ in range(BLOCK))


def measure(count: int, *, blocks: int) -> dict[str, list[float]]:
    """Alternating blocks of both, in milliseconds a cell."""
    found: dict[str, list[float]] = {"ipyparallel": [], "nbdist": []}
    with nbdist.start(count, platform="cpu") as session:
        view = session.client[:]
        renderer = Silent()
        for _ in range(blocks + 1):
            theirs = timed(lambda: view.execute("pass", silent=False, block=True))
            ours = timed(lambda: session.run("pass", renderer=renderer))
            found["ipyparallel"].append(theirs)
            found["nbdist"].append(ours)
    return {name: times[1:] for name, times in found.items()}  # the first block warms up


def main(blocks: int = 10) -> None:
    """Prints one line for N=2 and one for N=4."""
    for count in (2, 4):
        times = measure(count, blocks=blocks)
        ours, theirs = times["nbdist"], times["ipyparallel"]
        what = f"no-op cell                 N={count}"
        ratio(what, ours, theirs, of="ipyparallel", wanted="1.2 at most", unit="ms")


if __name__ == "__main__":
    main()
