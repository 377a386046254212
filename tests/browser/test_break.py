"""A failure in a real JupyterLab: the view says that it is being repaired, that it was, and training goes on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from labpage import Lab, LabPage, notebook
from playwright.sync_api import BrowserContext, Locator, expect

START = "%load_ext nbdist\n%dist_init -n 2 --devices-per-process 2 --platform cpu"

MODEL = """%%dist
import jax
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((2, 2), ("data", "model"), axis_types=(AxisType.Auto, AxisType.Auto))
w = jax.device_put(np.ones((512, 256), np.float32), NamedSharding(mesh, P("data", "model")))
step = jax.jit(lambda w: w - 0.1 * w.mean())
many = [[number] for number in range(500_000)]  # a repair looks at all that is there

def train():
    global w
    new = step(w)
    loss = float(new.mean())
    w = new
    return f"loss {loss:.4f}"

print(train())"""

SHOW = "%dist_mesh w"

RAISES = """%%dist
if jax.process_index() == 1:
    raise ValueError("no data")
print(train())"""

ALONE = """%%dist
if jax.process_index() == 0:
    q = step(w)"""

TRAIN = "%%dist\nprint(train())"

LOST = "Lost, because not all processes have computed it: q. Everything else is unchanged."

WATCH = """
state => {
  window.states = [state.textContent];
  new MutationObserver(() => window.states.push(state.textContent))
    .observe(state, {childList: true, characterData: true, subtree: true});
}
"""


@pytest.fixture(scope="module")
def broken(lab_browser: BrowserContext, lab: Lab) -> Iterator[LabPage]:
    """A session with a view of `w`, and cells that break it."""
    name = notebook(lab, "break.ipynb", START, MODEL, SHOW, RAISES, TRAIN, ALONE, TRAIN)
    page = lab_browser.new_page()
    page.set_viewport_size({"width": 1500, "height": 1000})
    lab_ = LabPage(page, lab)
    state = lab_.open_with_view(name, run=3).locator(".nbdist-session-state")
    expect(state).to_have_text("idle")
    state.evaluate(WATCH)
    yield lab_
    page.evaluate("window.jupyterapp?.serviceManager.sessions.shutdownAll()")
    page.close()


def run_cell(lab_: LabPage) -> Locator:
    """Starts the cell that is chosen, without waiting for it; answers its output."""
    active = lab_.page.evaluate("jupyterapp.shell.currentWidget.content.activeCellIndex")
    lab_.start_next()
    cell: Locator = lab_.page.locator(".jp-Notebook .jp-CodeCell").nth(active)
    return cell.locator(".jp-OutputArea")


@pytest.mark.parametrize(
    ("theme", "said", "after", "loss"),
    [
        ("light", "ValueError: no data", "All variables are kept.", "0.8100"),
        ("dark", "All processes finished the cell, but", LOST, "0.7290"),
    ],
    ids=["raised", "nobody raised"],
)
def test_the_view_shows_the_repair_and_training_goes_on(
    broken: LabPage, shots: Path, theme: str, said: str, after: str, loss: str
) -> None:
    page, view = broken.page, broken.panel
    broken.theme(theme)
    expect(view).to_have_attribute("data-nbdist-theme", theme)
    page.evaluate("window.states.length = 0")
    output = run_cell(broken)
    page.wait_for_function("window.states.includes('repairing')", timeout=60_000)
    page.screenshot(path=shots / f"repairing-{theme}.png")
    expect(output).to_contain_text("ProcessError", timeout=60_000)
    expect(output).to_contain_text(said)
    expect(view.locator(".nbdist-session-state")).to_have_text("idle")
    notice = view.locator(".nbdist-session-notice")
    expect(notice).to_have_count(1)
    repaired = r"The session was repaired in [\d.]+ s\.\s*" + re.escape(after)
    expect(notice).to_contain_text(re.compile(repaired))
    page.screenshot(path=shots / f"repaired-{theme}.png")
    trained = run_cell(broken)
    expect(trained).to_contain_text(f"processes 0, 1   loss {loss}", timeout=60_000)
    expect(notice).to_have_count(0)
    page.screenshot(path=shots / f"trained-{theme}.png")
