"""A training step of about 1 ms with the probe on and off: one process, 1,000 named arrays."""

from __future__ import annotations

import statistics
import threading
import time
from typing import Any

import jax
import jax.numpy as jnp
import zmq
from jupyter_client.session import Session

from nbdist.contract.iopub import Encoder
from nbdist.contract.snapshot import Report
from nbdist.engine.cell.running import CurrentCell
from nbdist.engine.cell.stacks import CodeOwners
from nbdist.engine.frameworks import frameworks
from nbdist.engine.probe import Probe

ARRAYS = 1000
STEP_SECONDS = 1e-3
BLOCK_SECONDS = 2.0
CELL = "/tmp/ipykernel_1/1.py"

TRAINING = """
def train(w, seconds):
    steps, began = 0, clock()
    while clock() - began < seconds:
        w = step(w)
        w.block_until_ready()
        steps += 1
    return (clock() - began) / steps
taken = train(w, block_seconds)
"""


def calibrated_step() -> Any:
    """A jitted step that takes about 1 ms here, its result ready."""
    x = jnp.eye(96) * 0.5

    def made(repeats: int) -> Any:
        return jax.jit(lambda w: jax.lax.fori_loop(0, repeats, lambda _, v: jnp.tanh(v @ w), x))

    def seconds(step: Any) -> float:
        step(x).block_until_ready()
        took = []
        for _ in range(100):
            began = time.perf_counter()
            step(x).block_until_ready()
            took.append(time.perf_counter() - began)
        return statistics.median(took)

    few, many = seconds(made(8)), seconds(made(40))
    each = max((many - few) / 32, 1e-6)
    return made(max(1, round(8 + (STEP_SECONDS - few) / each)))


def names() -> dict[str, Any]:
    """A namespace of 1,000 named arrays, as a model's parameters and its optimizer's state."""
    layers = ARRAYS // 4
    params = {f"layer_{i}": {"w": jnp.ones((4, 4)), "b": jnp.ones(4)} for i in range(layers)}
    state = [{"mu": jnp.zeros((4, 4)), "nu": jnp.zeros((4, 4))} for _ in range(layers)]
    return {"params": params, "opt_state": state, "w": jnp.eye(96) * 0.5}


def measure(*, blocks: int = 15) -> dict[str, list[float]]:
    """Seconds a step in alternating blocks; reports go out as on an engine, signed and over a socket."""
    context = zmq.Context()
    socket = context.socket(zmq.PUB)
    socket.bind("tcp://127.0.0.1:*")
    session = Session(key=b"measured")
    cell = CurrentCell()
    user = {**names(), "step": calibrated_step(), "clock": time.perf_counter}
    user["block_seconds"] = BLOCK_SECONDS
    code = compile(TRAINING, CELL, "exec")

    encoder = Encoder()

    def publish(report: Report) -> None:
        session.send(socket, "nbdist_report", content=encoder.encode(report), ident=b"nbdist.0")

    def block(*, on: bool) -> float:
        probe = Probe(
            publish=publish,
            namespace=lambda: user,
            process_id=0,
            host="here",
            main_thread=threading.get_ident(),
            cell=cell,
            frameworks=frameworks(),
            owners=CodeOwners(frameworks()),
        )
        if on:
            probe.start()
        # Time for its first look, which describes everything anew and comes once in an engine's life.
        time.sleep(0.5)
        cell.started(1, TRAINING)
        exec(code, user)
        cell.finished()
        probe.stop()
        return float(user["taken"])

    found: dict[str, list[float]] = {"off": [], "on": []}
    block(on=True)  # warms up
    for number in range(blocks):
        # Each kind comes first as often as second: the machine's drift falls on both.
        for on in (bool(number % 2), not number % 2):
            found["on" if on else "off"].append(block(on=on))
    context.destroy(linger=0)
    return found


def main(blocks: int = 15) -> None:
    """Prints one line."""
    found = measure(blocks=blocks)
    ratios = sorted(on / off for on, off in zip(found["on"], found["off"], strict=True))
    off = 1e3 * statistics.median(found["off"])
    print(
        f"training step              {off:.2f} ms, {ARRAYS} named arrays: with the probe "
        f"{100 * (statistics.median(ratios) - 1):+.2f} % (blocks {100 * (ratios[0] - 1):+.2f} "
        f"to {100 * (ratios[-1] - 1):+.2f}; wanted: 1 at most)"
    )


if __name__ == "__main__":
    main()
