"""What goes with a cell beside its code."""

from __future__ import annotations

import pytest

from nbdist.contract.cells import CellLabel, label_from
from nbdist.errors import WireError

LABEL = CellLabel(cell=3, offset=1, run=7, targets=(0, 1), in_step=(1, 4), compared=True)


def test_it_is_read_as_it_was_written() -> None:
    assert label_from(LABEL.text()) == LABEL


@pytest.mark.parametrize("text", ["", "nbdist.look", "somebody's own"])
def test_a_request_of_somebody_else_has_none(text: str) -> None:
    assert label_from(text) is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nbdist {", "What should be JSON cannot be read"),
        ("nbdist {}", r"CellLabel: object missing required field cell"),
        (
            LABEL.text().replace("[1, 4]", "[1]"),
            r"CellLabel\.in_step: expected array of length 2",
        ),
    ],
)
def test_one_of_ours_of_a_wrong_shape_is_an_error(text: str, said: str) -> None:
    with pytest.raises(WireError, match=said):
        label_from(text)
