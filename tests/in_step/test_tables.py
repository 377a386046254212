"""The whole table, on two and four processes: none hangs, no value is another, the training goes on exactly."""

from __future__ import annotations

import pytest

from tests.in_step.disturb import go_through
from tests.in_step.table import Situation, table

WORLDS = {2: "two", 4: "four"}


@pytest.mark.parametrize(
    "situation", sorted(table(), key=lambda situation: situation.processes), ids=str
)
def test_after_a_situation_all_values_are_there_and_the_training_goes_on(
    request: pytest.FixtureRequest, situation: Situation
) -> None:
    go_through(request.getfixturevalue(WORLDS[situation.processes]), situation)
