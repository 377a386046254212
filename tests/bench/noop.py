"""A cell that does nothing, against ipyparallel's own `execute` on the same engines."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import nbdist

BLOCK = 20


class Silent:
    """A renderer that draws nothing: both sides are compared without a screen."""

    def refresh(self, output: Any, *, final: bool = False) -> None:
        """Draws nothing."""


def timed(action: Callable[[], object]) -> float:
    """Median milliseconds of one block of calls."""
    times = []
    for _ in range(BLOCK):
        started = time.perf_counter()
        action()
        times.append(1e3 * (time.perf_counter() - started))
    return statistics.median(times)


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
        theirs, ours = (statistics.median(times[name]) for name in ("ipyparallel", "nbdist"))
        ratios = [a / b for a, b in zip(times["nbdist"], times["ipyparallel"], strict=True)]
        print(
            f"no-op cell                 N={count}: nbdist {ours:.1f} ms, ipyparallel {theirs:.1f} ms, "
            f"ratio {ours / theirs:.2f} (blocks {min(ratios):.2f} to {max(ratios):.2f}; wanted: 1.2 at most)"
        )


if __name__ == "__main__":
    main()
