"""What processes are in the middle of, while they run a cell."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.notebook import Notebook
from tests.waiting import wait_for

RUNS = """%%dist --no-wait
import jax, os, threading, time
def waits():
    while not os.path.exists({over!r}):
        time.sleep(0.01)
def leads():
    waits()
print('in it', flush=True)
leads() if jax.process_index() == 0 else waits()
"""


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Notebook]:
    with Notebook(folder=tmp_path_factory.mktemp("stacks")) as found:
        found.good("%load_ext nbdist")
        found.good("%dist_init -n 2 --platform cpu")
        yield found
        found.run("%dist_shutdown")


def test_stacks_are_read_while_a_cell_runs(notebook: Notebook, tmp_path: Path) -> None:
    over = tmp_path / "over"
    request = notebook.send(RUNS.format(over=str(over)))
    output = notebook.collect(request)
    notebook.collect(request, until="in it")
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
    assert re.search(r"and \d+ other threads: %dist_stack with a process shows them", second)
    whole = notebook.good("%dist_stack 1").text
    assert "  nbdist-probe\n" in whole and "process 0" not in whole
    assert "processes 0 to 1" in notebook.bad("%dist_stack 7").traceback
    native = notebook.good("%dist_stack 1 --native").text
    # Not everywhere may a process be traced.
    assert re.search(r"waits \(\d+\.py:\d+\)", native) or "no native stack" in native, native
    over.touch()
    notebook.collect(request, until="ended after .* processes 0, 1 finished")


def test_equal_stacks_are_shown_once(notebook: Notebook) -> None:
    # Right after a cell one of them may still be sending what it has to report.
    wait_for(lambda: notebook.good("%dist_stack").text.count("MainThread") == 1)
