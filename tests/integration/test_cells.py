"""What a cell does on the processes, in a real kernel on real engines."""

from __future__ import annotations

import re
import time
from pathlib import Path

import psutil
import pytest

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
        ("%pwd", "notebook0"),
        ("import sys\nprint('to stderr', file=sys.stderr)", "to stderr"),
        ("from IPython.display import HTML\nHTML('<b>bold</b>')", ""),
    ],
)
def test_everything_ipython_runs_works(notebook: Notebook, cell: str, expected: str) -> None:
    assert expected in notebook.good(f"%%dist\n{cell}").text


def test_html_and_figures_arrive_as_what_they_are(notebook: Notebook) -> None:
    html = notebook.good("%%dist\nfrom IPython.display import HTML\nHTML('<b>bold</b>')")
    assert any("<b>bold</b>" in data for data in html.mime("text/html"))
    figure = notebook.good("%%dist\nimport matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()")
    assert len(figure.mime("image/png")) == 1, "equal figures are one"


def test_a_printed_traceback_is_shown_once(notebook: Notebook) -> None:
    code = "try: 1 / 0\nexcept ZeroDivisionError: traceback.print_exc()"
    text = notebook.good(f"%%dist\nimport traceback\n{code}").text
    assert len(re.findall("File .*ipykernel_0.*, line 3", text)) == 1, text


def test_line_numbers_are_those_of_the_notebooks_cell(notebook: Notebook) -> None:
    output = notebook.bad("%%dist\nx = 1\n\n1 / 0")
    assert re.search(r"Cell In\[\d+\], line 4", output.traceback)
    assert "ZeroDivisionError" in output.traceback


def test_cell_numbers_are_the_notebooks(notebook: Notebook) -> None:
    here = re.search(r"Cell In\[(\d+)\]", notebook.bad("1 / 0").traceback)
    there = re.search(r"Cell In\[(\d+)\]", notebook.bad("%%dist\n1 / 0").traceback)
    assert here and there
    assert int(there.group(1)) == int(here.group(1)) + 1


def test_failure_on_all_processes_is_one_traceback_and_leaves_them_in_step(
    notebook: Notebook,
) -> None:
    output = notebook.bad("%%dist\nundefined_name")
    assert output.traceback.count("NameError") <= 4
    assert "processes 0, 1 raised NameError" in output.traceback
    assert "out of step" not in output.traceback
    assert "out of step" not in notebook.good("%%dist\n1").text


def test_syntax_error_is_shown_with_the_notebooks_line(notebook: Notebook) -> None:
    output = notebook.bad("%%dist\nok = 1\ndef f(:\n")
    assert "SyntaxError" in output.traceback
    assert "line 3" in output.traceback


def test_an_open_bracket_is_named_as_python_names_it(notebook: Notebook) -> None:
    assert "SyntaxError: '(' was never closed" in notebook.bad("%%dist\nx = (1,").traceback


def test_a_name_that_is_on_one_side_only_is_said_with_what_to_type(notebook: Notebook) -> None:
    notebook.good("only_here = 1\nimport wave\n%dist only_there = 2")
    assert "NameError" in notebook.bad("nowhere").traceback
    assert "%dist_push only_here sends it" in notebook.bad("%dist only_here").traceback
    assert "Import it in a %%dist cell, too" in notebook.bad("%dist wave.Error").traceback
    # A process that has just ended a cell is known to be idle a moment later.
    said = (
        "only_there exists on the processes, not in the notebook. %dist_pull only_there brings it."
    )
    wait_for(lambda: notebook.bad("only_there + 1").text == said)
    for name in ("nowhere", "%dist nowhere"):
        failed = notebook.bad(name)
        assert "exists" not in failed.text + failed.traceback


def test_input_fails_with_a_clear_error(notebook: Notebook) -> None:
    output = notebook.bad("%%dist\ninput('name? ')")
    assert "input('name? ') cannot be answered" in output.traceback
    assert "%dist_push" in output.traceback
    assert "kernel_gaps.py" not in output.traceback, "no frame of nbdist"


