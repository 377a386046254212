"""One training in which processes are killed while a module of the user's is edited: `NBDIST_FAILURES` times."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

import nbdist
from nbdist import Session
from nbdist.errors import NbdistError
from tests.waiting import wait_for

ROUNDS = int(os.environ.get("NBDIST_FAILURES", "100"))
SEED = int(os.environ.get("NBDIST_SEED", "0"))
PRIME = 10007

TRAINING = f"""
import sys
sys.path.append(FOLDER)
import nbdist, time, jax, jax.numpy as jnp, numpy as np, helped
from jax.sharding import NamedSharding, PartitionSpec as P
mesh = jax.make_mesh((jax.device_count(),), ("d",))
w = jax.device_put(np.arange(4, dtype=np.int32), NamedSharding(mesh, P()))
rows = np.arange(12, dtype=np.int32)
@jax.jit
def update(w, x, scale):
    return (w * 3 + (x * scale).sum()) % {PRIME}
def step():
    global w, losses
    x = jax.make_array_from_callback((12,), NamedSharding(mesh, P('d')), lambda i: rows[i])
    w = update(w, x, helped.f())
    losses = [*losses, int(w.sum())]
    return losses[-1]
losses = []
%load_ext autoreload
%autoreload 2
"""


class Module:
    """The file, and what a process that nobody disturbs has of it."""

    def __init__(self, folder: Path) -> None:
        self._path, self._time = folder / "helped.py", 1_000_000_000
        self._values: dict[str, Any] = {}
        self._read_at = -1
        self.write(1, 1)
        self.reloaded()

    def write(self, scale: int, factor: int) -> None:
        self._put(
            f"SCALE = {scale}\nclass Base:\n    factor = {factor}\ndef f():\n    return SCALE * Base.factor\n"
        )

    def spoil(self) -> None:
        self._put("SCALE = 5\ndef f(:\n")

    def delete(self) -> None:
        self._path.unlink(missing_ok=True)

    def patched(self, scale: int) -> None:
        """A cell has set it."""
        self._values["SCALE"] = scale

    def reloaded(self) -> int:
        """Read the file again if it has changed, as before each cell, and return what `f` gives then."""
        if self._path.exists() and self._read_at < self._time:
            self._read_at = self._time
            with contextlib.suppress(SyntaxError):
                exec(compile(self._path.read_text(), "helped.py", "exec"), self._values)
        return int(self._values["f"]())

    def _put(self, text: str) -> None:
        """With a time of its own: two edits within one tick are one."""
        self._path.write_text(text)
        self._time += 10
        os.utime(self._path, (self._time, self._time))


class Undisturbed:
    """The same training, on nobody's processes."""

    def __init__(self) -> None:
        self._w = [0, 1, 2, 3]

    def step(self, scale: int) -> int:
        self._w = [(value * 3 + sum(range(12)) * scale) % PRIME for value in self._w]
        return sum(self._w)


@pytest.mark.timeout(300 + 30 * ROUNDS)
def test_every_number_is_that_of_a_run_without_deaths_or_its_cell_is_refused(
    tmp_path: Path,
) -> None:
    chance, module, model = random.Random(SEED), Module(tmp_path), Undisturbed()
    right, refused = 0, []
    with nbdist.start(3, devices_per_process=1, platform="cpu") as session:
        session.run(f"FOLDER = {str(tmp_path)!r}\n{TRAINING}")
        for turn in range(ROUNDS):
            edits = [
                chance.choice([edit, edit, spoil, delete, patch])
                for _ in range(chance.randint(1, 2))
            ]
            when = chance.choice(["before", "within", "dead", "after"])
            if when == "before":
                change(edits, session, module, chance)
            kill(session, chance, within=when == "within")
            if when in ("within", "dead"):
                change(edits, session, module, chance)
            if session.out_of_step:
                session.recover()
            if when == "after":
                change(edits, session, module, chance)
            expected = model.step(module.reloaded())
            try:
                session.run("found = step()")
            except NbdistError as error:
                refused.append(f"{turn} {when} {[e.__name__ for e in edits]}: {error}")
                session.run("found = step()")
            found = session.pull("found", each=True)
            assert found == dict.fromkeys(range(3), expected), (
                turn,
                when,
                [e.__name__ for e in edits],
                refused[-1:],
            )
            right += 1
        assert session.pull("len(losses)") == ROUNDS
    print(right, refused)
    assert len(refused) <= ROUNDS // 10, refused


def change(edits: list[Any], session: Session, module: Module, chance: random.Random) -> None:
    for one in edits:
        one(session, module, chance)


def edit(session: Session, module: Module, chance: random.Random) -> None:
    module.write(chance.randint(1, 99), chance.randint(1, 99))


def spoil(session: Session, module: Module, chance: random.Random) -> None:
    module.spoil()


def delete(session: Session, module: Module, chance: random.Random) -> None:
    module.delete()


def patch(session: Session, module: Module, chance: random.Random) -> None:
    """Sets the constant in a cell, which is before the cell that computes whatever comes between."""
    if session.out_of_step:
        return
    scale = chance.randint(1, 99)
    module.reloaded()
    session.run(f"helped.SCALE = {scale}")
    module.patched(scale)


def kill(session: Session, chance: random.Random, *, within: bool) -> None:
    """Kills a process, between cells or within one that only reads."""
    pid = session.snapshot().processes[chance.randrange(3)].pid
    assert pid is not None
    if within:
        threading.Timer(chance.uniform(0, 0.5), os.kill, (pid, signal.SIGKILL)).start()
        with pytest.raises(NbdistError):
            session.run("for _ in range(1000):\n    int(update(w, w, 1).sum()); time.sleep(0.01)")
    else:
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: session.out_of_step)
