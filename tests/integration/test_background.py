"""Cells in the background as a person meets them: live output, what runs ahead of them, how they end."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.builders.cells import SPREAD, until
from tests.integration.notebook import Notebook, Output

SETUP = SPREAD
FAILS = "if me == 1: raise ValueError('boom')"
FINISHED = "ended after .* processes 0, 1 finished"
STOP = "%dist_interrupt --stop-at-step"
TRAIN = """%%dist
import nbdist
step = jax.jit(lambda w: w + w.sum() * 0)
v, done = w, 0
while True:
    nbdist.checkpoint()
    v = step(v)
    done += 1
    if done == 3: print("three steps")
"""
"""A training of which only the end is in the same place on all processes."""


def begun(
    notebook: Notebook, over: Path, then: str = "", *, person: bool = False
) -> tuple[str, Output]:
    """A cell in the background that has printed, and waits for a file; its request and its output."""
    code = f"%%dist --no-wait\nfor i in range(3): print('tick', i)\n{until(over)}{then}"
    return notebook.background(code, "tick 2", person=person)


def numbered(output: Output) -> str:
    """The number of a cell in the background, which its first line says."""
    found = re.match(r"cell (\d+) in the background on processes 0, 1, since ", output.text)
    assert found is not None, output.text
    return found[1]


def stopped_in_step(notebook: Notebook) -> None:
    """All processes have done as many steps, and compute together."""
    assert re.fullmatch(r"processes 0, 1   \d+", same := notebook.good("%dist done").text), same
    notebook.shows("%dist float(v.sum() / 8)", "processes 0, 1   1.0")


def test_output_comes_under_its_own_cell_while_another_runs(
    notebook: Notebook, tmp_path: Path
) -> None:
    over = tmp_path / "over"
    request, output = begun(notebook, over, "print('after all')")
    assert numbered(output)
    assert "processes 0, 1 running" in output.text
    over.touch()
    notebook.collect(request, until=FINISHED)
    assert "processes 0, 1\ntick 0\ntick 1\ntick 2\nafter all" in output.text


def test_a_failure_is_shown_when_it_happens(notebook: Notebook, tmp_path: Path) -> None:
    over = tmp_path / "over"
    request, output = begun(notebook, over, FAILS, person=True)
    over.touch()
    notebook.collect(request, until="ProcessError: Process 1 raised ValueError")
    assert "ended after" in output.text
    assert "line 5" in output.text
    notebook.shows("_", "process 1 raised ValueError")
    notebook.shows("%dist 'goes on'", "goes on")


def test_where_nobody_can_be_shown_a_failure_the_next_cell_is_refused_with_it(
    notebook: Notebook, tmp_path: Path
) -> None:
    over = tmp_path / "over"
    request, output = begun(notebook, over, FAILS)
    over.touch()
    notebook.collect(request, until="ended after")
    cell = f"cell {numbered(output)} has failed"
    refused = notebook.fails("%dist 'not run'", "ValueError: boom", "line 5", cell)
    assert "not run'" not in refused.text
    notebook.shows("%dist 'goes on'", "goes on")  # it is said once


@pytest.mark.parametrize("person", [True, False])
def test_sync_raises_how_a_cell_that_it_has_waited_for_has_failed(
    notebook: Notebook, tmp_path: Path, person: bool
) -> None:
    over = tmp_path / "over"
    begun(notebook, over, FAILS, person=person)
    # It ends while it is waited for: what has ended before, a person has seen.
    later = f"import threading\nthreading.Timer(1, open, ({str(over)!r}, 'w')).start()\n"
    failed = notebook.collect(notebook.send(f"{later}%sync", person=person)).traceback
    assert "ProcessError: Process 1 raised ValueError" in failed, failed
    notebook.good("%sync")


def test_an_interrupt_says_what_it_interrupted(notebook: Notebook, tmp_path: Path) -> None:
    request, output = begun(notebook, tmp_path / "never")
    said = notebook.good("%dist_interrupt").text
    assert said == f"interrupted: cell {numbered(output)} (processes 0, 1)"
    notebook.collect(request, until="ended after .* processes 0, 1 were interrupted")
    assert notebook.good("%dist_interrupt").text == "no cell is running"


def test_a_cell_that_must_wait_says_behind_which(notebook: Notebook, tmp_path: Path) -> None:
    over = tmp_path / "over"
    request, output = begun(notebook, over)
    queued, shown = notebook.follow("%%dist --on 0\nprint('my turn')", "queued")
    assert f"queued behind cell {numbered(output)} (process 0)" in shown.text
    assert "my turn" not in shown.text
    over.touch()
    assert "my turn" in notebook.collect(queued).text
    notebook.collect(request, until="ended after")


def test_a_training_stops_before_the_same_step_on_all_and_stays_in_step(
    notebook: Notebook,
) -> None:
    request, output = notebook.background(TRAIN.replace("dist", "dist --no-wait", 1), "three steps")
    said = notebook.good(STOP).text
    assert said.startswith(f"cell {numbered(output)} stops before")
    notebook.collect(request, until=r"ended after .*: processes 0, 1 stopped before step \d+")
    assert "repaired" not in output.text
    stopped_in_step(notebook)


def test_the_stop_button_leaves_a_loop_with_checkpoints_in_step(notebook: Notebook) -> None:
    request, _ = notebook.follow(TRAIN, "three steps")
    assert "repaired" not in notebook.stopped(request).text
    stopped_in_step(notebook)


def test_a_cell_without_steps_says_what_it_needs(notebook: Notebook, tmp_path: Path) -> None:
    over = tmp_path / "over"
    request, _ = begun(notebook, over)
    notebook.shows(STOP, "nbdist.checkpoint()")
    over.touch()
    notebook.collect(request, until=FINISHED)
    notebook.fails(STOP, "No cell runs")


def test_cells_are_listed_followed_and_interrupted_one_by_one(
    notebook: Notebook, tmp_path: Path
) -> None:
    over = tmp_path / "over"
    request, output = begun(notebook, over)
    number = numbered(output)
    behind, waiting = notebook.background("%%dist --no-wait\nprint('ran')", "cell")
    listed = notebook.good("%dist_cells").text.splitlines()
    assert listed[0].split() == ["cell", "processes", "since", "for", "state", "first", "line"]
    running = rf"^ *{number} +0, 1 +[\d:]+ +[\d.]+ s +running(, line \d+)? +for i in"
    assert re.search(running, listed[-2]), listed
    assert f"queued behind cell {number} (processes 0, 1)" in listed[-1]
    following, followed = notebook.follow(f"%dist_cells {number}", "tick 2")
    notebook.interrupt()
    assert notebook.collect(following).error is None
    assert "no longer followed here; the cell goes on" in followed.text
    notebook.fails("%dist_cells 999", "999")
    notebook.fails("%dist_cells --interrupt", "--interrupt")
    said = notebook.good(f"%dist_cells {numbered(waiting)} --interrupt").text
    assert said == f"interrupted: cell {numbered(waiting)} (processes 0, 1)"
    # It is taken back at once, and the one that runs is left alone.
    notebook.collect(behind, until="ended after .* not run on processes 0, 1")
    assert "ended after" not in output.text
    over.touch()
    assert "finished" in notebook.collect(request, until="ended after").text
    assert "ran" not in waiting.text.split()


def test_the_stop_button_takes_a_cell_back_that_waits(notebook: Notebook, tmp_path: Path) -> None:
    over = tmp_path / "over"
    request, output = begun(notebook, over, "print('to the end')")
    queued, _ = notebook.follow("%%dist --on 0\nprint('my turn')", "queued behind")
    notebook.stopped(queued).names("Not run on process 0")
    over.touch()
    notebook.collect(request, until=FINISHED)
    assert "to the end" in output.text
    notebook.good("import nbdist\nassert nbdist.current().out_of_step is False")
    assert "my turn" not in notebook.good("%%dist --on 0\nprint('next')").text


def test_a_cell_behind_one_that_fails_is_not_run_and_says_why(
    notebook: Notebook, tmp_path: Path
) -> None:
    over = tmp_path / "over"
    request, _ = begun(notebook, over, "raise ValueError('boom')", person=True)
    queued, _ = notebook.follow("%%dist\nprint('my turn')", "queued behind")
    over.touch()
    # It was sent already, or not yet.
    assert re.search(
        "Not run(.|\n)*an earlier cell had failed|has failed", notebook.collect(queued).traceback
    )
    notebook.collect(request, until="raised ValueError")
    notebook.shows("%%dist\n1", "1")
