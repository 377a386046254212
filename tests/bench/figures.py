"""How benchmarks measure and print: a duration, and two of them held against each other."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any


class Silent:
    """A renderer that draws nothing: both sides are compared without a screen."""

    def refresh(self, output: Any, *, final: bool = False) -> None:
        """Draws nothing."""


def seconds(action: Callable[[], object]) -> float:
    """How long it takes."""
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def ratio(
    what: str,
    ours: Sequence[float],
    floor: Sequence[float],
    *,
    of: str,
    wanted: str,
    unit: str = "s",
) -> None:
    """Prints the medians of nbdist and of what it is held against, and the ratio of each round."""
    mine, base = statistics.median(ours), statistics.median(floor)
    rounds = ", ".join(f"{a / b:.2f}" for a, b in zip(ours, floor, strict=True))
    print(
        f"{what}: nbdist {mine:.2f} {unit}, {of} {base:.2f} {unit}, ratio {mine / base:.2f} "
        f"(rounds: {rounds}; wanted: {wanted})"
    )
