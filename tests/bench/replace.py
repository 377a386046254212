"""How long it takes from the end of a process to the next right collective, against a start of the session."""

from __future__ import annotations

import os
import signal
import statistics
import time
from typing import Any

from tests.bench.figures import Silent
from tests.bench.in_step import COMPUTES, PROCESSES, start

ROUNDS = 5


def replaced(session: Any, process_id: int) -> float:
    """Seconds from SIGKILL of an idle process to the end of a collective in which its successor has its part."""
    pid = session.snapshot().processes[process_id].pid
    began = time.perf_counter()
    os.kill(pid, signal.SIGKILL)
    while not session.out_of_step:
        time.sleep(0.001)
    # The part of the array that only it had is gone with it.
    session.run(
        "w = jax.make_array_from_callback((4096,), sharding, lambda part: np.ones(4096, np.float32)[part])",
        renderer=Silent(),
    )
    session.run(f"found = {COMPUTES}", renderer=Silent())
    took = time.perf_counter() - began
    assert session.pull("found", each=True) == dict.fromkeys(range(PROCESSES), 4096.0)
    return took


def main() -> None:
    """Prints the medians for process 0 and for another, and what a start takes in the same run."""
    starts = []
    found: dict[int, list[float]] = {0: [], 1: []}
    for _ in range(ROUNDS):
        began = time.perf_counter()
        with start(PROCESSES) as session:
            starts.append(time.perf_counter() - began)
            for process_id, times in found.items():
                times.append(replaced(session, process_id))
    whole = statistics.median(starts)
    for process_id, times in found.items():
        took = statistics.median(times)
        print(
            f"replace: process {process_id} of {PROCESSES} killed, to the next right collective: {took:.2f} s, "
            f"{took / whole:.2f} times a start with its first ({whole:.2f} s); wanted 5 s"
        )


if __name__ == "__main__":
    main()
