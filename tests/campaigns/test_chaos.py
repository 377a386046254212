"""Faults of all kinds at random moments of one training: each is named, and it ends with the same weights.

`make chaos` runs many; `NBDIST_SEED=N NBDIST_FAULTS=N make chaos` chooses others, and how many. What happened is
written to the file that `NBDIST_CHAOS` names, as a table.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

import nbdist
from nbdist import Session
from nbdist.errors import CellTimeout, NbdistError
from tests.variants import cases
from tests.waiting import wait_for

SEED = int(os.environ.get("NBDIST_SEED", "1"))
FAULTS = int(os.environ.get("NBDIST_FAULTS", "4"))
"""So few in `make test`: the first kinds below."""
PROCESSES = 4
STEPS = 5
"""Of the training between two faults."""

LIMIT_SECONDS = 120.0
"""No cell may take longer, on whichever machine: it hangs."""

TRAINING = """
import os, signal, time
import jax, jax.numpy as jnp, nbdist, numpy as np, optax
from jax.sharding import NamedSharding, PartitionSpec as P
mesh = jax.make_mesh((jax.process_count(), 2), ("data", "model"))
def put(array, *axes):
    return jax.device_put(array, NamedSharding(mesh, P(*axes)))
tx = optax.adam(1e-2)
def begin():
    global params, state, done
    rng = np.random.default_rng(0)
    params = {"a": put(rng.normal(size=(8, 16)).astype("f4"), DIVIDED, "model"),
              "b": put(rng.normal(size=(16, 1)).astype("f4"))}
    state, done = jax.jit(tx.init)(params), 0
@jax.jit
def update(params, state, x):
    def loss(p):
        return ((jnp.tanh(x @ p["a"]) @ p["b"]) ** 2).mean()
    value, grads = jax.value_and_grad(loss)(params)
    updates, state = tx.update(grads, state)
    return optax.apply_updates(params, updates), state, value
@nbdist.on_recover
def own():
    global me, rows
    me = jax.process_index()
    rows = np.arange(24).reshape(-1, jax.process_count())[:, me]
own()
def batch(step):
    data = np.random.default_rng(step).normal(size=(24, 8)).astype("f4")
    return jax.make_array_from_process_local_data(NamedSharding(mesh, P("data")), data[rows])
def step():
    global params, state, done
    new, moved, value = update(params, state, batch(done))
    float(value)
    params, state, done = new, moved, done + 1
plan = None
def train_until(last):
    global plan
    while done < last:
        if plan is not None and done == plan[1] and me == plan[0]:
            what, plan = plan[2], None
            exec(what)
        step()
def weights():
    return [np.asarray(leaf.addressable_data(0)).tobytes() for leaf in jax.tree.leaves((params, state))]
