"""Of which parts that there are a part of an array is put together."""

from __future__ import annotations

import pytest

from nbdist.contract.calls.values import Box
from nbdist.session.values.push import cover

ROWS = tuple(((4 * n, 4 * n + 4), (0, 8)) for n in range(3))
"""An array of 12 × 8 in three pieces."""


@pytest.mark.parametrize(
    ("wanted", "pieces", "found"),
    [
        (((0, 4), (0, 8)), ROWS, [((0, 4), (0, 8))]),
        (((1, 3), (2, 5)), ROWS, [((1, 3), (2, 5))]),
        (((3, 9), (0, 8)), ROWS, [((3, 4), (0, 8)), ((4, 8), (0, 8)), ((8, 9), (0, 8))]),
        # Several processes have the same.
        (((2, 6), (4, 8)), (*ROWS, *ROWS), [((2, 4), (4, 8)), ((4, 6), (4, 8))]),
        # Nobody has the middle; it is asked for as it is, and found nowhere.
        (((0, 12), (0, 8)), (ROWS[0], ROWS[2]), [((0, 12), (0, 8))]),
        # As many elements, but some of them twice and others not.
        (((0, 8), (0, 8)), (ROWS[0], ((2, 6), (0, 8))), [((0, 8), (0, 8))]),
        (((5, 5), (0, 8)), ROWS, [((5, 5), (0, 8))]),
        ((), [()], [()]),
    ],
    ids=["a piece", "within", "over three", "copies", "a gap", "overlap", "empty", "a number"],
)
def test_parts_are_those_of_pieces_each_once(
    wanted: Box, pieces: tuple[Box, ...], found: list[Box]
) -> None:
    assert list(cover(wanted, pieces)) == found
