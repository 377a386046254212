"""Cells beyond the call that asked for them: in line, sent, ended, refused."""

from __future__ import annotations

import threading
from typing import Any, cast

import pytest

from nbdist.errors import ProcessError, SessionError
from nbdist.session.cells.history import ListedCell
from nbdist.session.cells.outcome import ProcessOutcome
from nbdist.session.session import Session
from nbdist.tools.arguments import OfRunCell
from nbdist.tools.cells import MOST_ENDED, AskedCells
from nbdist.view.output import TextBlock
from tests.waiting import wait_for


class Handle:
    """A cell of two processes that ends as it is told."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.done = False
        self.error: Exception | None = None
        self._raised = False

    @property
    def outcomes(self) -> dict[int, ProcessOutcome]:
        ended = "raised" if self.error else "finished"
        return {
            p: ProcessOutcome(process_id=p, host="h1", outcome=ended if self.done else "running")
            for p in (0, 1)
        }

    def blocks(self) -> tuple[TextBlock, ...]:
        return (TextBlock(processes=(0, 1), lines=("x" * 1000,)),)

    def wait(self) -> None:
        """Raise the error once, as the real one does."""
        error, self._raised = (None, True) if self._raised else (self.error, True)
        if error is not None:
            raise error


class Line:
    """As much of a session as cells need: a turn that may be taken, and a list."""

    def __init__(self) -> None:
        self.turn = threading.Event()
        self.refuses: Exception | None = None
        self.handles: list[Handle] = []
        self.queued: list[int] = []
        self.interrupted: list[int] = []
        self.history: list[Any] = []

    def run(self, code: str, *, cell: int, **options: Any) -> Handle:
        self.queued.append(cell)
        self.turn.wait()
        self.queued.remove(cell)
        if self.refuses is not None:
            raise self.refuses
        self.handles.append(Handle(cell))
        return self.handles[-1]

    def interrupt(self, cell: int) -> str:
        self.interrupted.append(cell)
        return "interrupted"

    def cells(self) -> tuple[ListedCell, ...]:
        return tuple(
            ListedCell(
                number=number,
                code="",
                processes=(),
                started=0.0,
                seconds=0.0,
                state="queued behind cell 41 of another kernel",
            )
            for number in self.queued
        )

    def cell(self, number: int) -> Handle:
        raise SessionError("No such cell.")

    def snapshot(self) -> Any:
        return cast(Any, type("Snapshot", (), {"processes": ()}))


@pytest.fixture
def line() -> Line:
    return Line()


@pytest.fixture
def cells(line: Line) -> AskedCells:
    return AskedCells(cast(Session, line))


def test_a_cell_in_line_says_behind_what_and_is_not_interrupted(
    line: Line, cells: AskedCells
) -> None:
    said: list[str] = []
    cell = cells.ask(OfRunCell(code="1"))
    cell.wait(0.5, said.append, ended=True)
    assert said == ["queued behind cell 41 of another kernel"]
    found = cell.facts(100)
    assert (found.state, found.processes) == ("queued", ())
    assert "cell 41 of another kernel" in found.says
    with pytest.raises(SessionError, match="cell 41"):
        cell.interrupt()
    assert line.interrupted == []
    line.turn.set()
    wait_for(lambda: cell.facts(0).state == "running")
    cell.interrupt()
    assert line.interrupted == [cell.number]


def test_a_wait_ends_with_its_time_and_the_cell_is_found_again_by_its_number(
    line: Line, cells: AskedCells
) -> None:
    line.turn.set()
    number = cells.ask(OfRunCell(code="1")).number
    cells.of(number).wait(None, print, ended=False)
    cells.of(number).wait(0.01, print, ended=True)
    assert cells.of(number).facts(100).state == "running"
    line.handles[0].done = True
    cells.of(number).wait(None, print, ended=True)
    found = cells.of(number).facts(100)
    assert (found.state, found.error, found.characters_left_out > 900) == ("finished", None, True)
    assert len(found.output) < 200


def test_an_error_is_kept_for_all_who_ask(line: Line, cells: AskedCells) -> None:
    line.turn.set()
    cell = cells.ask(OfRunCell(code="1"))
    cell.wait(None, print, ended=False)
    line.handles[0].error = ProcessError("process 0 raised ValueError")
    line.handles[0].done = True
    for _ in range(2):
        error = cell.facts(100).error
        assert cell.facts(100).state == "failed" and error is not None
        assert error.code == "ProcessError"


def test_a_cell_that_is_refused_is_never_sent(line: Line, cells: AskedCells) -> None:
    line.refuses = SessionError("out of step")
    line.turn.set()
    cell = cells.ask(OfRunCell(code="1"))
    cell.wait(None, print, ended=False)
    found = cell.facts(100)
    assert found.error is not None
    assert (found.state, found.error.code) == ("not sent", "SessionError")


def test_the_newest_ended_cells_are_known_and_numbers_are_not_used_twice(
    line: Line, cells: AskedCells
) -> None:
    line.turn.set()
    numbers = []
    for _ in range(MOST_ENDED + 5):
        cell = cells.ask(OfRunCell(code="1"))
        cell.wait(None, print, ended=False)
        line.handles[-1].done = True
        numbers.append(cell.number)
    assert numbers == sorted(set(numbers))
    assert [one.cell for one in cells.states()] == numbers[-MOST_ENDED:]
    with pytest.raises(SessionError, match=str(numbers[0])):
        cells.of(numbers[0])
