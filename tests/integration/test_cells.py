"""What a cell does on the processes, in a real kernel on real engines."""

from __future__ import annotations

import re
import time
from pathlib import Path

import psutil
import pytest

from tests.builders.cells import until
from tests.integration.notebook import Notebook
from tests.waiting import wait_for


def test_equal_outputs_are_shown_once_and_differing_ones_by_process(notebook: Notebook) -> None:
    text = notebook.good(
        "%%dist\nimport jax\nprint('same')\nprint('own', jax.process_index())"
    ).text
    assert text.count("same") == 1
    assert re.search(r"processes 0, 1\s+same", text)
    assert re.search(r"process 0\s+own 0", text)
    assert re.search(r"process 1\s+own 1", text)


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("1 + 1", "2"),
        ("import asyncio\nawait asyncio.sleep(0.01)\n'awaited'", "'awaited'"),
        ("!echo from the shell", "from the shell"),
        ("%%capture caught\nprint(1)", ""),
        ("%%capture caught\nprint('x')\n", ""),
        ("%pwd", "cells0"),
        ("import sys\nprint('to stderr', file=sys.stderr)", "to stderr"),
        ("import os\nos.write(2, b'written by a library\\n');", "written by a library"),
        ("import os\nprint([k for k in os.environ if 'PYTEST' in k])", "[]"),
        ("import math\n3, 4", "(3, 4)"),
    ],
)
def test_everything_ipython_runs_works(notebook: Notebook, cell: str, expected: str) -> None:
    notebook.shows(f"%%dist\n{cell}", expected)


def test_html_and_figures_arrive_as_what_they_are(notebook: Notebook) -> None:
    html = notebook.good("%%dist\nfrom IPython.display import HTML\nHTML('<b>bold</b>')")
    assert any("<b>bold</b>" in data for data in html.mime("text/html"))
    figure = notebook.good("%%dist\nimport matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()")
    assert len(figure.mime("image/png")) == 1, "equal figures are one"


def test_a_printed_traceback_is_shown_once(notebook: Notebook) -> None:
    code = "try: 1 / 0\nexcept ZeroDivisionError: traceback.print_exc()"
    text = notebook.good(f"%%dist\nimport traceback\n{code}").text
    assert len(re.findall("File .*ipykernel_0.*, line 3", text)) == 1, text


@pytest.mark.parametrize(
    ("cell", "values"),
    [
        ("x = 1\n\n1 / 0", ("ZeroDivisionError", "], line 4")),
        ("undefined_name", ("ProcessError", "Processes 0, 1 raised NameError")),
        ("ok = 1\ndef f(:\n", ("SyntaxError", "line 3")),
        ("x = (1,", ("SyntaxError: '(' was never closed",)),
        ("input('name? ')", ("input('name? ')", "%dist_push")),
        ("import sys\nsys.exit('no data')", ("SystemExit: no data",)),
        ("exit()", ("Nothing was ended",)),
        ("exit", ("Nothing was ended",)),
        ("quit()", ("Nothing was ended",)),
    ],
)
def test_a_cell_that_fails_on_all_says_where_once_and_leaves_them_in_step_with_their_names(
    notebook: Notebook, cell: str, values: tuple[str, ...]
) -> None:
    notebook.good("%dist before = 41")
    output = notebook.fails(f"%%dist\n{cell}", *values)
    assert output.traceback.count("NameError") <= 4
    shown = output.text + output.traceback
    for nowhere in ("out of step", "kernel/shell.py", "To exit"):
        assert nowhere not in shown
    assert "out of step" not in notebook.shows("%dist before + 1", "42")


def test_cell_numbers_are_the_notebooks(notebook: Notebook) -> None:
    here = re.search(r"Cell In\[(\d+)\]", notebook.bad("1 / 0").traceback)
    there = re.search(r"Cell In\[(\d+)\]", notebook.bad("%%dist\n1 / 0").traceback)
    assert here and there
    assert int(there.group(1)) == int(here.group(1)) + 1


def test_a_name_that_is_on_one_side_only_is_said_with_what_to_type(notebook: Notebook) -> None:
    notebook.good("only_here = 1\nimport wave\n%dist only_there = 2")
    notebook.fails("nowhere", "NameError")
    notebook.fails("%dist only_here", "%dist_push only_here")
    notebook.fails("%dist wave.Error", "Import it in a %%dist cell, too")
    # A process that has just ended a cell is known to be idle a moment later.
    wait_for(lambda: "%dist_pull only_there" in notebook.bad("only_there + 1").text)
    for name in ("nowhere", "%dist nowhere"):
        failed = notebook.bad(name)
        assert "exists" not in failed.text + failed.traceback


def test_a_cell_leaves_a_few_kilobytes_in_the_kernel(notebook: Notebook) -> None:
    """What `%dist_cells` lists, IPython's own history and late output's place: about 10 KB."""
    kernel, cells = psutil.Process(notebook.process.pid), 150
    for number in range(cells + 30):
        if number == 30:  # by now everything has been used once
            before = kernel.memory_info().rss
        notebook.good(f"%%dist\nprint({number})\n{number} + 1")
    assert (kernel.memory_info().rss - before) / cells < 50e3


def test_question_mark_shows_help_once(notebook: Notebook) -> None:
    notebook.good("%%dist\ndef documented():\n    'Says what it does.'")
    assert notebook.good("%%dist\ndocumented?").text.count("Says what it does.") == 1


