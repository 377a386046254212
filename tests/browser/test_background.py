"""A training in the background in a real JupyterLab: its output goes on under its cell while others run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from labpage import Lab, LabPage, notebook
from playwright.sync_api import Browser, expect

START = "%load_ext nbdist\n%dist_init -n 2 --devices-per-process 2 --platform cpu"

TRAIN = """%%dist --no-wait
import os, time
import jax

me, step = jax.process_index(), 0
while not os.path.exists({told!r}):
    step += 1
    print(f"step {{step}}")
    time.sleep(0.5)
if me == 1:
    raise ValueError("no data")"""

LIST = "%dist_cells"
THEMES = {"light": "JupyterLab Light", "dark": "JupyterLab Dark"}


@pytest.mark.parametrize("theme", THEMES)
def test_output_is_live_under_its_own_cell_and_a_failure_is_shown_when_it_happens(
    browser: Browser, lab: Lab, shots: Path, tmp_path: Path, theme: str
) -> None:
    told = tmp_path / "told"
    train = TRAIN.format(told=str(told))
    name = notebook(lab, f"background-{theme}.ipynb", START, train, LIST, "%%dist\n'next'")
    page = browser.new_page(viewport={"width": 1300, "height": 900})
    lab_ = LabPage(page, lab)
    try:
        lab_.open(name)
        lab_.wait_for_kernel()
        lab_.command("apputils:change-theme", {"theme": THEMES[theme]})
        lab_.run_cells(3)
        outputs = page.locator(".jp-Notebook .jp-CodeCell .jp-OutputArea.jp-Cell-outputArea")
        training, listed = outputs.nth(1), outputs.nth(2)
        expect(training).to_contain_text(re.compile(r"in the background on processes 0, 1, since"))
        expect(listed).to_contain_text(re.compile(r"running.*import os, time"))
        expect(training).to_contain_text("step 3", timeout=60_000)
        assert not lab_.busy()
        page.screenshot(path=shots / f"background-{theme}.png")
        # Whoever reloads the page has the whole output again, and what comes after it.
        lab_.command("docmanager:save")
        before = int(re.findall(r"step (\d+)", training.inner_text())[-1])
        lab_.open(name, reset=False)
        expect(training).to_contain_text(f"step {before + 3}", timeout=60_000)
        expect(training).to_contain_text(re.compile(r"step 1\n.*step 2\n", re.S))
        page.screenshot(path=shots / f"background-reloaded-{theme}.png")
        told.touch()
        expect(training).to_contain_text("ValueError: no data", timeout=60_000)
        expect(training).to_contain_text(re.compile(r"cell \d+ ended after .*: process 1 raised"))
        lab_.wait_for_kernel()
        page.locator(".jp-Notebook .jp-CodeCell").nth(3).click()
        lab_.run_cells(1)
        expect(outputs.nth(3)).to_contain_text("processes 0, 1   'next'")
        page.screenshot(path=shots / f"background-ended-{theme}.png")
    finally:
        page.evaluate("window.jupyterapp?.serviceManager.sessions.shutdownAll()")
        page.close()
