"""A process dies in a real JupyterLab: the view says who is gone, who is brought back, and from where."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from labpage import SHOWN, WATCH, Lab, LabPage, notebook
from playwright.sync_api import expect

START = "%load_ext nbdist\n%dist_init -n 3 --devices-per-process 2 --platform cpu"

MODEL = """%%dist
import os
import jax
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((3, 2), ("data", "model"), axis_types=(AxisType.Auto, AxisType.Auto))
put = lambda array, *axes: jax.device_put(array, NamedSharding(mesh, P(*axes)))
w, rows = put(np.ones((512, 256), np.float32), None, "model"), put(np.arange(6.0), "data")
many = [[number] for number in range(500_000)]  # a repair looks at all that is there
print("loss", float((w * 0.75).mean()))"""

SHOW = "%dist_mesh w"

DIES = """%%dist
if jax.process_index() == 1:
    os.kill(os.getpid(), 9)
print("loss", float((w * 0.75).mean()))"""

AGAIN = '%%dist\nprint("loss", float((w * 0.75).mean()))'


@pytest.mark.parametrize("theme", SHOWN)
def test_the_view_says_who_is_brought_back_and_training_goes_on(
    lab: Lab, lab_page: Callable[[], LabPage], shots: Path, theme: str
) -> None:
    lab_ = lab_page()
    page = lab_.page
    name = notebook(lab, f"replaced-{theme}.ipynb", START, MODEL, SHOW, DIES, AGAIN)
    view = lab_.open_with_view(name, run=3, theme=theme)
    expect(view.locator(".nbdist-session-state")).to_have_text("idle")
    view.evaluate(WATCH)
    lab_.start_next()
    page.wait_for_function("window.texts.some(text => text.includes('repairing'))", timeout=60_000)
    page.screenshot(path=shots / f"replacing-{theme}.png")
    notice = view.locator(".nbdist-session-notice")
    expect(notice).to_have_count(1, timeout=180_000)
    expect(notice).to_contain_text(
        re.compile(r"Process 1 was replaced in .*Lost with process 1: rows")
    )
    expect(notice).to_contain_text("names of process 2")
    texts = " ".join(page.evaluate("window.texts"))
    assert "Process 1 is lost" in texts and "Bringing process 1 back" in texts
    expect(view.locator(".nbdist-session-state")).to_have_text("idle")
    page.screenshot(path=shots / f"replaced-{theme}.png")
    lab_.start_next()
    output = page.locator(".jp-Notebook .jp-CodeCell").nth(4).locator(".jp-OutputArea")
    expect(output).to_contain_text("processes 0–2   loss 0.75", timeout=60_000)
    expect(notice).to_have_count(0)
