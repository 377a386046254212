"""A training, and the faults that befall its processes: each is named, and the training goes on.

Shared by the campaigns on one machine and on three hosts.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

import nbdist
from nbdist import Session
from nbdist.contract.events import Coordinating
from nbdist.contract.orders import CONTROLLER
from nbdist.errors import CellTimeout, NbdistError, ProcessError, SessionError
from nbdist.launch.start.pool import AgentPool
from nbdist.notation import capital, where_text
from tests.waiting import wait_for

SEED = int(os.environ.get("NBDIST_SEED", "1"))
FAULTS = int(os.environ.get("NBDIST_FAULTS", "4"))
"""So few in `make test`: the first kinds."""
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
    params = {"a": put(rng.normal(size=(12, 16)).astype("f4"), DIVIDED, "model"),
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
    data = np.random.default_rng(step).normal(size=(24, 12)).astype("f4")
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
        nbdist.checkpoint()
        step()
def weights():
    return [np.asarray(leaf.addressable_data(0)).tobytes() for leaf in jax.tree.leaves((params, state))]
"""


SEVERAL_FOR_MEMORY = re.compile(r"Processes .* were killed by signal 9 \(SIGKILL\), out of memory")
"""Linux may end a second process of a control group, a moment after the first, whose memory is not free yet."""

COUNTED = "done = int(state[0].count.addressable_data(0))"
"""How far a training is that has gone back to the last copies."""


@dataclass
class Chaos:
    """A session with a training in it, and what befalls it.

    Attributes:
      divided: Whether the weights are divided over the processes, each of which keeps copies of those of another.
      random: Chooses the faults, and when.
      folder: For files of the faults.
      send_signal: Sends a signal to a process by its host and pid.
      heal: Called when something has failed, before the session is recovered.
      struck: When the last fault came (Unix seconds), where that is known here.
    """

    session: Session
    divided: bool
    random: random.Random
    folder: Path
    send_signal: Callable[[str, int, int], None] = lambda host, pid, number: os.kill(pid, number)
    heal: Callable[[], None] = lambda: None
    rows: list[str] = field(default_factory=list)
    struck: float | None = None

    @property
    def processes(self) -> int:
        return len(self.session.hosts)

    @property
    def one_machine(self) -> bool:
        return len(set(self.session.hosts.values())) == 1

    def where(self, process_id: int) -> str:
        """As messages name it."""
        return where_text([process_id], self.session.hosts)

    def signal(self, process_id: int) -> Callable[[int], None]:
        """Sends signals to the process that has this number now."""
        seen = self.session.snapshot().processes[process_id]
        assert seen.pid is not None
        send = partial(self.send_signal, seen.host, seen.pid)

        def strike(number: int) -> None:
            self.struck = time.time()
            send(number)

        return strike

    def end_controller(self) -> None:
        """Ends ipyparallel's controller, which is on this machine."""
        self.struck = time.time()
        os.kill(self._agents.home.pids[CONTROLLER], signal.SIGKILL)

    def end_service(self) -> None:
        """Ends JAX's coordination service, which is on the host of process 0."""
        agent = self._agents.of(0)
        self.struck = time.time()
        # Later ones have lower numbers.
        self.send_signal(
            self.session.hosts[0], agent.pids[min(agent.numbers(Coordinating))], signal.SIGKILL
        )

    @property
    def _agents(self) -> AgentPool:
        return self.session._life.engines.cluster.own_agents

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
                said = said or str(error.notice)
                # Also where a process has ended between two cells, and weights went back to their copies.
                self.heal()
                if self.session.out_of_step:
                    self.session.recover()
                if SEVERAL_FOR_MEMORY.match(str(error)):
                    # With both, every copy of a part may be gone: nobody could go on from there.
                    self.session.run("plan = None\nbegin()")
                    code = f"saved = params, state, done\ntrain_until({last})"
                    continue
                code = f"train_until({last})"
                # Only the one that it befell has taken it back.
                self.session.run("plan = None" + (f"\n{COUNTED}" if self.divided else ""))
                if not self.all_have_done_as_much():
                    # An interrupt came when some had kept a step, and others had not yet.
                    self.session.run("params, state, done = saved")
        raise AssertionError(f"the training does not come to its end: {said}")

    def all_have_done_as_much(self) -> bool:
        """Return whether the number of steps is the same on all processes, and not in doubt on a new one."""
        try:
            return len(set(self.session.pull("done", each=True).values())) == 1
        except SessionError as error:
            assert "done was copied" in str(error), error
            return False


