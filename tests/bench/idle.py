"""Processor time and wake-ups of all processes of a session in which nothing happens."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil

import nbdist
from nbdist.agent.programs import REGISTERING_SECONDS

MEASURED_SECONDS = 30.0

GLOO = 50.0
"""Wake-ups a second above which a thread is gloo's: in each process with a mesh, it looks at its connections every
10 ms (`epoll_wait` in its `Loop::run`). Nothing of nbdist's wakes that often."""


def switches(process: psutil.Process) -> Iterator[tuple[tuple[int, int], int]]:
    """The wake-ups so far of each thread, by process and thread."""
    for thread in Path(f"/proc/{process.pid}/task").iterdir():
        with suppress(FileNotFoundError):  # it has just ended
            lines = (thread / "status").read_text().splitlines()
            count = next(line for line in lines if line.startswith("voluntary_ctxt_switches"))
            yield (process.pid, int(thread.name)), int(count.split()[1])


def used(processes: list[psutil.Process]) -> float:
    """Their processor time in seconds, so far."""
    times = [one.cpu_times() for one in processes]
    return sum(one.user + one.system for one in times)


def measure(count: int) -> tuple[int, float, float, float]:
    """How many processes there are, their share of a core, and wake-ups a second: all others, and gloo's."""
    before = {one.pid for one in psutil.process_iter()}
    me = psutil.Process()
    with nbdist.start(count, platform="cpu") as session:
        session.run("import jax, jax.numpy as jnp\nx = jnp.ones(3)")
        time.sleep(REGISTERING_SECONDS + 5)
        new = [one for one in psutil.process_iter(["cmdline"]) if one.pid not in before]
        processes = [me, *(one for one in new if "nbdist.agent" in (one.info["cmdline"] or ()))]
        woken, spent, began = (
            dict(pair for one in processes for pair in switches(one)),
            used(processes),
            time.monotonic(),
        )
        time.sleep(MEASURED_SECONDS)
        seconds = time.monotonic() - began
        share = (used(processes) - spent) / seconds
        now = dict(pair for one in processes for pair in switches(one))
        rates = [(now[key] - woken.get(key, 0)) / seconds for key in now]
    ours = sum(rate for rate in rates if rate < GLOO)
    return len(processes), share, ours, sum(rates) - ours


def main() -> None:
    """Prints one line for N=2 and one for N=4."""
    for count in (2, 4):
        processes, share, ours, gloo = measure(count)
        print(
            f"idle session N={count}: {processes} processes with the kernel's use {100 * share:.1f} % of a core; "
            f"{ours:.0f} wake-ups a second, and {gloo:.0f} of gloo's"
        )


if __name__ == "__main__":
    main()
