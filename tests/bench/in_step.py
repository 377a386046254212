"""What staying in step costs, and how long it takes to get there again."""

from __future__ import annotations

import contextlib
import statistics
from typing import Any

import nbdist
from nbdist.contract.calls.stepping import AskSent
from nbdist.engine.frameworks.jax.step import SWITCH
from nbdist.errors import ProcessError
from nbdist.session.asking import ask_all
from nbdist.session.recovery.in_place import prove_now
from tests.bench.figures import Silent, seconds
from tests.bench.noop import BLOCK

PROCESSES = 4
GRACE_SECONDS = 0.5
OBJECTS = 1_000_000

SETUP = """
import jax, numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((jax.device_count(),), ("data",), axis_types=(AxisType.Auto,))
sharding = NamedSharding(mesh, P("data"))
w = jax.make_array_from_callback((4096,), sharding, lambda part: np.ones(4096, np.float32)[part])
total = jax.jit(lambda v: v.sum())
me = jax.process_index()
float(total(w))
"""
COMPUTES = "float(total(w));"
PROVES = """
import time
from nbdist.engine.frameworks.jax.step.dispatched import ProgramCount
from nbdist.engine.frameworks.jax.step import Proof

proof, took = Proof(lambda thread, ignored: None), []
for number in range(rounds + 1):
    began = time.perf_counter()
    trial = proof.begin(number, ProgramCount(), counted=True)
    trial.done.wait()
    assert trial.in_step
    took.append(1e3 * (time.perf_counter() - began))
del took[0]
"""
FAILS = {
    "synchronous": "if me == 1: raise ValueError('bench')\nfloat(total(w))",
    "asynchronous": "if me == 1: raise ValueError('bench')\nq = total(w)",
}


def start(count: int, **options: Any) -> Any:
    """A session with one global array."""
    session = nbdist.start(count, devices_per_process=2, platform="cpu", **options)
    session.run(SETUP, renderer=Silent())
    return session


def calm_cells(*, blocks: int) -> dict[str, list[float]]:
    """By how many milliseconds a cell is longer than with all of it switched off: medians of blocks of pairs."""
    found: dict[str, list[float]] = {"pass": [], COMPUTES: []}
    renderer = Silent()
    with start(PROCESSES) as on, start(PROCESSES, environment={SWITCH: "0"}) as off:
        for _ in range(blocks + 1):
            for code, differences in found.items():
                more = []
                for turn in range(BLOCK):
                    took = {}
                    # Each comes first as often as second: the machine's drift falls on both.
                    for session in (on, off) if turn % 2 else (off, on):
                        took[session] = seconds(
                            lambda session=session, code=code: session.run(code, renderer=renderer)  # type: ignore[misc]
                        )
                    more.append(1e3 * (took[on] - took[off]))
                differences.append(statistics.median(more))
    return {code: differences[1:] for code, differences in found.items()}


def proofs(*, count: int) -> dict[str, list[float]]:
    """Milliseconds that a proof takes: as each process does at the end of a cell, all at once, and as asked for.

    The latter has a floor: any question to all processes, from the first to the last answer.
    """
    with start(PROCESSES) as session:
        session.run(f"rounds = {count}\n{PROVES}", renderer=Silent())
        engines = session._life.engines
        asks = {
            "asked": lambda: ask_all(engines, AskSent(), within_s=60),
            "proven": lambda: prove_now(engines),
        }
        found: dict[str, list[float]] = {name: [] for name in asks}
        for _ in range(count + 1):
            for name, ask in asks.items():
                found[name].append(1e3 * seconds(ask))
        found = {name: times[1:] for name, times in found.items()}
        found["at the end"] = [
            ms for process_id in session.hosts for ms in session.pull("took", on=str(process_id))
        ]
        return found


def recoveries(kind: str, *, processes: int, count: int) -> list[float]:
    """Seconds from a failure to the end of the next collective, without the grace period."""

    def fail_and_go_on(session: Any) -> None:
        with contextlib.suppress(ProcessError):
            session.run(FAILS[kind], renderer=renderer)
        session.run(COMPUTES, renderer=renderer)

    renderer = Silent()
    with start(processes, grace_s=GRACE_SECONDS) as session:
        grace = GRACE_SECONDS if kind == "synchronous" else 0.0
        return [seconds(lambda: fail_and_go_on(session)) - grace for _ in range(count)]


def with_a_heap(*, count: int) -> list[float]:
    """Seconds of a repair while every process holds a million objects of the user's."""
    found = []
    with start(2, grace_s=GRACE_SECONDS) as session:
        session.run(f"heap = [{{'number': i}} for i in range({OBJECTS})]", renderer=Silent())
        for _ in range(count):
            with contextlib.suppress(ProcessError):
                session.run(FAILS["asynchronous"], renderer=Silent())
            found.append(
                float(session._life.engines.facts.repaired.split("after ")[1].split(" s")[0])
            )
    return found


def line(name: str, values: list[float], unit: str, wanted: str) -> str:
    """The median, and how far the rounds lie apart."""
    median = statistics.median(values)
    rounds = f"rounds {min(values):.2f} to {max(values):.2f}"
    return f"{name:<45} {median:.2f} {unit} ({rounds}; wanted: {wanted} at most)"


def main(blocks: int = 10, count: int = 5) -> None:
    """Prints a line for each."""
    costs = calm_cells(blocks=blocks)
    print(line("in step, a cell that computes nothing N=4", costs["pass"], "ms more", "1 ms"))
    print(line("in step, a cell with one collective N=4", costs[COMPUTES], "ms more", "6 ms"))
    proven = proofs(count=30)
    print(line("proof at the end of a cell N=4", proven["at the end"], "ms", "10 ms"))
    floor = statistics.median(proven["asked"])
    print(
        f"{'proof that is asked for N=4':<45} {statistics.median(proven['proven']):.2f} ms "
        f"(any question to all: {floor:.2f} ms)"
    )
    # With four each has half of a core on a machine of two; with two, one.
    for processes in (PROCESSES, 2):
        for kind in FAILS:
            name = f"failure to next collective, {kind} N={processes}"
            print(line(name, recoveries(kind, processes=processes, count=count), "s", "2 s"))
    name = f"repair with {OBJECTS:,} objects a process N=2"
    print(line(name, with_a_heap(count=3), "s", "3 s"))


if __name__ == "__main__":
    main()
