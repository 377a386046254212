"""Which cells in the background are still to be interrupted, with stand-ins for them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from nbdist.cells.background import Background


class StandIn:
    """A cell that is followed: some processes are in it, or it has ended and its last words are shown."""

    def __init__(self, number: int, inside: tuple[int, ...], interrupted: list[int]) -> None:
        self.cell = SimpleNamespace(number=number)
        self.execution = SimpleNamespace(still_in=lambda: inside)
        self.done = False
        self._interrupted = interrupted

    def interrupt(self) -> None:
        self._interrupted.append(self.cell.number)


def background(*cells: tuple[int, tuple[int, ...]]) -> tuple[Background, list[int]]:
    """The cells, by number and processes, and the numbers of those that are interrupted."""
    interrupted: list[int] = []
    runs: list[Any] = [StandIn(number, inside, interrupted) for number, inside in cells]
    return Background(runs), interrupted


def test_the_last_cell_is_interrupted_first_and_all_are_reported_in_their_order() -> None:
    cells, interrupted = background((3, (0, 1)), (4, (0,)))
    assert list(cells.interrupt().items()) == [(3, (0, 1)), (4, (0,))]
    assert interrupted == [4, 3]


def test_a_cell_that_has_ended_on_all_is_not_interrupted() -> None:
    cells, interrupted = background((3, ()), (4, (0,)))
    assert cells.interrupt() == {4: (0,)}
    assert interrupted == [4]
    assert list(cells.inside().values()) == [(0,)]
