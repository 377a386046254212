"""Many failures in one training: its final weights are those of an undisturbed one, and nothing piles up.

The same failures each time; `NBDIST_SEED=N NBDIST_FAILURES=N make test-in-step` chooses others, and how many.
"""

from __future__ import annotations

import os
import random

import psutil
import pytest

from tests.in_step.world import World, world

SEED = int(os.environ.get("NBDIST_SEED", "1"))
ROUNDS = int(os.environ.get("NBDIST_FAILURES", "200"))
PROCESSES = 4
SETTLED = 20
"""After so many repairs, caches have what they will have."""

MOST_THREADS, MOST_FILES, MOST_BYTES = 120, 200, 1 << 30
"""What may have come to a process since then. Once in a hundred repairs gloo does not let go of a back end before
half an hour is over: ten threads and as many files on two cores."""

# What one process sends alone has the size of what the others send: where a process receives more than it
# expects, gloo ends it (`EnforceNotMet … Received data size doesn't match expected size`).
BREAK = """
class Broken(Exception):
    pass

def break_at(here):
    if plan["where"] == here and me == plan["process"] and done["jax"] == plan["step"]:
        if plan["kind"] == "raises":
            raise Broken(here)
        if plan["kind"] == "sends and raises":
            update_jax(params, velocity, x, y)
            raise Broken(here)
        if plan["kind"] == "waits alone":
            float(update_jax(params, velocity, x, y)[2])
        if plan["kind"] == "sends alone":
            plan["pending"] = update_jax(params, velocity, x, y)

def step_jax():
    global params, velocity
    break_at("before a step")
    new, moved, loss = update_jax(params, velocity, x, y)
    break_at("in a step")
    loss = float(loss)
    break_at("before it is kept")
    params, velocity = new, moved
    return loss

def train_until(steps):
    while done["jax"] < steps:
        step_jax()
        done["jax"] += 1
        break_at("after a step")
"""
KINDS = ("raises", "sends and raises", "waits alone", "sends alone")
PLACES = ("before a step", "in a step", "before it is kept", "after a step")


@pytest.fixture
def training() -> World:
    with world(PROCESSES, "jax", steps=1) as found:
        found.run(BREAK)
        yield found


def weights(training: World) -> dict:
    return training.pieces("jax")


def figures(training: World) -> dict[int, tuple[int, int, int]]:
    """Threads, open files and resident bytes of each process."""
    found = {}
    for process in training.session.snapshot().processes:
        seen = psutil.Process(process.pid)
        found[process.process_id] = (seen.num_threads(), seen.num_fds(), seen.memory_info().rss)
    return found


def until(training: World, steps: int) -> None:
    """Trains on until all have done so many steps, whatever happens; a step is done again unless it was kept."""
    for _ in range(5):
        said = training.attempt(f"train_until({steps})", timeout_s=59)
        if said.error is None:
            return
        assert not training.session.out_of_step, getattr(said.error, "shown", said)
        training.run("plan['where'] = None")
        # A process that failed before it kept a step does that one again with the others.
        done = training.values("done['jax']")
        if len(set(done.values())) > 1:
            training.run("params, velocity, done['jax'] = saved")
        else:
            training.run("saved = params, velocity, done['jax']")
    raise AssertionError("the training does not come to its end")


@pytest.mark.timeout(3600)
def test_a_training_broken_many_times_ends_with_the_weights_of_an_undisturbed_one(
    training: World,
) -> None:
    training.run("plan = {'where': None}; begin('jax'); saved = params, velocity, 0")
    training.run(f"train_until({ROUNDS})")
    calm = weights(training)
    training.run("begin('jax'); saved = params, velocity, 0")
    chosen = random.Random(SEED)
    settled = None
    for turn in range(ROUNDS):
        plan = {
            "where": chosen.choice(PLACES),
            "kind": chosen.choice(KINDS),
            "process": chosen.randrange(PROCESSES),
            "step": turn,
        }
        print(f"seed {SEED}, turn {turn}: {plan}")
        training.run(f"plan = {plan}; saved = params, velocity, done['jax']")
        until(training, turn + 1)
        if turn == min(SETTLED, ROUNDS // 2):
            settled = figures(training)
    assert weights(training) == calm
    assert settled is not None
    for process_id, now in figures(training).items():
        before = settled[process_id]
        print(f"process {process_id}: threads, files, bytes {before} → {now}")
        grown = [late - early for late, early in zip(now, before, strict=True)]
        assert grown[0] <= MOST_THREADS
        assert grown[1] <= MOST_FILES
        assert grown[2] <= MOST_BYTES
