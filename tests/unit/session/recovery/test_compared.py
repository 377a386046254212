"""What processes have sent in a cell that went well, as they said it at its end."""

from __future__ import annotations

from typing import Any

import pytest

from nbdist.contract.calls.stepping import Proven
from nbdist.contract.iopub import CellStep
from nbdist.session.recovery.compared import common_program, have_sent_the_same, programs_since
from tests.builders.engines import cell_step, sent

EVERYONE = frozenset({0, 1})


NOT_PASSED = cell_step(sent(1), proven=Proven(passed=False, alike=True))


def says(count: int = 1, names: int = 5, *, compared: bool = True, **facts: Any) -> CellStep:
    return cell_step(sent(count, names, **facts), compared=compared)


@pytest.mark.parametrize("steps", [{}, {0: says(), 1: says()}, {0: NOT_PASSED}])
def test_the_same_or_nothing_is_the_same(steps: Any) -> None:
    assert have_sent_the_same(steps, EVERYONE)


@pytest.mark.parametrize(
    "other",
    [says(2), says(names=6), says(kinds=1), says(generation=9), says(compared=False)],
)
def test_something_else_is_not(other: CellStep) -> None:
    assert not have_sent_the_same({0: says(), 1: other}, EVERYONE)


def test_what_one_alone_has_sent_is_not() -> None:
    assert not have_sent_the_same({0: says()}, EVERYONE)
    assert have_sent_the_same({0: says()}, {0})


def test_programs_on_some_devices_cannot_be_compared() -> None:
    assert not have_sent_the_same({p: says(parts=1) for p in EVERYONE}, EVERYONE)


def test_in_step_is_after_the_last_program_of_all() -> None:
    assert common_program({0: says(3), 1: says(3)}) == (sent().generation, 3)
    assert common_program({}) is None
    assert common_program({0: NOT_PASSED}) is None


@pytest.mark.parametrize(
    ("in_step", "count"),
    [(None, 4), ((0, 2), 2), ((0, 4), 0), ((0, 0), 4), ((7, 2), 4), ((0, 9), 0)],
)
def test_what_was_sent_since_then_is_counted(in_step: Any, count: int) -> None:
    place = None if in_step is None else (sent().generation + in_step[0], in_step[1])
    assert programs_since(sent(4), place) == count
    # A proof since then counts, too.
    assert programs_since(sent(1, serial=4), place) == min(count, 1)