def later(do: Callable[[], None], delay: float) -> threading.Timer:
    timer = threading.Timer(delay, do)
    timer.start()
    return timer


def in_a_step(chaos: Chaos, process: int, last: int, code: str) -> str:
    """Has one process run code in the middle of the training; answers what was said."""
    at = chaos.folder / f"struck-at-{last}"
    note = f"open({str(at)!r}, 'w').write(str(time.time()))\n" if chaos.one_machine else ""
    chaos.session.run(f"plan = ({process}, {last - 2}, {note + code!r})")
    said = chaos.until(last)
    if at.exists():
        chaos.struck = float(at.read_text())
    return said


def exception(chaos: Chaos, process: int, last: int) -> str:
    """Raised on one process."""
    said = in_a_step(chaos, process, last, "raise ValueError(1)")
    assert said.startswith(f"Process {process} raised ValueError"), said
    return said


def killed_in_a_cell(chaos: Chaos, process: int, last: int) -> str:
    """SIGKILL in the middle of a step."""
    said = in_a_step(chaos, process, last, "os.kill(os.getpid(), 9)")
    assert said.startswith(capital(f"{chaos.where(process)} was killed by signal 9 (SIGKILL)")), (
        said
    )
    return said


def segmentation_fault(chaos: Chaos, process: int, last: int) -> str:
    """A bug in C."""
    said = in_a_step(chaos, process, last, "os.kill(os.getpid(), signal.SIGSEGV)")
    assert said.startswith(capital(f"{chaos.where(process)} was killed by signal 11 (SIGSEGV)")), (
        said
    )
    return said


def out_of_memory(chaos: Chaos, process: int, last: int) -> str:
    """Takes memory until the kernel ends it."""
    grow = "big = []\nwhile True: big.append(np.ones(1 << 22))"
    said = in_a_step(chaos, process, last, grow)
    chaos.struck = None  # it has taken some seconds until then
    by = "was killed by signal 9 (SIGKILL), out of memory"
    alone = said.startswith(capital(f"{chaos.where(process)} {by}"))
    assert alone or SEVERAL_FOR_MEMORY.match(said), said
    return said


def killed_between_cells(chaos: Chaos, process: int, last: int) -> str:
    """SIGKILL while nothing runs."""
    chaos.signal(process)(signal.SIGKILL)
    wait_for(lambda: chaos.session.out_of_step)
    title = chaos.session.snapshot().notices[0].title
    assert f"Process {process} is lost" in title, title
    chaos.until(last)
    return title


def two_killed(chaos: Chaos, process: int, last: int) -> str:
    """SIGKILL of two at once, at any moment of a cell."""
    other = (process + 1 + chaos.random.randrange(chaos.processes - 1)) % chaos.processes
    if chaos.divided:
        # Not the one that keeps its copies, nor the one whose copies it keeps.
        other = (process + 2) % chaos.processes
    both = [chaos.signal(process), chaos.signal(other)]

    def kill() -> None:
        for one in both:
            one(signal.SIGKILL)

    return at_any_moment(chaos, last, kill) or "between two cells"


def interrupted(chaos: Chaos, process: int, last: int) -> str:
    """As by the stop button, at any moment of a cell."""
    timer = later(chaos.session.interrupt, chaos.random.uniform(0, 0.3))
    said = chaos.until(last)
    timer.join()
    assert said == "" or "interrupted" in said or "KeyboardInterrupt" in said, said
    return said or "after the cell"


def stopped_for_a_while(chaos: Chaos, process: int, last: int) -> str:
    """SIGSTOP, and SIGCONT a second later."""
    send = chaos.signal(process)
    send(signal.SIGSTOP)
    timer = later(lambda: send(signal.SIGCONT), 1.0)
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
    named = re.search(rf"\b[Pp]rocess {process} did not stop when interrupted", said)
    assert named, said
    # Before it the line has who was interrupted.
    return named.group()


def at_any_moment(chaos: Chaos, last: int, do: Callable[[], None]) -> str:
    """Does something while a cell runs, or when it has ended; answers what was said."""
    timer = later(do, chaos.random.uniform(0, 0.3))
    said = chaos.until(last)
    timer.join()
    return chaos.until(last) or said


def controller_killed(chaos: Chaos, process: int, last: int) -> str:
    """SIGKILL of ipyparallel's controller, at any moment of a cell."""
    said = at_any_moment(chaos, last, chaos.end_controller)
    assert said == "" or "killed by signal 9" in said, said
    return said or "between two cells"


