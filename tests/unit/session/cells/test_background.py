"""Which cells in the background are still to be interrupted, with stand-ins for them."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from nbdist.errors import NbdistError, Notice, ProcessError, SessionError
from nbdist.session.cells.followed import Background
from tests.builders.outcomes import stands


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


WHAT = Notice(
    level="bad",
    title="Process 1 raised ValueError at line 8: boom",
    text="The session was repaired in 0.5 s.",
    do="Create w again.",
    details=("process 0   finished the cell",),
    code="raised",
    lost=("w",),
)
SHOWN = ProcessError(
    WHAT, (stands(1, "raised"),), "line 8\nValueError: boom", "Process 1 raised ValueError."
)


@pytest.mark.parametrize(
    ("error", "known"),
    [
        (SHOWN, WHAT),
        (NbdistError(WHAT), WHAT),
        (TimeoutError("late"), NbdistError("TimeoutError: late").notice),
    ],
)
def test_a_failure_that_nobody_has_seen_is_raised_once_by_the_next_cell(
    error: Exception, known: Notice
) -> None:
    cells = Background()
    failed: Any = Failed(error, unseen=True)
    cells.add(failed)
    assert cells.runs == ()
    with pytest.raises(ProcessError) as raised:
        cells.refuse_unseen()
    title = f"This cell was not run, because cell 5 has failed in the background: {known.title}"
    assert raised.value.notice == replace(known, title=title)
    assert raised.value.failures == getattr(error, "failures", ())
    assert raised.value.above == getattr(error, "above", "")
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