def test_print_order_within_a_process_is_kept(notebook: Notebook) -> None:
    text = notebook.good(
        "%%dist --on 0\nimport sys\nfor i in range(50):\n"
        "    print(f'line {i:02d}', file=sys.stderr if i % 7 == 0 else sys.stdout, flush=True)"
    ).text
    assert re.findall(r"line (\d\d)", text) == [f"{i:02d}" for i in range(50)]


def test_targets_choose_processes(notebook: Notebook) -> None:
    own = "import jax\nprint('here', jax.process_index())"
    assert "here 0" not in notebook.shows(f"%%dist --on 1\n{own}", "here 1")
    assert "here 1" not in notebook.shows(f"%%rank [0]\n{own}", "here 0")
    for both in ("%%rank[0,1-1]", "%%distributed"):
        notebook.shows(f"{both}\n{own}", "here 0", "here 1")


def test_one_line_runs_what_stands_behind_it(notebook: Notebook) -> None:
    notebook.shows("%dist 3, 4", "processes 0, 1   (3, 4)")
    notebook.shows("%dist --on 1 [c for c in 'a  b']", "process 1   ['a', ' ', ' ', 'b']")
    notebook.fails("%dist 1 / 0", "ZeroDivisionError", "line 1")
    notebook.fails("%dist", "%dist x.shape")
    notebook.shows("%dist --help", "--no-wait")
    assert "--no-wait" in notebook.inspect("%%dist?")
    both = "%%dist --here\nhere_and_there = 4\nprint(here_and_there)"
    notebook.shows(both, "processes 0, 1   4\nin the notebook\n4")
    assert notebook.good("print(here_and_there)").text == "4"
    for cell_magic in ("%%dist", "%%rank", "%%local"):
        notebook.shows(f"{cell_magic} --help", f"usage: {cell_magic}")
    notebook.good("%%dist\nweights_there = 1")
    assert "weights_there" in notebook.complete("%dist_pull weights_th")[0]
    assert notebook.complete("%%dist --time")[0] == ["--timeout"]


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("%%dist --on 5\n1", ("processes 0 to 1",)),
        ("%%dist --timout 3\n1", ("OptionError", "--timeout")),
        ("%dist --timout 3 1", ("OptionError", "--timeout")),
        ("%%dist --here --no-wait\n1", ("Leave one of them out",)),
        ("%dist_push known nowhere", ("'nowhere'", "nothing was sent")),
        ("%dist_mesh tree['v']", ("Did you mean",)),
        ("%dist_mesh --colour", ("has no option",)),
    ],
)
def test_unknown_targets_options_and_names_change_nothing(
    notebook: Notebook, line: str, values: tuple[str, ...]
) -> None:
    notebook.good("known = 1")
    notebook.good("%%dist\nimport jax.numpy as jnp\ntree = {'w': jnp.ones((2, 3))}")
    notebook.fails(line, *values)
    notebook.fails("%%dist\nknown", "NameError")


@pytest.mark.parametrize("line", ["tree['w']", "\"tree['w']\""])
def test_a_mesh_is_named_with_or_without_quotes(notebook: Notebook, line: str) -> None:
    notebook.good("%%dist\nimport jax.numpy as jnp\ntree = {'w': jnp.ones((2, 3))}")
    notebook.shows(f"%dist_mesh {line}", "tree['w']")


def test_no_wait_gives_a_handle_that_shows_the_output_later(
    notebook: Notebook, tmp_path: Path
) -> None:
    over = tmp_path / "over"
    started = notebook.shows(f"%%dist --no-wait\n{until(over)}print('after all')", "running")
    assert "after all" not in started
    over.touch()
    notebook.shows("_.wait();", "after all")


def test_timeout_interrupts_and_keeps_variables(notebook: Notebook) -> None:
    cell = "%%dist --on 0 --timeout 1\nkept = 5\nimport time\ntime.sleep(60)"
    assert notebook.fails(cell, "CellTimeout").seconds < 30
    notebook.shows("%%dist --on 0\nkept", "5")


def test_mode_sends_plain_cells_and_local_escapes_it(notebook: Notebook) -> None:
    notebook.good("%dist_mode -e")
    try:
        notebook.shows("there = 7\nthere", "processes 0, 1")
        notebook.fails("%%local\nthere", "NameError")
        notebook.fails("x = 1\n1 / 0", "line 2")
        notebook.good("%dist_status")
    finally:
        notebook.good("%dist_mode -d")
    assert "processes" not in notebook.good("1 + 1").text


def test_completion_and_inspection_come_from_a_process(notebook: Notebook) -> None:
    notebook.good("%%dist\nonly_over_there = {'a': 1}\ndef asked():\n    'An answer.'")
    time.sleep(0.3)
    matches, _ = notebook.complete("%%dist\nonly_over_th")
    assert "only_over_there" in matches
    # One that has no answer in time is none, and a busy machine takes longer.
    wait_for(lambda: "An answer." in notebook.inspect("%%dist\nasked"))
    # In a plain cell the notebook's own names are meant; jedi takes seconds to read what it reads first.
    notebook.good("%config IPCompleter.use_jedi = False")
    assert "only_over_there" not in notebook.complete("only_over_th")[0]


def test_a_flood_is_cut_and_kept_in_whole(notebook: Notebook) -> None:
    cell = "%%dist\nfor i in range(40000):\n    print(f'flood {i:06d} ' + 'x' * 40)"
    text = notebook.shows(cell, "flood 000000", "flood 039999", timeout_s=120)
    assert len(text) < 200_000
    path = re.search(r"(/\S+/cell-\d+\S*)", text)
    assert path, text[:2000]
    notebook.shows(f"print(open('{path.group(1)}').read().count('flood'))", "40000")
