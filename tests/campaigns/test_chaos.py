"""Faults of all kinds at random moments of one training: each is named, and it ends with the same weights.

`make chaos` runs many; `NBDIST_SEED=N NBDIST_FAULTS=N make chaos` chooses others, and how many. What happened is
written to the file that `NBDIST_CHAOS` names, as a table.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

import nbdist
from tests.campaigns.chaos import (
    SEED,
    TRAINING,
    Chaos,
    campaign,
    endless,
    exception,
    interrupted,
    killed_between_cells,
    killed_in_a_cell,
    segmentation_fault,
    stopped_for_a_while,
    two_killed,
)
from tests.variants import cases

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

WEIGHTS = {"on all processes": "None", "divided, with copies": "'data'"}
"""Where a piece of the weights lies, and along which axis they are divided over the processes for it."""


@pytest.fixture(params=cases(*reversed(WEIGHTS)))
def chaos(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Chaos]:
    # What no interrupt reaches is given up soon, so that many faults fit into an hour.
    divided = "copies" in request.param
    with nbdist.start(
        processes=4,
        devices_per_process=2,
        platform="cpu",
        give_up_s=3,
        copies_s=0 if divided else None,
    ) as session:
        session.run(f"DIVIDED = {WEIGHTS[request.param]}\n{TRAINING}")
        yield Chaos(session, divided, random.Random(SEED), tmp_path)


@pytest.mark.timeout(7200)
def test_a_training_goes_on_through_all_of_them_to_the_weights_of_an_undisturbed_one(
    chaos: Chaos,
) -> None:
    where = "divided over 4 processes, with copies" if chaos.divided else "on all of 4 processes"
    campaign(chaos, KINDS, f"Weights {where}")
