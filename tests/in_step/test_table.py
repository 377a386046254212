"""The table itself: nothing is left out of it."""

from __future__ import annotations

from tests.in_step.table import missing_pairs, table


def test_every_two_values_of_the_table_meet_in_some_row() -> None:
    rows = table()
    assert missing_pairs(rows) == set()
    assert len(set(rows)) == len(rows) >= 30
