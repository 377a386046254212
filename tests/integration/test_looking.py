"""Looking at processes: values of arrays, where NaN are, models as trees, and what they are in the middle of."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.builders.cells import SPREAD, until
from tests.integration.notebook import Notebook
from tests.waiting import wait_for

SETUP = f"""{SPREAD}
values = np.zeros((8, 3), "float32")
values[5, 1], values[7, 2] = np.nan, np.inf
w = spread(values, "x")
params = {{"w": w, "b": jnp.zeros(3), "n": 1}}
"""


def test_it_says_in_which_array_and_on_which_process(notebook: Notebook) -> None:
    lines = [line.split() for line in notebook.good("%dist_nan params").text.splitlines()]
    assert lines[1] == ["params['w']", "f32[8,", "3]", "1", "1"]
    assert lines[2][:5] == [*["process", "1", "·", "device", "0"]] and lines[2][5:] == [
        "[4:6,",
        ":]",
        "1",
        "0",
    ]
    assert lines[3][:5] == [*["process", "1", "·", "device", "1"]] and lines[3][5:] == [
        "[6:8,",
        ":]",
        "0",
        "1",
    ]
    assert len(lines) == 4


def test_expressions_are_evaluated_on_all_and_leave_all_in_step(notebook: Notebook) -> None:
    notebook.shows("%dist_nan jnp.nan_to_num(w)", "1 array of jnp.nan_to_num(w)")
    notebook.shows("%dist_recover", "Nothing was changed")


def test_a_name_that_is_not_there_says_so(notebook: Notebook) -> None:
    notebook.fails("%dist_nan nothing_of_this_name", "ArrayError")
    assert "usage" in notebook.good("%dist_nan").text.lower()


def test_an_array_at_the_end_of_a_cell_shows_its_values(notebook: Notebook) -> None:
    lines = notebook.good("%%dist\nw").text.splitlines()
    assert lines[:2] == ["processes 0, 1", "f32[8, 3]  P('x', None) on mesh x=4"]
    assert lines[2] == "[[ 0.  0.  0.]" and lines[7] == " [ 0. nan  0.]"
    assert lines[-1].startswith("min 0  mean inf  max inf  NaN 1")


def test_a_large_array_of_which_each_process_has_a_copy_shows_its_values_once(
    notebook: Notebook,
) -> None:
    notebook.good(
        "%%dist\nwhole = np.ones((600, 500), 'float32'); whole[1, 1] = np.nan\ncopies = spread(whole)"
    )
    lines = notebook.good("%dist copies").text.splitlines()
    assert lines[:2] == ["processes 0, 1", "f32[600, 500]  P(None, None) on mesh x=4"]
    assert lines[2] == "[[ 1.  1.  1. ...  1.  1.  1.]" and "nan" in lines[3]
    assert lines[-1].startswith("min 1  mean 1  max 1  NaN 1")
    assert notebook.good("%dist --on 1 copies").text.splitlines()[1 - len(lines) :] == lines[1:]
    notebook.shows("%dist spread(np.ones(2))", "Array([1., 1.]")  # what is small JAX shows itself


def test_one_process_shows_what_it_has_and_says_what_is_missing(notebook: Notebook) -> None:
    assert notebook.shows("%%dist --on 0\nw", "NaN 0  of 12 of 24 values").count("--") == 12


def test_a_tree_shows_its_branches_and_what_devices_need(notebook: Notebook) -> None:
    lines = notebook.good("%dist_shards params").text.splitlines()
    assert lines[0].startswith("params  2 arrays, 108 B; ") and "36 B" in lines[0]
    assert [line.split()[0] for line in lines[1:]] == ["array", "['w']", "['b']"]
    assert notebook.good("%dist_layout params").text.splitlines() == lines
    by_bytes = notebook.good("%dist_shards --by-bytes params").text.splitlines()
    assert by_bytes[2].split()[0] == "params['w']"
    notebook.fails("%dist_shards params['n']", "holds no JAX arrays")
    notebook.fails("%dist_shards params --by-bytes", "%dist_shards --by-bytes params.")


def test_while_a_cell_runs_what_was_reported_is_shown_at_once(
    notebook: Notebook, tmp_path: Path
) -> None:
    over = tmp_path / "over"
    cell = f"%%dist --no-wait\nprint('begun')\n{until(over)}"
    request, _ = notebook.background(cell, "begun")
    lines = notebook.good("%dist_shards params").text.splitlines()
    assert lines[0].startswith("as last reported, ")
    assert lines[1].startswith("params  2 arrays, 108 B")
    notebook.fails("%dist_shards w[:2]", "'w[:2]'", "%dist_mesh")
    # The line of the cell may be known by now.
    again = notebook.good("%dist_layout params").text.splitlines()
    assert again[0].startswith(lines[0].split(", line ")[0]) and again[1:] == lines[1:]
    for look in ("%dist_pull w", "%dist_nan w", "%dist_nan w[:2]"):
        notebook.fails(look, "%sync")
    assert notebook.complete("%%dist\npara")[0] == ["params"]
    assert "params['w']" in notebook.complete("%dist_shards params")[0]
    over.touch()
    notebook.collect(request, until="ended after")
    assert notebook.good("%dist_pull w\nw.shape").text == "(8, 3)"


@pytest.mark.parametrize("magic", ["dist_shards", "dist_nan", "dist_layout"])
def test_an_interrupted_look_says_so_in_one_line_and_leaves_all_in_step(
    notebook: Notebook, tmp_path: Path, magic: str
) -> None:
    begun = tmp_path / "begun"
    request = notebook.send(
        f"%{magic} (open({str(begun)!r}, 'w').close() or __import__('time').sleep(600))"
    )
    wait_for(begun.exists)
    shown = notebook.stopped(request).traceback
    assert shown == f"KeyboardInterrupt: %{magic} was interrupted."
    notebook.shows("%dist_recover", "Nothing was changed")


def test_the_view_and_the_help_on_a_name_show_values(notebook: Notebook) -> None:
    assert "min 0  mean inf  max inf  NaN 1" in notebook.inspect("%%dist\nw")
    answer = notebook.ask_view({"type": "values", "path": "params['w']"})
    assert answer["text"].startswith("f32[8, 3]  P('x', None) on mesh x=4\n[[ 0.  0.  0.]")
    assert (answer["picture"]["rows"], answer["picture"]["columns"]) == (8, 3)
    assert answer["picture"]["values"].count("nan") == 2
    assert "gone" in notebook.ask_view({"type": "values", "path": "gone"})["error"]


def test_stacks_are_read_while_a_cell_runs(notebook: Notebook, tmp_path: Path) -> None:
    over = tmp_path / "over"
    cell = (
        f"%%dist --no-wait\nimport os, time\ndef waits():\n    while not os.path.exists({str(over)!r}):\n"
        "        time.sleep(0.01)\ndef leads():\n    waits()\nprint('in it', flush=True)\n"
        "leads() if me == 0 else waits()"
    )
    request, output = notebook.background(cell, "in it")
    number = re.match(r"cell (\d+) in the background", output.text)
    assert number is not None
    cell = rf"Cell In\[{number[1]}\]"
    # The line is printed before the call that follows it has begun.
    while "in waits" not in (shown := notebook.good("%dist_stack").text):
        pass
    first, second = re.split(r"\n(?=process 1)", shown)
    assert first.startswith("process 0\n  MainThread\n")
    assert re.search(rf"{cell}, line 9, in <module>: leads\(\) if", first)
    assert re.search(rf"{cell}, line 7, in leads: waits\(\)", first)
    assert re.search(rf"{cell}, line [45], in waits", second)
    assert "in leads" not in second
    assert re.search(r"\d+ other threads: %dist_stack", second)
    assert "process 0" not in notebook.shows("%dist_stack 1", "  nbdist-probe\n")
    notebook.fails("%dist_stack 7", "processes 0 to 1")
    native = notebook.good("%dist_stack 1 --native").text
    # Not everywhere may a process be traced.
    assert re.search(r"waits \(\d+\.py:\d+\)", native) or "no native stack" in native, native
    over.touch()
    notebook.collect(request, until="ended after .* processes 0, 1 finished")


def test_equal_stacks_are_shown_once(notebook: Notebook) -> None:
    # Right after a cell one of them may still be sending what it has to report.
    wait_for(lambda: notebook.good("%dist_stack").text.count("MainThread") == 1)
