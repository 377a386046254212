"""The elapsed time of a start: it goes on while nothing is said, and ends with the start."""

from __future__ import annotations

import threading
import time

import pytest

from nbdist.view import progress
from nbdist.view.progress import ProgressDisplay


@pytest.fixture(autouse=True)
def fast(monkeypatch):
    monkeypatch.setattr(progress, "TICK_SECONDS", 0.02)
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.1)
    yield
    until(lambda: not ticking())


@pytest.fixture
def shown(monkeypatch):
    bundles = []
    monkeypatch.setattr(
        progress.ChangingOutput, "show", lambda self, bundle: bundles.append(bundle)
    )
    return bundles


def until(condition):
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def ticking():
    return [one for one in threading.enumerate() if one.name == "nbdist-progress"]


def test_the_elapsed_time_goes_on_between_two_stages(shown):
    with ProgressDisplay(in_notebook=True) as display:
        display("connected", 1, 2)
        until(lambda: len({one["text/plain"] for one in shown}) > 2)
        assert all("1 of 2 processes connected" in one["text/plain"] for one in shown)


def test_nothing_is_written_after_the_closing_line(shown):
    display = ProgressDisplay(in_notebook=True)
    display("connected", 1, 2)
    display.close("done")
    until(lambda: not ticking())
    display("ready", 2, 2)
    assert shown[-1] == {"text/plain": "done"}


def test_a_start_that_fails_stops_the_clock(shown):
    with pytest.raises(ZeroDivisionError), ProgressDisplay(in_notebook=True) as display:
        display("connected", 1, 2)
        assert ticking()
        raise ZeroDivisionError
    until(lambda: not ticking())


def test_a_terminal_gets_a_line_now_and_then(capsys):
    lines = []

    def printed():
        lines.extend(capsys.readouterr().out.splitlines())
        return len(lines) > 2

    with ProgressDisplay(in_notebook=False) as display:
        display("starting", 0, 4)
        until(printed)
    assert {line.rpartition(", ")[0] for line in lines} == {"starting 4 processes"}


def test_a_move_has_no_clock_of_its_own(shown):
    ProgressDisplay(in_notebook=True, ticks=False).part("sent 1 B of 2 B", 0.5)
    assert len(shown) == 1 and not ticking()
