"""The view in a real JupyterLab: as a notebook output and in the side panel."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from labpage import Lab, LabPage, moving, notebook, slices_shown
from playwright.sync_api import BrowserContext, expect
from viewpage import row_of

from tests.places import GOLDEN
from tests.variants import cases

SESSION = f"""
import json, threading, time
from msgspec import structs
from pathlib import Path
from IPython.display import HTML, display
from nbdist.contract.snapshot import Snapshot
from nbdist.view.channel import Broadcast as Channel
from nbdist.view.feed import Feed
from nbdist.view.widget import View
from nbdist.contract.wire import decode

golden = json.loads(Path({str(GOLDEN / "tour.json")!r}).read_text())
snapshot = decode(Snapshot, golden["snapshot"])
feed = Feed()
Channel(feed).open()

def train():
    # A line that moves on, as in a training loop.
    for step in range(100_000):
        processes = tuple(structs.replace(p, line=step, silent_seconds=0.0) for p in snapshot.processes)
        feed.push(structs.replace(snapshot, processes=processes, sequence=step, time=time.time()))
        time.sleep(0.1)

threading.Thread(target=train, daemon=True).start()
"""
STOPPED = "snapshot = structs.replace(snapshot, state='stopped')"
SHOW = """
display(View(feed, view_id="v1", focus="params.dense1.kernel"))
display(HTML('<div class="nbdist-still" data-nbdist-view="v1">the still picture</div>'))
"""


def busy_until(over: Path) -> str:
    """A cell that computes until the test makes the file."""
    return f"while not Path({str(over)!r}).exists(): sum(range(10_000))"


def slices_expected(path: str) -> dict[str, str]:
    golden = json.loads((GOLDEN / "tour.json").read_text())
    array = next(entry for entry in golden["expected"] if entry["path"] == path)
    return {
        key: f"[{', '.join(f'{start}:{stop}' for start, stop in slices)}]"
        for key, slices in array["slices"].items()
    }


def test_output_and_panel_follow_a_running_cell_and_can_be_used_meanwhile(
    lab: Lab, lab_page: Callable[[], LabPage], shots: Path, tmp_path: Path
) -> None:
    over = tmp_path / "over"
    lab_ = lab_page()
    page = lab_.page
    live = notebook(lab, "live.ipynb", SESSION, SHOW, busy_until(over))
    lab_.open_with_view(live, run=2, theme="dark")
    expect(lab_.output).to_have_count(1)
    expect(lab_.panel).to_have_count(1)
    expect(page.locator(".nbdist-still")).to_be_hidden()
    lab_.start("notebook:run-cell")
    time.sleep(0.5)
    assert lab_.busy()
    assert moving(lab_.output)
    assert moving(lab_.panel)
    expect(lab_.output).to_have_attribute("data-nbdist-theme", "dark")
    assert slices_shown(lab_.output) == slices_expected("params.dense1.kernel")
    row_of(lab_.output, "batch").click()
    expect(lab_.output.locator(".nbdist-array-path")).to_have_text("batch")
    assert slices_shown(lab_.output) == slices_expected("batch")
    cells = page.locator(".jp-Notebook .jp-Cell").count()
    lab_.output.locator(".nbdist-mesh-mesh").focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowDown", "d", "d", "Enter"):
        page.keyboard.press(key)
    expect(lab_.output.locator(".nbdist-device-title")).to_contain_text(
        "process 1 · device 1 pinned"
    )
    assert page.locator(".jp-Notebook .jp-Cell").count() == cells
    page.keyboard.press("/")
    page.keyboard.type("mu")
    expect(lab_.output.locator(".nbdist-lists-spacer .nbdist-lists-row")).to_have_count(1)
    assert lab_.busy()
    page.screenshot(path=shots / "lab-dark.png")
    over.touch()


def test_both_are_live_again_after_a_reload_in_the_middle_of_a_cell(
    lab: Lab, lab_page: Callable[[], LabPage], tmp_path: Path
) -> None:
    over = tmp_path / "over"
    lab_ = lab_page()
    lab_.open_with_view(notebook(lab, "reload.ipynb", SESSION, SHOW, busy_until(over)), run=2)
    expect(lab_.output).to_have_count(1)
    lab_.command("docmanager:save")
    lab_.start("notebook:run-cell")
    lab_.wait_for_saved_layout()
    lab_.page.reload()
    lab_.page.wait_for_selector(".jp-NotebookPanel .jp-Cell")
    lab_.page.wait_for_function(
        "window.jupyterapp?.shell.currentWidget?.sessionContext?.session?.kernel != null"
    )
    expect(lab_.panel).to_have_count(1, timeout=60_000)
    expect(lab_.panel.locator(".nbdist-mesh-card")).to_have_count(8, timeout=60_000)
    expect(lab_.output.locator(".nbdist-mesh-card")).to_have_count(8, timeout=60_000)
    assert moving(lab_.panel)
    assert moving(lab_.output)
    kernel = "window.jupyterapp.shell.currentWidget.sessionContext.session.kernel"
    assert lab_.page.evaluate(f"{kernel}.status") != "idle"
    over.touch()


@pytest.fixture(scope="module")
def saved(lab_browser: BrowserContext, lab: Lab) -> dict[str, Any]:
    """A notebook that was saved with a view in it; its kernel has been shut down."""
    lab_ = LabPage(lab_browser.new_page(), lab)
    name = notebook(lab, "saved.ipynb", SESSION, SHOW)
    lab_.open(name)
    lab_.wait_for_kernel()
    lab_.run_cells(2)
    expect(lab_.output).to_have_count(1)
    lab_.command("docmanager:save")
    lab_.page.evaluate("jupyterapp.serviceManager.sessions.shutdownAll()")
    lab_.page.close()
    content: dict[str, Any] = json.loads((lab.root / name).read_text())
    return content


def test_a_saved_notebook_has_none_of_the_data(saved: dict[str, Any]) -> None:
    assert "dense1" not in json.dumps(saved["metadata"])
    assert "processes" not in json.dumps(saved["cells"][1]["outputs"])


@pytest.mark.parametrize("kernel", cases("a new one", "none"))
def test_a_saved_notebook_shows_the_still_picture_and_no_error(
    lab: Lab, lab_page: Callable[[], LabPage], shots: Path, saved: dict[str, Any], kernel: str
) -> None:
    lab_ = lab_page()
    # A copy, so that the page has never seen its outputs and does not trust them.
    (lab.root / "copy.ipynb").write_text(json.dumps(saved))
    lab_.open_empty()
    preference = {"shouldStart": kernel != "none", "canStart": kernel != "none"}
    lab_.start("docmanager:open", {"path": "copy.ipynb", "kernelPreference": preference})
    if kernel != "none":
        lab_.wait_for_kernel()
    expect(lab_.page.locator(".nbdist-still")).to_be_visible()
    time.sleep(1)
    running = lab_.page.evaluate(
        "jupyterapp.shell.currentWidget.sessionContext.session?.kernel != null"
    )
    assert running == (kernel != "none")
    expect(lab_.output).to_have_count(0)
    outputs = lab_.page.locator(".jp-OutputArea").all_inner_texts()
    assert "".join(outputs).split() == ["the", "still", "picture"]
    lab_.page.screenshot(path=shots / "lab-dead.png")


def test_a_restarted_kernel_takes_the_view_away_and_a_new_session_brings_it_back(
    lab: Lab, lab_page: Callable[[], LabPage]
) -> None:
    lab_ = lab_page()
    lab_.open_with_view(notebook(lab, "restart.ipynb", SESSION, SHOW), run=2)
    expect(lab_.output).to_have_count(1)
    lab_.page.evaluate("jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()")
    expect(lab_.output).to_have_count(0)
    expect(lab_.panel).to_have_count(0)
    expect(lab_.page.locator(".nbdist-still")).to_be_visible()
    expect(lab_.page.locator("#nbdist-devices")).to_contain_text("%dist_init")
    lab_.wait_for_kernel()
    lab_.command("notebook:run-all-cells")
    expect(lab_.panel).to_have_count(1)
    expect(lab_.output).to_have_count(1)
    assert moving(lab_.panel)


def test_the_panel_follows_the_active_notebook(lab: Lab, lab_page: Callable[[], LabPage]) -> None:
    lab_ = lab_page()
    other = notebook(lab, "other.ipynb", "1 + 1")
    lab_.open(notebook(lab, "first.ipynb", SESSION))
    lab_.wait_for_kernel()
    lab_.command("nbdist:show-devices")
    expect(lab_.page.locator("#nbdist-devices .nbdist-lab-state")).to_have_text("no session")
    lab_.run_cells(1)
    expect(lab_.panel).to_have_count(1)
    lab_.command("docmanager:open", {"path": other})
    expect(lab_.panel).to_have_count(0)
    lab_.command("docmanager:open", {"path": "first.ipynb"})
    expect(lab_.panel).to_have_count(1)
    assert moving(lab_.panel)


def test_a_session_that_has_ended_is_shown_nowhere_in_the_panel(
    lab: Lab, lab_page: Callable[[], LabPage]
) -> None:
    lab_ = lab_page()
    lab_.open_with_view(notebook(lab, "over.ipynb", SESSION, STOPPED), run=1)
    status = lab_.page.locator(".nbdist-lab-status")
    expect(lab_.panel).to_have_count(1)
    expect(status).to_be_visible()
    lab_.run_cells(1)
    expect(lab_.panel).to_have_count(0)
    expect(status).to_be_hidden()
    expect(lab_.page.locator("#nbdist-devices .nbdist-lab-state")).to_have_text("no session")


def test_where_the_extension_is_disabled_the_widget_shows_the_same(
    start_lab: Callable[..., Lab], lab_browser: BrowserContext, tmp_path: Path
) -> None:
    over = tmp_path / "over"
    lab = start_lab(disabled=("nbdist-labextension",))
    lab_ = LabPage(lab_browser.new_page(), lab)
    lab_.open(notebook(lab, "widget.ipynb", SESSION, SHOW, busy_until(over)))
    lab_.wait_for_kernel()
    lab_.run_cells(2)
    expect(lab_.output).to_have_count(1)
    expect(lab_.page.locator(".nbdist-still")).to_be_hidden()
    assert slices_shown(lab_.output) == slices_expected("params.dense1.kernel")
    lab_.start("notebook:run-cell")
    time.sleep(0.5)
    assert lab_.busy()
    assert moving(lab_.output)
    over.touch()
    lab_.page.evaluate("jupyterapp.serviceManager.sessions.shutdownAll()")
    lab_.page.close()