def service_killed(chaos: Chaos, process: int, last: int) -> str:
    """SIGKILL of JAX's coordination service, at any moment of a cell."""
    said = at_any_moment(chaos, last, chaos.end_service)
    # Processes that were about to meet for the first time after a repair cannot.
    assert said == "" or "JaxRuntimeError" in said or "coordination service" in said, said
    return said or "the next cell repairs"


KERNEL = """
import sys, nbdist
session = nbdist.attach(sys.argv[1])
print("here", flush=True)
session.run(sys.argv[2])
print("done", flush=True)
sys.stdin.read()
"""


def kernel_killed(chaos: Chaos, process: int, last: int) -> str:
    """SIGKILL of the kernel at any moment of a cell, and another attaches."""
    session = chaos.session.id
    chaos.session.detach()
    code = f"saved = params, state, done\ntrain_until({last})"
    command = [sys.executable, "-c", KERNEL, session, code]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True
    ) as kernel:
        assert kernel.stdout is not None
        assert kernel.stdout.readline() == "here\n"
        time.sleep(chaos.random.uniform(0, 0.3))
        kernel.kill()
    chaos.session = nbdist.attach(session)
    found = "in the middle of a cell" if chaos.session.running else "between two cells"
    try:
        chaos.session.sync()
    except ProcessError as error:
        # Some had got the cell, and others not yet, or it was not even noted for those that it would be sent to.
        found = str(error).splitlines()[0]
        assert re.search(r"raised NotStarted: |interrupted\b", found), error
    chaos.until(last)
    return found


C = TypeVar("C", bound=Chaos)

HEAD = ["| | fault | process | named as | after | went on after |", "|---|---|---|---|---|---|"]


@contextlib.contextmanager
def watched(chaos: Chaos) -> Iterator[list[float]]:
    """While a fault comes: when the view first showed a notice (Unix seconds)."""
    shown: list[float] = []
    over = threading.Event()

    def look() -> None:
        while not shown and not over.wait(0.02):
            if chaos.session.snapshot().notices:
                shown.append(time.time())

    watch = threading.Thread(target=look)
    watch.start()
    try:
        yield shown
    finally:
        over.set()
        watch.join()


def weights(chaos: Chaos) -> dict[int, list[bytes]]:
    """Bytes of all weights and of the optimizer's state, by process id."""
    chaos.session.run("found = weights()")
    found: dict[int, list[bytes]] = chaos.session.pull("found", each=True)
    chaos.session.run("del found")
    return found


def campaign(
    chaos: C, kinds: Sequence[Callable[[C, int, int], str]], title: str, *, faults: int = FAULTS
) -> None:
    """A training without faults, and the same with them: each kind once, then any of them.

    A fault gets the process that it befalls and the step until which the training is to go on. It answers what was
    said of it.
    """
    chaos.session.run("begin()")
    undisturbed = []
    for turn in range(faults):
        chaos.session.run(f"train_until({STEPS * (turn + 1)})")
        undisturbed.append(weights(chaos))
    chaos.session.run("begin()")
    for turn in range(faults):
        fault = kinds[turn] if turn < len(kinds) else chaos.random.choice(kinds)
        process = chaos.random.randrange(chaos.processes)
        print(f"seed {SEED}, turn {turn}: {fault.__name__} on process {process}", flush=True)
        # What the last one has left to read ends with the next cell.
        chaos.session.run("pass")
        chaos.struck = None
        began = time.monotonic()
        with watched(chaos) as shown:
            said = fault(chaos, process, STEPS * (turn + 1))
        seconds = time.monotonic() - began
        named_s = shown[0] - chaos.struck if shown and chaos.struck is not None else None
        doc = (fault.__doc__ or "").rstrip(".")
        named = said.partition("; the session")[0].partition("\n")[0]
        after = "" if named_s is None else f"{named_s:.1f} s"
        chaos.rows.append(
            f"| {turn + 1} | {doc} | {process} | {named} | {after} | {seconds:.1f} s |"
        )
        assert weights(chaos) == undisturbed[turn], f"turn {turn}"
    if "NBDIST_CHAOS" in os.environ:
        with Path(os.environ["NBDIST_CHAOS"]).open("a") as file:
            file.write("\n".join([f"## {title}", "", *HEAD, *chaos.rows, "", ""]))
