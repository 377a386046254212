"""Cells in the background as a person meets them: live output, what runs ahead of them, how they end."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.notebook import Notebook, Output

START = "%dist_init -n 2 --devices-per-process 2 --platform cpu"
PRINTS = """%%dist --no-wait
import jax, os, time
me = jax.process_index()
for i in range(3):
    print('tick', i)
while not os.path.exists({over!r}):
    time.sleep(0.01)
{then}
"""


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Notebook]:
    with Notebook(folder=tmp_path_factory.mktemp("background")) as found:
        found.good("%load_ext nbdist")
        found.good(START)
        yield found
        found.run("%dist_shutdown")


def begun(
    notebook: Notebook, over: Path, then: str = "", *, person: bool = False
) -> tuple[str, Output]:
    """A cell in the background that has printed, and waits for a file; its request and its output."""
    request = notebook.send(PRINTS.format(over=str(over), then=then), person=person)
    output = notebook.collect(request)
    assert output.error is None, output.traceback
    return request, notebook.collect(request, until="tick 2")


def numbered(output: Output) -> str:
    """The number of a cell in the background, which its first line says."""
    found = re.match(r"cell (\d+) in the background on processes 0, 1, since ", output.text)
    assert found is not None, output.text
    return found[1]


def test_output_comes_under_its_own_cell_while_another_runs(
    notebook: Notebook, tmp_path: Path
) -> None:
    over = tmp_path / "over"
    request, output = begun(notebook, over, "print('after all')")
    assert numbered(output)
    assert "processes 0, 1 running" in output.text
    over.touch()
    notebook.collect(request, until="ended after .* processes 0, 1 finished")
    assert "processes 0, 1\ntick 0\ntick 1\ntick 2\nafter all" in output.text
    assert "after all" in output.text


FAILS = "if me == 1: raise ValueError('boom')"


def test_a_failure_is_shown_when_it_happens(notebook: Notebook, tmp_path: Path) -> None:
    over = tmp_path / "over"
    request, output = begun(notebook, over, FAILS, person=True)
    over.touch()
    notebook.collect(request, until="ProcessError: process 1 raised ValueError")
    assert "ended after" in output.text
    assert "line 8" in output.text
    assert "process 1 raised ValueError" in notebook.good("_").text
    assert "goes on" in notebook.good("%dist 'goes on'").text


def test_where_nobody_can_be_shown_a_failure_the_next_cell_is_refused_with_it(
    notebook: Notebook, tmp_path: Path
) -> None:
    over = tmp_path / "over"
    request, output = begun(notebook, over, FAILS)
    over.touch()
    notebook.collect(request, until="ended after")
    refused = notebook.bad("%dist 'not run'")
    assert "not run'" not in refused.text
    assert "ValueError: boom" in refused.traceback and "line 8" in refused.traceback
    cell = f"cell {numbered(output)} failed in the background, and this cell was not run"
    assert f"{cell}: process 1 raised ValueError" in refused.traceback
    assert "goes on" in notebook.good("%dist 'goes on'").text, "once"


def test_sync_raises_how_a_cell_that_it_has_waited_for_has_failed(
    notebook: Notebook, tmp_path: Path
) -> None:
    for person in (True, False):
        over = tmp_path / f"over {person}"
        begun(notebook, over, FAILS, person=person)
        # It ends while it is waited for: what has ended before, a person has seen.
        later = f"import threading\nthreading.Timer(1, open, ({str(over)!r}, 'w')).start()\n"
        failed = notebook.collect(notebook.send(f"{later}%sync", person=person)).traceback
        assert failed.endswith("ProcessError: process 1 raised ValueError"), failed
        notebook.good("%sync")


def test_an_interrupt_says_what_it_interrupted(notebook: Notebook, tmp_path: Path) -> None:
    request, output = begun(notebook, tmp_path / "never")
    said = notebook.good("%dist_interrupt").text
    assert said == f"interrupted: cell {numbered(output)} (processes 0, 1)"
    notebook.collect(request, until="ended after .* processes 0, 1 interrupted")
    assert notebook.good("%dist_interrupt").text == "no cell is running"


def test_a_cell_that_must_wait_says_behind_which(notebook: Notebook, tmp_path: Path) -> None:
    over = tmp_path / "over"
    request, output = begun(notebook, over)
    number = numbered(output)
    queued = notebook.send("%%dist --on 0\nprint('my turn')")
    shown = notebook.collect(queued, until="queued")
    assert f"queued behind cell {number} (process 0)" in shown.text
    assert "my turn" not in shown.text
    over.touch()
    assert "my turn" in notebook.collect(queued, until="my turn").text
    notebook.collect(queued)
    notebook.collect(request, until="ended after")


TRAIN = """%%dist --no-wait
import jax, jax.numpy as jnp, numpy as np, nbdist
from jax.sharding import NamedSharding, PartitionSpec as P
mesh = jax.make_mesh((4,), ("x",))
w = jax.make_array_from_callback((8,), NamedSharding(mesh, P("x")), lambda i: np.ones(8, "float32")[i])
step = jax.jit(lambda w: w + w.sum() * 0)
done = 0
while True:
    nbdist.checkpoint()
    w = step(w)
    done += 1
    if done == 3: print("three steps")
