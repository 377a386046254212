"""The rows of the table for four processes: none hangs, no value is another, the training goes on exactly."""

from __future__ import annotations

import pytest

from tests.in_step.disturb import go_through
from tests.in_step.table import Situation, rows_on
from tests.in_step.world import World


@pytest.mark.parametrize("situation", rows_on(4), ids=str)
def test_after_a_situation_all_values_are_there_and_the_training_goes_on(
    four: World, situation: Situation
) -> None:
    go_through(four, situation)
