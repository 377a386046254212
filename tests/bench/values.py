"""A large array pushed to the processes and pulled from them, against a plain socket on the same machine."""

from __future__ import annotations

import argparse
import re
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import nbdist
from tests.bench.figures import Silent

PROCESSES = 4
WANTED_PUSH, WANTED_PULL, WANTED_PEAK = 2.0, 1.6, 1.2

RECEIVER = """
import socket, sys
import numpy as np

with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as here:
    while size := int.from_bytes(here.recv(8), "big"):
        whole = memoryview(np.empty(size, np.uint8))
        filled = 0
        while filled < size:
            filled += here.recv_into(whole[filled:])
        here.sendall(b"!")
"""

PEAK = """
import pathlib, re
pathlib.Path("/proc/self/clear_refs").write_text("5")
def megabytes(name):
    status = pathlib.Path("/proc/self/status").read_text()
    return int(re.search(name + r":\\s+(\\d+)", status)[1]) / 1024
before = megabytes("VmRSS")
"""

READ = """
import time
def seconds():
    began = time.perf_counter()
    x.sum()
    return time.perf_counter() - began
grown = megabytes("VmHWM") - before
first, second = seconds(), seconds()
"""


def over_a_socket(array: np.ndarray, rounds: int) -> list[float]:
    """Seconds to send the array's bytes to another process, until it says it has them all."""
    found = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        with subprocess.Popen([sys.executable, "-c", RECEIVER, port]) as receiver:
            connection, _ = server.accept()
            with connection:
                for _ in range(rounds):
                    began = time.perf_counter()
                    connection.sendall(array.nbytes.to_bytes(8, "big"))
                    connection.sendall(memoryview(array).cast("B"))
                    assert connection.recv(1) == b"!"
                    found.append(time.perf_counter() - began)
                connection.sendall(bytes(8))
            receiver.wait()
    return found


def status_mb(name: str) -> float:
    """A line of what Linux says of the memory of this process, in MB."""
    found = re.search(name + r":\s+(\d+)", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) / 1024


def measured(call: Callable[[], object], megabytes: float) -> tuple[float, float]:
    """Seconds, and by how much this process grew at most, in sizes of the array."""
    Path("/proc/self/clear_refs").write_text("5")  # the peak is what there is now
    before = status_mb("VmRSS")
    began = time.perf_counter()
    call()
    took = time.perf_counter() - began
    return took, (status_mb("VmHWM") - before) / megabytes


def main(rounds: int = 5, megabytes: int = 1024) -> None:
    """Prints four lines."""
    array = np.random.default_rng(0).random((megabytes, 1 << 18), dtype=np.float32)
    plain: list[float] = []
    found: dict[str, list[tuple[float, float]]] = {"push": [], "divided": [], "whole": []}
    grown: list[float] = []
    reads: list[list[float]] = []
    with nbdist.start(PROCESSES, devices_per_process=1, platform="cpu") as session:
        quiet = Silent()
        session.run(f"import jax\nmesh = jax.make_mesh(({PROCESSES},), ('x',))", renderer=quiet)

        def pull() -> tuple[float, float]:
            pulled: list[np.ndarray] = []
            one = measured(
                lambda: pulled.append(session.pull("x", limit_bytes=array.nbytes)), megabytes
            )
            assert np.array_equal(pulled[0], array)
            return one

        for _ in range(rounds):
            # Side by side in time: the machine's drift falls on all of them.
            plain += over_a_socket(array, 1)
            session.run("x = None\n" + PEAK, renderer=quiet)
            found["push"].append(measured(lambda: session.push({"x": array}), megabytes))
            session.run(READ, renderer=quiet)
            reads.append([max(session.pull(n, each=True).values()) for n in ("first", "second")])
            grown.append(max(session.pull("grown", each=True).values()) / megabytes)
            found["whole"].append(pull())
            session.push({"x": array}, sharding="jax.NamedSharding(mesh, jax.P('x'))")
            found["divided"].append(pull())
    socket_s = statistics.median(plain)
    for name, title, wanted in (
        ("push", "push", WANTED_PUSH),
        ("divided", "pull, a quarter on each", WANTED_PULL),
        ("whole", "pull, all on each, compared", WANTED_PULL),
    ):
        ratios = sorted(took / one for (took, _), one in zip(found[name], plain, strict=True))
        peak = max(peak for _, peak in found[name])
        # A pull leaves what it brings; what a push adds goes again.
        print(
            f"{megabytes} MB: {title}".ljust(38)
            + f"N={PROCESSES}: {statistics.median(ratios):.2f} times a loopback socket's {socket_s:.2f} s (rounds "
            f"{ratios[0]:.2f} to {ratios[-1]:.2f}; wanted: {wanted:g} at most), notebook at most "
            f"{peak:+.2f} times the array (wanted: {WANTED_PEAK - (name == 'push'):.1f})"
            + (f", a process {max(grown):+.2f}" if name == "push" else "")
        )
    first, second = (statistics.median(its) for its in zip(*reads, strict=True))
    print(
        f"first sum of what was pushed, on all processes at once: {first:.2f} s, the second {second:.2f} s"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--megabytes", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    main(asked.rounds, asked.megabytes)