"""
"""A training of which only the end is in the same place on all processes."""


def test_a_training_stops_before_the_same_step_on_all_and_stays_in_step(
    notebook: Notebook,
) -> None:
    request = notebook.send(TRAIN)
    output = notebook.collect(request)
    notebook.collect(request, until="three steps")
    said = notebook.good("%dist_interrupt --stop-at-step").text
    assert said == f"cell {numbered(output)} stops before the same step on processes 0, 1"
    notebook.collect(request, until=r"ended after .*: processes 0, 1 stopped before step \d+")
    assert "in step again" not in output.text
    same = notebook.good("%dist done").text
    assert re.fullmatch(r"processes 0, 1   \d+", same), same
    assert "processes 0, 1   1.0" in notebook.good("%dist float(w.sum() / 8)").text


def test_a_cell_without_steps_says_what_it_needs(notebook: Notebook, tmp_path: Path) -> None:
    over = tmp_path / "over"
    request, _ = begun(notebook, over)
    assert (
        "needs nbdist.checkpoint() in its loop"
        in notebook.good("%dist_interrupt --stop-at-step").text
    )
    over.touch()
    notebook.collect(request, until="ended after .* processes 0, 1 finished")
    assert "No cell runs" in notebook.bad("%dist_interrupt --stop-at-step").traceback


def test_the_stop_button_leaves_a_loop_with_checkpoints_in_step(notebook: Notebook) -> None:
    request = notebook.send(TRAIN.replace(" --no-wait", ""))
    notebook.collect(request, until="three steps")
    notebook.interrupt()
    stopped = notebook.collect(request)
    assert stopped.error is not None and stopped.error[0] == "KeyboardInterrupt"
    assert "in step again" not in stopped.text
    same = notebook.good("%dist done").text
    assert re.fullmatch(r"processes 0, 1   \d+", same), same


def test_cells_are_listed_followed_and_interrupted_one_by_one(
    notebook: Notebook, tmp_path: Path
) -> None:
    over = tmp_path / "over"
    request, output = begun(notebook, over)
    number = numbered(output)
    behind, waiting = begun_behind(notebook)
    listed = notebook.good("%dist_cells").text.splitlines()
    assert listed[0].split() == ["cell", "processes", "since", "for", "state", "first", "line"]
    assert re.search(
        rf"^ *{number} +0, 1 +[\d:]+ +[\d.]+ s +running(, line \d+)? +import jax", listed[-2]
    )
    assert f"queued behind cell {number} (processes 0, 1)" in listed[-1]
    following = notebook.send(f"%dist_cells {number}")
    followed = notebook.collect(following, until="tick 2")
    notebook.interrupt()
    assert notebook.collect(following).error is None
    assert "no longer followed here; the cell goes on" in followed.text
    assert "no cell 999 runs" in notebook.bad("%dist_cells 999").traceback.lower()
    assert "--interrupt needs the number" in notebook.bad("%dist_cells --interrupt").traceback
    said = notebook.good(f"%dist_cells {numbered(waiting)} --interrupt").text
    assert said == f"interrupted: cell {numbered(waiting)} (processes 0, 1)"
    # It is taken back at once, and the one that runs is left alone.
    notebook.collect(
        behind, until="ended after .* not run on processes 0, 1, stopped before it began"
    )
    assert "ended after" not in output.text
    over.touch()
    assert "finished" in notebook.collect(request, until="ended after").text
    assert "ran" not in waiting.text.split()


def test_the_stop_button_takes_a_cell_back_that_waits(notebook: Notebook, tmp_path: Path) -> None:
    over = tmp_path / "over"
    request, output = begun(notebook, over, "print('to the end')")
    queued = notebook.send("%%dist --on 0\nprint('my turn')")
    notebook.collect(queued, until="queued behind")
    notebook.interrupt()
    stopped = notebook.collect(queued)
    assert "not run on process 0, stopped before it began" in stopped.traceback
    assert stopped.error is not None and stopped.error[0] == "KeyboardInterrupt"
    over.touch()
    notebook.collect(request, until="ended after .* processes 0, 1 finished")
    assert "to the end" in output.text
    assert "True" in notebook.good("import nbdist\nnbdist.current().out_of_step is False").text
    assert "my turn" not in notebook.good("%%dist --on 0\nprint('next')").text


def test_a_cell_behind_one_that_fails_is_not_run_and_says_why(
    notebook: Notebook, tmp_path: Path
) -> None:
    over = tmp_path / "over"
    request, _ = begun(notebook, over, "raise ValueError('boom')", person=True)
    queued = notebook.send("%%dist\nprint('my turn')")
    notebook.collect(queued, until="queued behind")
    over.touch()
    said = notebook.collect(queued).traceback
    assert ("not run" in said and "an earlier cell had failed" in said) or "has failed" in said
    notebook.collect(request, until="raised ValueError")
    assert "1" in notebook.good("%%dist\n1").text


def begun_behind(notebook: Notebook) -> tuple[str, Output]:
    """A cell in the background that waits for another one."""
    request = notebook.send("%%dist --no-wait\nprint('ran')")
    return request, notebook.collect(request)
