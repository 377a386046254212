"""Faults at random moments, many times: every cell ends, every session can be restarted, nothing is left.

The same faults each time; `NBDIST_SEED=N make test-faults` chooses others, and prints which.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tests.integration.notebook import Notebook, gone
from tests.integration.test_faults import COLLECTIVE

SEED = int(os.environ.get("NBDIST_SEED", "1"))
ROUNDS = int(os.environ.get("NBDIST_ROUNDS", "8"))
START = "%dist_init -n 3 --devices-per-process 2 --platform cpu"
CELLS = {
    "computing": "for _ in range(400):\n    float(total(x))\n    time.sleep(0.05)",
    "sleeping": "time.sleep(20)",
    "printing": "for i in range(20000):\n    print('line', i)\n    time.sleep(0.001)",
    "diverged": "if me == 1:\n    time.sleep(20)\nfloat(total(x))",
    "awaiting": "import asyncio\nawait asyncio.sleep(20)",
    "compiling": "for i in range(100):\n    float(jax.jit(lambda x: (x * i).sum())(x))",
}


def of(notebook: Notebook, words: str) -> list[psutil.Process]:
    """The notebook's processes whose command line holds `words`."""
    return [p for p in notebook.descendants() if words in " ".join(p.cmdline())]


def engines(notebook: Notebook) -> list[psutil.Process]:
    """The engines themselves, without nannies and controller."""
    found = notebook.run(
        "import nbdist\nprint([p.pid for p in nbdist.current().snapshot().processes])"
    ).text
    return [psutil.Process(int(pid)) for pid in found.strip("[]\n ").split(",")]


def kill_engine(notebook: Notebook, chosen: list[psutil.Process]) -> None:
    random.choice(chosen).kill()


def stop_engine(notebook: Notebook, chosen: list[psutil.Process]) -> None:
    random.choice(chosen).send_signal(signal.SIGSTOP)
    time.sleep(1)
    notebook.interrupt()


def kill_two(notebook: Notebook, chosen: list[psutil.Process]) -> None:
    for process in random.sample(chosen, 2):
        process.kill()


def kill_parent(notebook: Notebook, chosen: list[psutil.Process]) -> None:
    chosen[0].parent().kill()


def kill_controller(notebook: Notebook, chosen: list[psutil.Process]) -> None:
    """The controller is the parent's first child and no engine."""
    parent = chosen[0].parent()
    others = [p for p in parent.children() if p.pid not in {c.pid for c in chosen}]
    min(others, key=lambda p: p.create_time()).kill()


def interrupt(notebook: Notebook, chosen: list[psutil.Process]) -> None:
    notebook.interrupt()


def interrupt_twice(notebook: Notebook, chosen: list[psutil.Process]) -> None:
    notebook.interrupt()
    time.sleep(random.uniform(0, 0.3))
    notebook.interrupt()


FAULTS: list[Callable[[Notebook, list[psutil.Process]], None]] = [
    kill_engine,
    stop_engine,
    kill_two,
    kill_parent,
    kill_controller,
    interrupt,
    interrupt_twice,
]


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Notebook]:
    with Notebook(folder=tmp_path_factory.mktemp("faults")) as found:
        found.good("%load_ext nbdist")
        yield found


@pytest.mark.parametrize("turn", range(ROUNDS))
def test_a_fault_ends_the_cell_and_the_session_can_be_restarted(
    notebook: Notebook, turn: int
) -> None:
    random.seed(SEED + turn)
    name = random.choice(list(CELLS))
    fault = random.choice(FAULTS)
    delay = random.uniform(0, 2)
    print(f"seed {SEED + turn}: {fault.__name__} {delay:.2f} s into {name}")
    notebook.good(START)
    try:
        notebook.good(f"%%dist\n{COLLECTIVE}")
        chosen = engines(notebook)
        started = notebook.descendants()
        request = notebook.send(f"%%dist --grace 1\n{CELLS[name]}")
        time.sleep(delay)
        fault(notebook, chosen)
        notebook.collect(request, timeout_s=45)
        notebook.good("%dist_status")
        notebook.good("%dist_init --restart")
        assert not gone(started)
        assert "6" in notebook.good("%%dist\nimport jax\njax.device_count()").text
    finally:
        started = notebook.descendants()
        assert notebook.run("%dist_shutdown").seconds < 30
        assert not gone(started)


@pytest.mark.parametrize("turn", range(max(1, ROUNDS // 4)))
def test_nothing_outlives_a_kernel_that_is_killed_at_any_moment(tmp_path: Path, turn: int) -> None:
    random.seed(SEED + turn)
    with Notebook(folder=tmp_path) as notebook:
        notebook.good("%load_ext nbdist")
        notebook.send(START)
        moment = random.uniform(0, 4)
        print(f"seed {SEED + turn}: SIGKILL {moment:.2f} s into the start")
        time.sleep(moment)
        started = notebook.descendants()
        notebook.process.kill()
        # In the middle of an import the engines' parent notices when the import is done.
        assert not gone(started)
