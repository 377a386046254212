"""Another number of processes in a real JupyterLab: the view that is open follows the new ones."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from labpage import SHOWN, WATCH, Lab, LabPage, notebook
from playwright.sync_api import expect

START = "%load_ext nbdist\n%dist_init -n 4 --devices-per-process 2 --platform cpu"

MODEL = """%%dist
import jax
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((jax.process_count(), 2), ("data", "model"), axis_types=(AxisType.Auto, AxisType.Auto))
put = lambda array, *axes: jax.device_put(array, NamedSharding(mesh, P(*axes)))
w, odd = put(np.ones((12, 256), np.float32), "data", "model"), put(np.arange(8.0), "data")
print("sum", float(w.sum()))"""

SHOW = "%dist_mesh w"
FEWER = "%dist_init -n 3"
AGAIN = '%%dist\nprint("sum", float((w * 2).sum()))'


@pytest.mark.parametrize("theme", SHOWN)
def test_the_open_view_follows_the_new_processes(
    lab: Lab, lab_page: Callable[[], LabPage], shots: Path, theme: str
) -> None:
    lab_ = lab_page()
    page = lab_.page
    name = notebook(lab, f"resized-{theme}.ipynb", START, MODEL, SHOW, FEWER, AGAIN)
    view = lab_.open_with_view(name, run=3, theme=theme)
    expect(view.locator(".nbdist-session-state")).to_have_text("idle")
    expect(view).to_contain_text("data=4 × model=2")
    view.evaluate(WATCH)
    lab_.start_next()
    page.wait_for_function("window.texts.some(text => text.includes('resizing'))", timeout=60_000)
    page.screenshot(path=shots / f"resizing-{theme}.png")
    output = page.locator(".jp-Notebook .jp-CodeCell").nth(3).locator(".jp-OutputArea")
    expect(output).to_contain_text("mesh data=4 × model=2 becomes data=3 × model=2", timeout=60_000)
    expect(output).to_contain_text(
        re.compile(r"3 processes in place of 4 after [\d.]+ s\.\s+All variables are kept\."),
        timeout=60_000,
    )
    expect(view).to_contain_text("data=3 × model=2", timeout=60_000)
    expect(view.locator(".nbdist-session-state")).to_have_text("idle")
    assert "3 processes in place" in " ".join(page.evaluate("window.texts"))
    expect(view.locator(".nbdist-session-notice")).to_have_count(0)
    page.screenshot(path=shots / f"resized-{theme}.png")
    lab_.start_next()
    output = page.locator(".jp-Notebook .jp-CodeCell").nth(4).locator(".jp-OutputArea")
    expect(output).to_contain_text("processes 0–2   sum 6144.0", timeout=60_000)