def test_a_cell_leaves_a_few_kilobytes_in_the_kernel(notebook: Notebook) -> None:
    """What `%dist_cells` lists, IPython's own history and late output's place: about 10 KB."""
    kernel, cells = psutil.Process(notebook.process.pid), 150
    for number in range(cells + 30):
        if number == 30:  # by now everything has been used once
            before = kernel.memory_info().rss
        notebook.good(f"%%dist\nprint({number})\n{number} + 1")
    assert (kernel.memory_info().rss - before) / cells < 50e3


@pytest.mark.parametrize("code", ["exit()", "exit", "quit()"])
def test_exit_is_refused_and_nothing_ends(notebook: Notebook, code: str) -> None:
    notebook.good("%dist before = 41")
    assert "Nothing was ended" in notebook.bad(f"%%dist\n{code}").traceback
    assert notebook.good("%dist before + 1").text.endswith("42")


def test_sys_exit_fails_the_cell_alone(notebook: Notebook) -> None:
    notebook.good("%dist before = 41")
    output = notebook.bad("%%dist\nimport sys\nsys.exit('no data')")
    assert "SystemExit: no data" in output.traceback
    assert "To exit" not in output.text
    assert notebook.good("%dist before + 1").text.endswith("42")


def test_question_mark_shows_help_once(notebook: Notebook) -> None:
    notebook.good("%%dist\ndef documented():\n    'Says what it does.'")
    text = notebook.good("%%dist\ndocumented?").text
    assert text.count("Says what it does.") == 1


def test_print_order_within_a_process_is_kept(notebook: Notebook) -> None:
    text = notebook.good(
        "%%dist --on 0\nimport sys\nfor i in range(50):\n"
        "    print(f'line {i:02d}', file=sys.stderr if i % 7 == 0 else sys.stdout, flush=True)"
    ).text
    assert re.findall(r"line (\d\d)", text) == [f"{i:02d}" for i in range(50)]


def waiting_for(over: Path) -> str:
    """Lines that wait until the test makes the file."""
    return f"import os, time\nwhile not os.path.exists({str(over)!r}):\n    time.sleep(0.02)\n"


def test_output_streams_while_the_cell_runs(notebook: Notebook, tmp_path: Path) -> None:
    over = tmp_path / "over"
    request = notebook.send(f"%%dist\nprint('early', flush=True)\n{waiting_for(over)}print('late')")
    early = notebook.collect(request, until="early")
    assert "late" not in early.text
    over.touch()
    late = notebook.collect(request)
    assert "late" in early.text + late.text


def test_output_of_file_descriptors_is_seen(notebook: Notebook) -> None:
    text = notebook.good("%%dist\nimport os\nos.write(2, b'written by a library\\n');").text
    assert "written by a library" in text


def test_engines_inherit_nothing_of_pytest(notebook: Notebook) -> None:
    text = notebook.good("%%dist\nimport os\nprint([k for k in os.environ if 'PYTEST' in k])").text
    assert "[]" in text


def test_targets_choose_processes(notebook: Notebook) -> None:
    own = "import jax\nprint('here', jax.process_index())"
    assert "here 0" not in notebook.good(f"%%dist --on 1\n{own}").text
    assert "here 1" not in notebook.good(f"%%rank [0]\n{own}").text
    assert "here 0" in notebook.good(f"%%rank[0,1-1]\n{own}").text
    assert "here 0" in notebook.good(f"%%distributed\n{own}").text