"""


WEIGHTS = {"on all processes": "None", "divided, with copies": "'data'"}
"""Where a piece of the weights lies, and along which axis they are divided over the processes for it."""

COUNTED = "done = int(state[0].count.addressable_data(0))"
"""How far a training is that has gone back to the last copies."""


@dataclass
class Chaos:
    """A session with a training in it, and what befalls it."""

    session: Session
    divided: bool
    random: random.Random
    folder: Path
    rows: list[str] = field(default_factory=list)

    def pid(self, process_id: int) -> int:
        pid = self.session.snapshot().processes[process_id].pid
        assert pid is not None
        return pid

    def until(self, last: int) -> str:
        """Trains until so many steps are done; answers what was said of the first failure."""
        said = ""
        code = f"saved = params, state, done\ntrain_until({last})"
        for _ in range(6):
            try:
                self.session.run(code, timeout_s=LIMIT_SECONDS, grace_s=1)
                return said
            except CellTimeout:
                raise
            except NbdistError as error:
                said = said or str(error)
                if self.session.out_of_step:
                    self.session.recover()
                code = f"train_until({last})"
                # Only the one that it befell has taken it back.
                self.session.run("plan = None" + (f"\n{COUNTED}" if self.divided else ""))
                if len(set(self.session.pull("done", each=True).values())) > 1:
                    # An interrupt came when some had kept a step, and others had not yet.
                    self.session.run("params, state, done = saved")
        raise AssertionError(f"the training does not come to its end: {said}")


def later(do: Callable[[], None], delay: float) -> threading.Timer:
    timer = threading.Timer(delay, do)
    timer.start()
    return timer


def exception(chaos: Chaos, process: int, last: int) -> str:
    """Raised on one process."""
    chaos.session.run(f"plan = ({process}, {last - 2}, 'raise ValueError(1)')")
    said = chaos.until(last)
    assert said == f"process {process} raised ValueError", said
    return said


def killed_in_a_cell(chaos: Chaos, process: int, last: int) -> str:
    """SIGKILL in the middle of a step."""
    chaos.session.run(f"plan = ({process}, {last - 2}, 'os.kill(os.getpid(), 9)')")
    said = chaos.until(last)
    assert said == f"process {process} killed by signal 9 (SIGKILL)", said
    return said


def segmentation_fault(chaos: Chaos, process: int, last: int) -> str:
    """A bug in C."""
    chaos.session.run(f"plan = ({process}, {last - 2}, 'os.kill(os.getpid(), signal.SIGSEGV)')")
    said = chaos.until(last)
    assert said == f"process {process} killed by signal 11 (SIGSEGV)", said
    return said


def killed_between_cells(chaos: Chaos, process: int, last: int) -> str:
    """SIGKILL while nothing runs."""
    os.kill(chaos.pid(process), signal.SIGKILL)
    wait_for(lambda: chaos.session.out_of_step)
    title = chaos.session.snapshot().notices[0].title
    assert f"Process {process} is lost" in title, title
    chaos.until(last)
    return title


def two_killed(chaos: Chaos, process: int, last: int) -> str:
    """SIGKILL of two at once, at any moment of a cell."""
    other = (process + 1 + chaos.random.randrange(PROCESSES - 1)) % PROCESSES
    if chaos.divided:
        other = (
            process + 2
        ) % PROCESSES  # not the one that keeps its copies, nor the one whose copies it keeps
    pids = [chaos.pid(process), chaos.pid(other)]

    def kill() -> None:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)

    timer = later(kill, chaos.random.uniform(0, 0.3))
    said = chaos.until(last)
    timer.join()
    # It may have come when the cell had ended.
    return chaos.until(last) or said or "between two cells"


def interrupted(chaos: Chaos, process: int, last: int) -> str:
    """As by the stop button, at any moment of a cell."""
    timer = later(chaos.session.interrupt, chaos.random.uniform(0, 0.3))
    said = chaos.until(last)
    timer.join()
    assert said == "" or "interrupted" in said or "KeyboardInterrupt" in said, said
    return said or "after the cell"


def stopped_for_a_while(chaos: Chaos, process: int, last: int) -> str:
    """SIGSTOP, and SIGCONT a second later."""
    found = psutil.Process(chaos.pid(process))
    found.suspend()
    timer = later(found.resume, 1.0)
    said = chaos.until(last)
    timer.join()
    assert said == "", said
    return "waited for"


def endless(chaos: Chaos, process: int, last: int) -> str:
    """A loop that no interrupt reaches, on one process; the others wait for it in a step."""
    reached = chaos.folder / f"deaf-at-{last}"
    deaf = (
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT]); "
        f"open({str(reached)!r}, 'w').close(); time.sleep(600)"
    )
    chaos.session.run(f"plan = ({process}, {last - 2}, {deaf!r})")

    def interrupt() -> None:
        wait_for(reached.exists)
        chaos.session.interrupt()

    timer = later(interrupt, 0)
    said = chaos.until(last)
    timer.join()
    assert f"process {process} did not stop when interrupted" in said, said
    return said


KINDS = [
    killed_in_a_cell,
    interrupted,
    exception,
    killed_between_cells,
    two_killed,
    segmentation_fault,
    stopped_for_a_while,
    endless,
]


TITLES = {
    False: "## Weights on all processes",
    True: "## Weights divided over processes, with copies",
}
HEAD = ["| | fault | process | named as | |", "|---|---|---|---|---|"]


@pytest.fixture(params=cases(*reversed(WEIGHTS)))
def chaos(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Chaos]:
    # What no interrupt reaches is given up soon, so that many faults fit into an hour.
    divided = "copies" in request.param
    with nbdist.start(
        processes=PROCESSES,
        devices_per_process=2,
        platform="cpu",
        give_up_s=3,
        copies_s=0 if divided else None,
    ) as session:
        session.run(f"DIVIDED = {WEIGHTS[request.param]}\n{TRAINING}")
        yield Chaos(session, divided, random.Random(SEED), tmp_path)


def weights(chaos: Chaos) -> dict[int, list[bytes]]:
    chaos.session.run("found = weights()")
    found: dict[int, list[bytes]] = chaos.session.pull("found", each=True)
    chaos.session.run("del found")
    return found


@pytest.mark.timeout(7200)
def test_a_training_goes_on_through_all_of_them_to_the_weights_of_an_undisturbed_one(
    chaos: Chaos,
) -> None:
    chaos.session.run(f"begin()\ntrain_until({STEPS * FAULTS})")
    undisturbed = weights(chaos)
    # One step in a cell of its own: what an optimizer begins with lies on no other process yet, and is not copied.
    chaos.session.run("begin()\ntrain_until(1)")
    for turn in range(FAULTS):
        fault = KINDS[turn] if turn < len(KINDS) else chaos.random.choice(KINDS)
        process = chaos.random.randrange(PROCESSES)
        print(f"seed {SEED}, turn {turn}: {fault.__name__} on process {process}", flush=True)
        began = time.monotonic()
        said = fault(chaos, process, STEPS * (turn + 1))
        seconds = time.monotonic() - began
        doc = (fault.__doc__ or "").rstrip(".")
        chaos.rows.append(f"| {turn + 1} | {doc} | {process} | {said} | {seconds:.1f} s |")
    assert weights(chaos) == undisturbed
    if "NBDIST_CHAOS" in os.environ:
        with Path(os.environ["NBDIST_CHAOS"]).open("a") as file:
            file.write("\n".join([TITLES[chaos.divided], "", *HEAD, *chaos.rows, "", ""]))
