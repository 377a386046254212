"""One kernel, and one thread of it, at a time sends what may compute."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nbdist.errors import SessionError, TurnError
from nbdist.session import turn as module
from nbdist.session.turn import Turn, TurnNotes
from tests.waiting import wait_for


@pytest.fixture
def kernels(tmp_path: Path) -> Any:
    """Turns of one session, each as in a kernel of its own."""
    made: list[Turn] = []

    def another() -> Turn:
        made.append(Turn(tmp_path / "turn"))
        return made[-1]

    yield another
    for one in made:
        one.close()


def beside(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def test_of_two_kernels_one_waits_and_is_shown_for_what(kernels: Any) -> None:
    first, second = kernels(), kernels()
    said: list[str] = []
    with first.taken(cell=7):
        assert first.ahead() is None
        assert second.ahead() == "cell 7 of another kernel"
        with (
            pytest.raises(TurnError, match="not sent: cell 7 of another kernel did not end within"),
            second.taken(cell=8, timeout_s=0.01),
        ):
            pass
    with second.taken(cell=8, say=said.append):
        assert "cell 8" in str(first.ahead())
    assert first.ahead() is None
    assert said == []


def test_who_waits_for_long_is_told(kernels: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SAY_SECONDS", 0.0)
    first, second = kernels(), kernels()
    said: list[str] = []

    def wait() -> None:
        with second.taken(cell=8, say=said.append):
            pass

    with first.taken(cell=7):
        waits = beside(wait)
        wait_for(lambda: said)
    waits.join()
    (line,) = said
    assert "cell 7" in line


def test_one_in_another_is_part_of_it(kernels: Any) -> None:
    turn = kernels()
    with turn.taken(cell=1), turn.taken(timeout_s=0.0):
        pass
    with kernels().taken(timeout_s=0.0):
        pass


def test_a_kernel_that_loops_does_not_keep_another_out(kernels: Any) -> None:
    first, second = kernels(), kernels()
    stop = threading.Event()

    def loop() -> None:
        while not stop.is_set():
            with first.taken(cell=1):
                pass

    looping = beside(loop)
    for _ in range(20):
        with second.taken(cell=2, timeout_s=60.0):
            pass
    stop.set()
    looping.join()


def test_threads_of_a_kernel_wait_in_line_for_each_other(kernels: Any) -> None:
    turn = kernels()
    order: list[tuple[int, str]] = []

    def send(number: int) -> None:
        for _ in range(25):
            with turn.taken(cell=number):
                order.append((number, "begins"))
                order.append((number, "ends"))

    threads = [beside(lambda number=number: send(number)) for number in range(4)]
    for thread in threads:
        thread.join()
    assert len(order) == 200
    assert all(a[0] == b[0] for a, b in zip(order[::2], order[1::2], strict=True))


def test_a_cell_in_the_background_has_the_turn_until_it_ends_and_others_of_its_kernel_share_it(
    kernels: Any,
) -> None:
    first, second = kernels(), kernels()
    with first.taken(cell=5):
        end = first.kept(5)
    with first.taken(cell=6, timeout_s=0.0):
        pass
    assert "cell 5" in str(second.ahead())
    with pytest.raises(TurnError), second.taken(timeout_s=0.0):
        pass
    end()
    end()
    with second.taken(timeout_s=0.0), pytest.raises(TurnError), first.taken(timeout_s=0.0):
        pass


def test_a_kernel_whose_cell_runs_on_gives_way_to_one_that_waits(
    kernels: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SAY_SECONDS", 0.0)
    first, second = kernels(), kernels()
    order: list[int] = []
    said: list[str] = []

    def send(turn: Turn, cell: int) -> None:
        with turn.taken(cell=cell, timeout_s=60.0, say=said.append):
            order.append(cell)

    with first.taken(cell=5):
        end = first.kept(5)
    waits = beside(lambda: send(second, 6))
    wait_for(lambda: said)
    with pytest.raises(TurnError), first.taken(cell=7, timeout_s=0.0):
        pass
    end()
    waits.join()
    send(first, 7)
    assert order == [6, 7]


def test_the_next_kernel_learns_what_the_one_before_knew(kernels: Any) -> None:
    first, second = kernels(), kernels()
    learned: list[TurnNotes] = []
    second.on_change = learned.append
    first.known = lambda: ((1, 4), True)
    with first.taken():
        number = first.next_number()
    with second.taken():
        assert second.next_number() > number
    with second.taken():
        pass
    assert [(one.in_step, one.settled, one.held) for one in learned] == [((1, 4), True, False)]


def test_what_follows_another_kernel_is_tried_again_until_it_has_succeeded(kernels: Any) -> None:
    first, second, third = kernels(), kernels(), kernels()
    learned: list[TurnNotes] = []

    def fails(before: TurnNotes) -> str:
        learned.append(before)
        if len(learned) == 1:
            raise SessionError("no")
        return "seen to"

    with first.taken(cell=1):
        pass
    second.on_change = fails
    with pytest.raises(SessionError), second.taken():
        pass
    third.on_change = lambda before: learned.append(before) and None
    with third.taken():
        pass
    assert not learned[-1].settled, "the third is to see to it as well"
    with second.taken() as done:
        assert done == "seen to"


def test_a_clock_that_is_set_back_gives_no_lower_number(
    kernels: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = kernels(), kernels()
    with first.taken():
        number = first.next_number()
    monkeypatch.setattr(module.time, "time_ns", lambda: 1)
    with second.taken():
        assert second.next_number() == number + 1


def test_the_turn_of_a_kernel_that_is_killed_is_free_and_says_so(kernels: Any) -> None:
    turn = kernels()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        with Turn(turn._path).taken(cell=9):
            os.write(write, b"x")
            signal.pause()
    os.read(read, 1)
    assert "cell 9" in str(turn.ahead())
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    learned: list[TurnNotes] = []
    turn.on_change = learned.append
    with turn.taken(timeout_s=60.0):
        pass
    assert [(one.held, one.cell) for one in learned] == [(True, 9)]
    os.close(read)
    os.close(write)


def test_who_leaves_with_a_cell_under_way_says_so_and_sends_nothing_more(kernels: Any) -> None:
    first, second = kernels(), kernels()
    learned: list[TurnNotes] = []
    second.on_change = learned.append
    with first.taken(cell=5):
        end = first.kept(5)
    first.close()
    end()
    with second.taken(timeout_s=0.0):
        pass
    assert [(one.held, one.settled) for one in learned] == [(False, False)]
    with pytest.raises(SessionError, match="has ended"), first.taken():
        pass


def test_where_the_file_cannot_be_there_nothing_is_sent(tmp_path: Path) -> None:
    turn = Turn(tmp_path / "gone" / "turn")
    with pytest.raises(SessionError, match="cannot be opened"), turn.taken():
        pass


def test_a_note_that_cannot_be_read_is_of_a_kernel_that_may_have_left_anything(
    kernels: Any,
) -> None:
    first, second = kernels(), kernels()
    with first.taken():
        os.pwrite(first._opened()[1], b"x" * 300, 0)
        os.pwrite(first._opened()[1], b"x" * 300, 0)
    os.pwrite(first._opened()[1], b"x" * 300, 0)
    learned: list[TurnNotes] = []
    second.on_change = learned.append
    with second.taken():
        pass
    assert [one.settled for one in learned] == [False]
