"""Cells in the background when the notebook's kernel restarts, on a session that is kept."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builders.cells import SPREAD, SUM, until
from tests.integration.notebook import Notebook


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Notebook]:
    folder = tmp_path_factory.mktemp("restarted")
    with Notebook(folder=folder, environment={"NBDIST_STATE": str(folder / "state")}) as found:
        found.good("%load_ext nbdist")
        found.good("%dist_init -n 2 --devices-per-process 2 --platform cpu --keep")
        found.good(f"%%dist\n{SPREAD}")
        yield found
        found.run("%dist_shutdown")


def background(notebook: Notebook, code: str, seen: str) -> None:
    notebook.background(f"%%dist --no-wait --grace 0.5\n{code}", seen)


def restart(notebook: Notebook) -> None:
    notebook.manager.restart_kernel()
    notebook.client.wait_for_ready(timeout=60)
    notebook.good("%load_ext nbdist")


def states(notebook: Notebook, last: int) -> list[str]:
    return notebook.good("%dist_cells").text.splitlines()[-last:]


def test_one_at_a_breakpoint_is_answered_from_the_next_kernel_and_one_behind_it_runs(
    notebook: Notebook,
) -> None:
    at_breakpoint = "if me == 1: breakpoint()\nprint('sum', float(w.sum()))"
    background(notebook, at_breakpoint, "opens the prompt")
    background(notebook, "after = 1\nprint('second')", "queued behind")
    restart(notebook)
    notebook.good("%dist_init --attach last")
    at_prompt, behind = states(notebook, 2)
    assert "process 1" in at_prompt and "breakpoint" in at_prompt
    assert re.search(r"queued behind cell \d+ \(processes 0, 1\)", behind)
    request = notebook.send("%dist_debug 1", person=True)
    for line in ("p me + 41", "c"):
        assert notebook.asked(request) == "process 1 ipdb> "
        notebook.types(line)
    answered = notebook.collect(request)
    assert answered.error is None, answered.traceback
    assert "\n42\n" in answered.text and "sum 8.0" in answered.text
    notebook.good("%sync")
    notebook.shows("%dist after", "processes 0, 1   1")


def test_one_that_fails_while_no_kernel_is_there_is_seen_to_by_the_next(
    notebook: Notebook, tmp_path: Path
) -> None:
    now = tmp_path / "now"
    fails = "if me == 1: raise ValueError('away')\nprint(float(w.sum()))"
    background(notebook, f"print('begun', flush=True)\n{until(now)}{fails}", "begun")
    notebook.manager.shutdown_kernel(restart=True)
    now.touch()
    time.sleep(0.5)
    restart(notebook)
    attached = notebook.send("%dist_init --attach last", person=True)
    shown = notebook.collect(attached)
    assert shown.error is None, shown.traceback
    notebook.collect(attached, until="ValueError: away", output=shown)
    notebook.shows("%dist float(w.sum())", SUM)
    assert "raised" in states(notebook, 2)[0]
