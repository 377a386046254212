"""The rows of the table for two processes: none hangs, no value is another, the training goes on exactly."""

from __future__ import annotations

import pytest

from tests.in_step.disturb import go_through
from tests.in_step.table import Situation, rows_on
from tests.in_step.world import World


@pytest.mark.parametrize("situation", rows_on(2), ids=str)
def test_after_a_situation_all_values_are_there_and_the_training_goes_on(
    two: World, situation: Situation
) -> None:
    go_through(two, situation)
