"""Faults in TensorFlow sessions at random moments: each cell ends, `%dist_recover` brings the strategy back.

The same faults each time; `NBDIST_SEED=N make test-faults` chooses others, and prints which.
"""

from __future__ import annotations

import os
import random
import re
import time
from collections.abc import Callable, Iterator

import psutil
import pytest

from tests.integration.notebook import Notebook, gone

SEED = int(os.environ.get("NBDIST_SEED", "1"))
ROUNDS = max(1, int(os.environ.get("NBDIST_ROUNDS", "8")) // 2)
START = "%dist_init -n 2 --evaluators 1 --platform cpu --framework tensorflow"
SETUP = """%%dist
import time

import keras
import numpy as np
import tensorflow as tf

x = np.random.default_rng(0).normal(size=(64, 4)).astype("float32")
data = tf.data.Dataset.from_tensor_slices((x, x.sum(1, keepdims=True))).batch(16)
kept = globals().get("kept", "new")


def trained(epochs):
    with strategy.scope():
        keras.utils.set_random_seed(0)
        model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
    return model.fit(data, epochs=epochs, shuffle=False, verbose=0).history["loss"][-1]
"""
CELLS = {
    "training": "trained(3000)",
    "sleeping": "time.sleep(30)",
    "diverged": "time.sleep(30) if strategy.cluster_resolver.task_id else trained(3000)",
    "reducing": (
        "@tf.function\ndef total():\n    return strategy.reduce('SUM', strategy.run(lambda: tf.ones(())), None)\n"
        "for _ in range(100000):\n    total()"
    ),
}


def pids(notebook: Notebook) -> list[int]:
    text = notebook.good(
        "import nbdist\nprint([p.pid for p in nbdist.current().snapshot().processes])"
    )
    return [int(pid) for pid in text.text.strip("[]\n ").split(",")]


def kill(*chosen: int) -> Callable[[Notebook], None]:
    def kills(notebook: Notebook) -> None:
        for number in chosen:
            psutil.Process(pids_of[notebook][number]).kill()

    kills.__name__ = f"kill {chosen}"
    return kills


def kill_evaluator(notebook: Notebook) -> None:
    """Nobody waits for it; the interrupt ends the cell."""
    kill(2)(notebook)
    time.sleep(0.5)
    notebook.interrupt()


def interrupt(notebook: Notebook) -> None:
    notebook.interrupt()


def interrupt_twice(notebook: Notebook) -> None:
    notebook.interrupt()
    time.sleep(random.uniform(0, 0.5))
    notebook.interrupt()


FAULTS: list[Callable[[Notebook], None]] = [
    kill(0),
    kill(1),
    kill(0, 1),
    kill_evaluator,
    interrupt,
    interrupt_twice,
]
pids_of: dict[Notebook, list[int]] = {}
"""Asked for before the cell is sent: a kernel answers nothing while it runs."""


def loss(notebook: Notebook) -> str:
    """What both workers train to; the last words of an aborted collective may stand above it."""
    shown = notebook.good("%%dist\nprint('loss', trained(2))").text
    found = re.search(r"^processes 0, 1 +loss (\S+)", shown, re.M)
    assert found, shown
    return found[1]


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Notebook]:
    """One session for all rounds: each must leave it as good as new."""
    with Notebook(folder=tmp_path_factory.mktemp("faults")) as found:
        found.good("%load_ext nbdist")
        found.good(START)
        yield found
        started = found.descendants()
        found.good("%dist_shutdown")
        assert not gone(started)


@pytest.mark.parametrize("turn", range(ROUNDS))
def test_a_fault_ends_the_cell_and_the_strategy_is_made_anew(notebook: Notebook, turn: int) -> None:
    random.seed(SEED + turn)
    name = random.choice(list(CELLS))
    fault = random.choice(FAULTS)
    delay = random.uniform(0.5, 4)
    print(f"seed {SEED + turn}: {fault.__name__} {delay:.2f} s into {name}")
    notebook.good(SETUP)
    first = loss(notebook)
    pids_of[notebook] = pids(notebook)
    request = notebook.send(f"%%dist --grace 1\n{CELLS[name]}")
    time.sleep(delay)
    fault(notebook)
    notebook.collect(request, timeout_s=60)
    # The notice begins with it where no process had to be replaced.
    assert "the strategy is new on 2 workers in" in notebook.good("%dist_recover").text.lower()
    notebook.good(SETUP)
    assert loss(notebook) == first
    notebook.shows("%dist_status", "idle   3 processes")
