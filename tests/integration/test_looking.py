"""Looking at arrays that lie on several processes: their values, where NaN are, models as trees."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.notebook import Notebook
from tests.waiting import wait_for

SETUP = """%%dist
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P
mesh = jax.make_mesh((4,), ("data",))
values = np.zeros((8, 3), "float32")
values[5, 1], values[7, 2] = np.nan, np.inf
split = NamedSharding(mesh, P("data"))
w = jax.make_array_from_callback(values.shape, split, lambda index: values[index])
params = {"w": w, "b": jnp.zeros(3), "n": 1}
"""


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Notebook]:
    with Notebook(folder=tmp_path_factory.mktemp("looking")) as found:
        found.good("%load_ext nbdist")
        found.good("%dist_init -n 2 --devices-per-process 2 --platform cpu")
        found.good(SETUP)
        yield found
        found.run("%dist_shutdown")


def test_it_says_in_which_array_and_on_which_process(notebook: Notebook) -> None:
    lines = [line.split() for line in notebook.good("%dist_nan params").text.splitlines()]
    assert lines[1] == ["params['w']", "f32[8,", "3]", "1", "1"]
    assert lines[2][:2] == ["process", "1,"] and lines[2][4:] == ["[4:6,", ":]", "1", "0"]
    assert lines[3][:2] == ["process", "1,"] and lines[3][4:] == ["[6:8,", ":]", "0", "1"]
    assert len(lines) == 4


def test_expressions_are_evaluated_on_all_and_leave_all_in_step(notebook: Notebook) -> None:
    assert (
        "no NaN or Inf in 1 array of jnp.nan_to_num(w)"
        in notebook.good("%dist_nan jnp.nan_to_num(w)").text
    )
    assert "checked just now" in notebook.good("%dist_recover").text


def test_a_name_that_is_not_there_says_so(notebook: Notebook) -> None:
    assert "ArrayError" in notebook.bad("%dist_nan nothing_of_this_name").traceback
    assert "usage" in notebook.good("%dist_nan").text.lower()


def test_an_array_at_the_end_of_a_cell_shows_its_values(notebook: Notebook) -> None:
    lines = notebook.good("%%dist\nw").text.splitlines()
    assert lines[:2] == ["processes 0, 1", "f32[8, 3]  P('data', None) on mesh data=4"]
    assert lines[2] == "[[ 0.  0.  0.]" and lines[7] == " [ 0. nan  0.]"
    assert lines[-1] == "min 0  mean inf  max inf  NaN 1, left out of these"


def test_a_large_array_of_which_each_process_has_a_copy_shows_its_values_once(
    notebook: Notebook,
) -> None:
    notebook.good(
        "%%dist\nwhole = np.ones((600, 500), 'float32'); whole[1, 1] = np.nan\n"
        "copies = jax.make_array_from_callback((600, 500), NamedSharding(mesh, P()), lambda i: whole)"
    )
    lines = notebook.good("%dist copies").text.splitlines()
    assert lines[:2] == ["processes 0, 1", "f32[600, 500]  P(None, None) on mesh data=4"]
    assert lines[2] == "[[ 1.  1.  1. ...  1.  1.  1.]" and "nan" in lines[3]
    assert lines[-1] == "min 1  mean 1  max 1  NaN 1, left out of these"
    assert notebook.good("%dist --on 1 copies").text.splitlines()[1 - len(lines) :] == lines[1:]
    # What is small JAX shows itself.
    small = "jax.make_array_from_callback((2,), NamedSharding(mesh, P()), lambda i: np.ones(2))"
    assert "Array([1., 1.]" in notebook.good(f"%dist {small}").text


def test_one_process_shows_what_it_has_and_says_what_is_missing(notebook: Notebook) -> None:
    shown = notebook.good("%%dist --on 0\nw").text
    assert shown.count("--") == 12
    assert "NaN 0  of 12 of 24 values: these processes have no others" in shown


def test_a_tree_shows_its_branches_and_what_devices_need(notebook: Notebook) -> None:
    lines = notebook.good("%dist_shards params").text.splitlines()
    assert lines[0] == "params  2 arrays, 108 B; a device needs up to 36 B"
    assert [line.split()[0] for line in lines[1:]] == ["array", "['w']", "['b']"]
    assert notebook.good("%dist_layout params").text.splitlines() == lines
    by_bytes = notebook.good("%dist_shards --by-bytes params").text.splitlines()
    assert by_bytes[2].split()[0] == "params['w']"
    assert "holds no JAX arrays" in notebook.bad("%dist_shards params['n']").traceback
    late = notebook.bad("%dist_shards params --by-bytes").traceback
    assert late.endswith(
        "--by-bytes goes before the expression, such as %dist_shards --by-bytes params."
    )


def test_while_a_cell_runs_what_was_reported_is_shown_at_once(
    notebook: Notebook, tmp_path: Path
) -> None:
    over = tmp_path / "over"
    request = notebook.send(
        "%%dist --no-wait\nimport os, time\nprint('begun')\n"
        f"while not os.path.exists({str(over)!r}): time.sleep(0.01)"
    )
    notebook.collect(request)
    notebook.collect(request, until="begun")
    lines = notebook.good("%dist_shards params").text.splitlines()
    assert lines[0].startswith("as last reported, while process 0 is in cell ")
    assert lines[1] == "params  2 arrays, 108 B; a device needs up to 36 B"
    assert "'w[:2]' was not: %dist_mesh lists" in notebook.bad("%dist_shards w[:2]").traceback
    # The line of the cell may be known by now.
    again = notebook.good("%dist_layout params").text.splitlines()
    assert again[0].startswith(lines[0].split(", line ")[0]) and again[1:] == lines[1:]
    for look in ("%dist_pull w", "%dist_nan w", "%dist_nan w[:2]"):
        assert "%sync waits for it" in notebook.bad(look).traceback, look
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
    notebook.interrupt()
    shown = notebook.collect(request).traceback
    assert shown == f"KeyboardInterrupt: %{magic} was interrupted."
    assert "nothing to do" in notebook.good("%dist_recover").text


def test_the_view_and_the_help_on_a_name_show_values(notebook: Notebook) -> None:
    assert "min 0  mean inf  max inf  NaN 1" in notebook.inspect("%%dist\nw")
    answer = notebook.ask_view({"type": "values", "path": "params['w']"})
    assert answer["text"].startswith("f32[8, 3]  P('data', None) on mesh data=4\n[[ 0.  0.  0.]")
    assert (answer["picture"]["rows"], answer["picture"]["columns"]) == (8, 3)
    assert answer["picture"]["values"].count("nan") == 2
    answer = notebook.ask_view({"type": "values", "path": "gone"})
    assert answer["error"] == "There is no array gone any more."