def test_one_line_runs_what_stands_behind_it(notebook: Notebook) -> None:
    assert "processes 0, 1   (3, 4)" in notebook.good("import math\n%dist 3, 4").text
    alone = notebook.good("%dist --on 1 [c for c in 'a  b']").text
    assert "process 1   ['a', ' ', ' ', 'b']" in alone
    failed = notebook.bad("%dist 1 / 0").traceback
    assert "ZeroDivisionError" in failed and "line 1" in failed
    assert "such as %dist x.shape" in notebook.bad("%dist").traceback
    assert "Did you mean --timeout" in notebook.bad("%dist --timout 3 1").traceback
    assert "--no-wait" in notebook.good("%dist --help").text
    both = notebook.good("%%dist --here\nhere_and_there = 4\nprint(here_and_there)").text
    assert "processes 0, 1   4\nin the notebook\n4" in both
    assert notebook.good("print(here_and_there)").text == "4"
    assert "Leave one of them out" in notebook.bad("%%dist --here --no-wait\n1").traceback
    for cell_magic in ("%%dist", "%%rank", "%%local"):
        assert f"usage: {cell_magic}" in notebook.good(f"{cell_magic} --help").text
    notebook.good("%%dist\nweights_there = 1")
    assert "weights_there" in notebook.complete("%dist_pull weights_th")[0]
    assert notebook.complete("%%dist --time")[0] == ["--timeout"]


def test_unknown_targets_and_options_change_nothing(notebook: Notebook) -> None:
    assert "processes 0 to 1" in notebook.bad("%%dist --on 5\n1").traceback
    wrong = notebook.bad("%%dist --timout 3\n1").traceback
    assert "Did you mean --timeout" in wrong
    assert "OptionError" in wrong


def test_no_wait_gives_a_handle_that_shows_the_output_later(
    notebook: Notebook, tmp_path: Path
) -> None:
    over = tmp_path / "over"
    started = notebook.good(f"%%dist --no-wait\n{waiting_for(over)}print('after all')")
    assert "running" in started.text
    assert "after all" not in started.text
    over.touch()
    assert "after all" in notebook.good("_.wait();").text


def test_sync_waits_for_what_was_not_waited_for(notebook: Notebook) -> None:
    notebook.good("%%dist --no-wait\nimport time\ntime.sleep(1)\nended = time.time()")
    notebook.good("%sync\nimport time\nsynced = time.time()")
    assert (
        "True"
        in notebook.good(
            "import nbdist\nended = nbdist.current().pull('ended', each=True)\n"
            "print(max(ended.values()) <= synced)"
        ).text
    )


def test_timeout_interrupts_and_keeps_variables(notebook: Notebook) -> None:
    output = notebook.bad("%%dist --on 0 --timeout 1\nkept = 5\nimport time\ntime.sleep(60)")
    assert "CellTimeout" in output.traceback
    assert output.seconds < 30
    assert "5" in notebook.good("%%dist --on 0\nkept").text
    notebook.good("%dist_init --restart")


def test_mode_sends_plain_cells_and_local_escapes_it(notebook: Notebook) -> None:
    notebook.good("%dist_mode -e")
    try:
        assert "processes 0, 1" in notebook.good("there = 7\nthere").text
        assert "NameError" in notebook.bad("%%local\nthere").traceback
        assert "line 2" in notebook.bad("x = 1\n1 / 0").traceback
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
    output = notebook.good(
        "%%dist\nfor i in range(40000):\n    print(f'flood {i:06d} ' + 'x' * 40)", timeout_s=120
    )
    assert "flood 000000" in output.text
    assert "flood 039999" in output.text
    assert len(output.text) < 200_000
    path = re.search(r"(/\S+/cell-\d+\S*)", output.text)
    assert path, output.text[:2000]
    kept = notebook.good(f"print(open('{path.group(1)}').read().count('flood'))").text
    assert "40000" in kept


def test_a_mesh_is_named_with_or_without_quotes(notebook: Notebook) -> None:
    notebook.good("%%dist\nimport jax.numpy as jnp\ntree = {'w': jnp.ones((2, 3))}")
    for line in ("tree['w']", "\"tree['w']\""):
        assert "tree['w']" in notebook.good(f"%dist_mesh {line}").text
    assert "Did you mean" in notebook.bad("%dist_mesh tree['v']").traceback
    assert "has no option" in notebook.bad("%dist_mesh --colour").traceback


def test_unknown_names_are_not_pushed(notebook: Notebook) -> None:
    error = notebook.bad("known = 1\n%dist_push known nowhere").traceback
    assert "no name 'nowhere'; nothing was sent" in error
    assert "NameError" in notebook.bad("%%dist\nknown").traceback
