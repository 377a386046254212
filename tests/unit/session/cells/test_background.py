"""Which cells in the background are still to be interrupted, with stand-ins for them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from nbdist.errors import ProcessError, SessionError
from nbdist.session.cells.followed import Background


class StandIn:
    """A cell that is followed: some processes are in it, or it has ended and its last words are shown."""

    unseen = False

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


class Failed(StandIn):
    """One that has ended with an error, which is raised once."""

    def __init__(self, error: Exception, *, unseen: bool) -> None:
        super().__init__(5, (), [])
        self.done, self.unseen, self._error = True, unseen, error

    def take_error(self) -> Exception:
        self.unseen = False
        return self._error


RAISED = "process 1 raised ValueError"
SHOWN = ProcessError(RAISED, shown=f"line 8\nValueError: boom\nProcessError: {RAISED}")


@pytest.mark.parametrize(
    ("error", "said"), [(SHOWN, "line 8\nValueError: boom\n"), (TimeoutError("late"), "")]
)
def test_a_failure_that_nobody_has_seen_is_raised_once_by_the_next_cell(
    error: Exception, said: str
) -> None:
    cells = Background()
    failed: Any = Failed(error, unseen=True)
    cells.add(failed)
    assert cells.runs == ()
    with pytest.raises(ProcessError) as raised:
        cells.refuse_unseen()
    text = f"cell 5 failed in the background, and this cell was not run: {error}"
    assert str(raised.value) == text
    assert raised.value.shown == f"{said}ProcessError: {text}"
    cells.refuse_unseen()


def test_a_failure_that_was_seen_refuses_no_cell() -> None:
    failed: Any = Failed(SHOWN, unseen=False)
    Background([failed]).refuse_unseen()


def test_the_newest_cells_are_found_after_their_end_and_a_running_one_of_the_number_first() -> None:
    cells, _ = background()
    runs: list[Any] = [StandIn(number, (), []) for number in (1, 2, 3, 3, 4)]
    for run in runs:
        cells.add(run)
        run.done = True
    runs[2].done = False
    assert cells.newest(3) is runs[2]
    runs[2].done = True
    assert cells.newest(3) is runs[3]
    with pytest.raises(SessionError):
        cells.newest(1)
