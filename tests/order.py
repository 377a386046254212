"""Several kernels and threads that send to one session at the same time: who got which number.

`python -m tests.order SESSION SEED CELLS INTERRUPTS` is one of these kernels.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import nbdist
from nbdist.errors import NbdistError

THREADS = 4
LATE_SECONDS = 0.02
"""Between two messages of one cell may pass so much: as where a kernel is short of processor time."""

MOST_BETWEEN = 30
"""Cells that a kernel sends at most between two interrupts."""

LOOK_SECONDS = 0.05
"""At most between two looks whether an interrupt is due."""

KINDS = ("cell",) * 3 + ("background",) + ("pull",) * 3 + ("push",) * 2 + ("save", "recover")
"""What is sent; a cell computes, waited for or not, and one more comes after a recovery."""

QUIET = threading.Lock()
"""Held by what is refused while a cell of the same kernel is in the background, and by such a cell."""

SETUP = """
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
mesh = Mesh(np.array(jax.devices()), ("x",))
split = NamedSharding(mesh, P("x"))
w = jax.device_put(jnp.ones(8 * jax.device_count()), split)
given = jax.device_put(jnp.ones(64), split)
sums = [jax.jit(lambda x, n=n: (x * n).sum()) for n in range(1, 9)]
def total(n):
    for _ in range(4):
        found = float(sums[n - 1](w))
    return found / w.size
print([total(n) for n in range(1, 9)])
"""


@dataclass
class Found:
    """What came back: how often the right number, and a refusal; each wrong number in words."""

    right: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


def send(
    session: Any, *, kernels: int, cells: int, interrupts: bool, seed: int = 0, kill: bool = True
) -> Found:
    """Has kernels of `THREADS` threads each send cells with collectives.

    Args:
      session: One that other kernels can attach to, in which `SETUP` has run.
      kernels: How many come beside this one.
      cells: How many are sent in all.
      interrupts: Whether each kernel interrupts what runs, now and then.
      seed: Of the delays, and of what each thread sends.
      kill: Whether one more kernel comes, and is killed in the middle of it.
    """
    found = Found()
    each = max(1, cells // (kernels * THREADS))
    first = seed * 100
    children = [_kernel(session.id, first + n, each, interrupts) for n in range(kernels)]
    others = [_kernel(session.id, first + 50, 1_000_000, interrupts)] if kill else []
    readers = [threading.Thread(target=_read, args=(one, found)) for one in [*children, *others]]
    for reader in readers:
        reader.start()
    rng = random.Random(seed)
    for other in others:
        before = found.right
        while found.right < before + 5 and any(child.poll() is None for child in children):
            time.sleep(0.01)
        time.sleep(rng.random() * 0.2)
        other.kill()
    for child in [*children, *others]:
        child.wait()
    for reader in readers:
        reader.join()
    assert [child.returncode for child in children] == [0] * kernels
    return found


def _kernel(session: str, seed: int, each: int, interrupts: bool) -> subprocess.Popen[str]:
    numbers = map(str, (seed, each, int(interrupts)))
    command = [sys.executable, "-m", "tests.order", session, *numbers]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def _read(kernel: subprocess.Popen[str], found: Found) -> None:
    assert kernel.stdout is not None
    with kernel.stdout as lines:
        _take(lines, found)


def _take(lines: Iterable[str], found: Found) -> None:
    for line in lines:
        if not line.startswith("{"):
            continue  # what a cell has printed
        said = json.loads(line)
        if "refused" in said:
            found.refused[said["refused"]] += 1
        elif said["is"] == said["should"]:
            found.right += 1
        else:
            found.wrong.append(line.strip())


def _say(**said: Any) -> None:
    os.write(1, json.dumps(said).encode() + b"\n")


def _one(session: Any, rng: random.Random, number: int, folder: Path) -> None:
    """Sends one of `KINDS`, and says which number came back."""
    kind = rng.choice(KINDS)
    with QUIET if kind in ("background", "pull", "push", "save") else contextlib.nullcontext():
        _say(kind=kind, **_sent(session, kind, number, folder))


def _sent(session: Any, kind: str, number: int, folder: Path) -> dict[str, list[float]]:
    """Which numbers there are, and should be."""
    if kind in ("push", "save"):
        # All write to one name: where two come in another order on another process, its pieces are of both.
        if kind == "push":
            session.push({"given": np.full(64, number, np.float32)}, sharding="split")
        else:
            session.save(folder, ["given"])
            session.restore(folder, ["given"])
        pieces = sorted({*session.pull("given").tolist()})
        return {"is": pieces, "should": pieces[:1]}
    if kind == "recover":
        session.recover(say=str)
    if kind == "pull":
        return {"is": [session.pull(f"total({number})")], "should": [float(number)]}
    cell = session.run(
        f"print('it is', total({number}))", wait=kind != "background", renderer=Silent()
    )
    if kind == "background":
        cell.wait()
    numbers = {float(said) for said in re.findall(r"it is ([\d.]+)", str(cell.blocks()))}
    return {"is": sorted(numbers), "should": [float(number)]}


def _thread(session: Any, seed: int, cells: int, sent: list[int]) -> None:
    rng = random.Random(seed)
    folder = Path(os.environ["NBDIST_STATE"]) / f"saved-{seed}"
    for number in range(cells):
        time.sleep(rng.random() * LATE_SECONDS)
        sent.append(number)
        try:
            _one(session, rng, rng.randrange(1, 9), folder)
        except (NbdistError, TimeoutError) as error:
            _say(refused=f"{type(error).__name__}: {str(error)[:300]}")


class Silent:
    """A renderer that draws nothing."""

    def refresh(self, output: Any, final: bool = False) -> None:
        """Draws nothing."""


def main(name: str, seed: int, cells: int, interrupts: bool) -> None:
    """One kernel: it is late now and then, and may interrupt what runs."""
    session = nbdist.attach(name)
    rng = random.Random(seed)
    client = session.client

    def late(at_once: Callable[..., Any]) -> Callable[..., Any]:
        def send(*arguments: Any, **options: Any) -> Any:
            time.sleep(rng.random() * LATE_SECONDS)
            return at_once(*arguments, **options)

        return send

    client.send_execute_request = late(client.send_execute_request)
    client.send_apply_request = late(client.send_apply_request)
    sent: list[int] = []
    threads = [
        threading.Thread(target=_thread, args=(session, seed * THREADS + number, cells, sent))
        for number in range(THREADS)
    ]
    for thread in threads:
        thread.start()
    due = rng.randrange(MOST_BETWEEN)
    while any(thread.is_alive() for thread in threads):
        time.sleep(LOOK_SECONDS * rng.random())
        if interrupts and len(sent) >= due and session.interrupt().startswith("interrupted"):
            due = len(sent) + rng.randrange(1, MOST_BETWEEN)
    session.detach()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4] == "1")
