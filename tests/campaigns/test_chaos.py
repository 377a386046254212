"""Faults of all kinds at random moments of one training: each is named, and it ends with the same weights.

`make chaos` runs many; `NBDIST_SEED=N NBDIST_FAULTS=N make chaos` chooses others, and how many. What happened is
written to the file that `NBDIST_CHAOS` names, as a table.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

import nbdist
from tests.campaigns.chaos import (
    FAULTS,
    SEED,
    TRAINING,
    Chaos,
    campaign,
    controller_killed,
    endless,
    exception,
    interrupted,
    kernel_killed,
    killed_between_cells,
    killed_in_a_cell,
    out_of_memory,
    segmentation_fault,
    service_killed,
    stopped_for_a_while,
    two_killed,
)
from tests.campaigns.memory_limit import limited_memory
from tests.variants import cases

Kinds = Sequence[Callable[[Chaos, int, int], str]]

KINDS: Kinds = [
    killed_in_a_cell,
    controller_killed,
    interrupted,
    kernel_killed,
    exception,
    service_killed,
    killed_between_cells,
    two_killed,
    out_of_memory,
    segmentation_fault,
    stopped_for_a_while,
    endless,
]

MEMORY_BYTES = 3 << 30
"""For all of a session whose processes are to take too much."""

WEIGHTS = {"on all processes": "None", "divided, with copies": "'data'"}
"""Where a piece of the weights lies, and along which axis they are divided over the processes for it."""


@pytest.fixture(params=cases(*reversed(WEIGHTS)))
def chaos(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Chaos, Kinds]]:
    divided = "copies" in request.param
    with contextlib.ExitStack() as stack:
        kinds = [*KINDS]
        if out_of_memory in KINDS[:FAULTS] and not stack.enter_context(
            limited_memory(MEMORY_BYTES)
        ):
            kinds.remove(out_of_memory)
            print("no process is killed for memory: no control group can be made here")
        session = nbdist.start(
            processes=4,
            devices_per_process=2,
            platform="cpu",
            copies_s=0 if divided else None,
            keep=True,
        )
        it = Chaos(session, divided, random.Random(SEED), tmp_path)
        stack.callback(lambda: it.session.shutdown())
        session.run(f"DIVIDED = {WEIGHTS[request.param]}\n{TRAINING}")
        yield it, kinds


@pytest.mark.timeout(7200)
def test_a_training_goes_on_through_all_of_them_to_the_weights_of_an_undisturbed_one(
    chaos: tuple[Chaos, Kinds],
) -> None:
    it, kinds = chaos
    where = "divided over 4 processes, with copies" if it.divided else "on all of 4 processes"
    campaign(it, kinds, f"Weights {where}")
