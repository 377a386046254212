"""The tour in a real JupyterLab, on four real processes: seen, used, saved and reopened."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from labpage import THEMES, Lab, LabPage, moving, slices_shown
from playwright.sync_api import BrowserContext, expect
from viewpage import row_of

from tests.places import ROOT
from tests.waiting import wait_for

TOUR = ROOT / "notebooks" / "01_tour.ipynb"
KERNEL_PATH = "params['hidden']['kernel']"

EXPECTED = """%%dist --on 0
import json as _json
_map = params["hidden"]["kernel"].sharding.devices_indices_map(params["hidden"]["kernel"].shape)
print("slices", _json.dumps({
    f"{d.process_index}:{d.id}": str([f"{i.indices(n)[0]}:{i.indices(n)[1]}"
                                      for i, n in zip(index, params["hidden"]["kernel"].shape)])
    for d, index in _map.items()}))"""


def with_more_cells() -> dict[str, Any]:
    """The tour, and after its training cell one that asks JAX for the slices."""
    content: dict[str, Any] = json.loads(TOUR.read_text(encoding="utf-8"))
    at = training_cell(content) + 1
    cell = {"cell_type": "code", "id": "asked", "metadata": {}, "outputs": []}
    content["cells"].insert(at, {**cell, "execution_count": None, "source": EXPECTED})
    return content


SEEN = "seen"
"""The file beside the notebook that ends the training cell: a test has seen in it what it looks for."""


def until_seen(lab: Lab) -> str:
    """Lines at which all processes stay, now at one and now at the other."""
    there = f"os.path.exists({str(lab.root / SEEN)!r})"
    return f"\nimport os\nwhile not {there}:\n    time.sleep(0.1)\n    time.sleep(0.15)"


def training_cell(content: dict[str, Any]) -> int:
    """The number of the cell whose loop is slow enough to watch."""
    sources = ["".join(cell["source"]) for cell in content["cells"]]
    return next(i for i, source in enumerate(sources) if "time.sleep" in source)


@pytest.fixture(scope="module")
def tour(lab_browser: BrowserContext, lab: Lab) -> Iterator[LabPage]:
    """The tour with all cells before the training loop run; that one goes on until it is seen."""
    content = with_more_cells()
    training = content["cells"][training_cell(content)]
    training["source"] = "".join(training["source"]) + until_seen(lab)
    (lab.root / "tour.ipynb").write_text(json.dumps(content))
    page = lab_browser.new_page()
    page.set_viewport_size({"width": 1500, "height": 1000})
    lab_ = LabPage(page, lab)
    lab_.open("tour.ipynb")
    lab_.wait_for_kernel()
    lab_.run_cells(training_cell(content))
    yield lab_
    page.evaluate("window.jupyterapp?.serviceManager.sessions.shutdownAll()")
    page.close()


def to_slices(text: str) -> str:
    return f"[{', '.join(json.loads(text.replace(chr(39), chr(34))))}]"


@pytest.fixture
def training(tour: LabPage, lab: Lab) -> Iterator[Callable[[], None]]:
    """The training cell has begun; it ends when this is called, or with the test."""
    (lab.root / SEEN).unlink(missing_ok=True)
    tour.start("notebook:run-cell")

    def end() -> None:
        (lab.root / SEEN).touch()
        wait_for(lambda: not tour.busy())

    wait_for(tour.busy)
    yield end
    end()


@pytest.mark.usefixtures("training")
def test_screenshots_of_the_view_in_the_tour(tour: LabPage, shots: Path) -> None:
    view = tour.output.last
    # Room for the whole view below JupyterLab's bars, also when its lines of processes become more.
    tour.page.set_viewport_size({"width": 1500, "height": 1300})
    for name in THEMES:
        tour.theme(name)
        expect(view.locator(".nbdist-mesh-card")).to_have_count(8)
        expect(view).to_have_attribute("data-nbdist-theme", name)
        wait_for(lambda: "time.sleep" in view.inner_text())
        view.screenshot(path=shots / f"view-{name}.png")
        assert (shots / f"view-{name}.png").stat().st_size > 10_000
    tour.page.set_viewport_size({"width": 1500, "height": 1000})


def test_the_view_lives_while_a_cell_runs_and_says_what_jax_says(
    tour: LabPage, training: Callable[[], None], shots: Path
) -> None:
    page = tour.page
    view = tour.output.last
    tour.theme("dark")
    tour.command("nbdist:show-devices")
    expect(view.locator(".nbdist-array-path")).to_have_text(KERNEL_PATH)
    assert moving(view)
    assert moving(tour.panel)
    expect(view).to_have_attribute("data-nbdist-theme", "dark")
    # Picked and moved by mouse and keyboard, while the cell still runs.
    row_of(view, "x_train").click()
    expect(view.locator(".nbdist-array-path")).to_have_text("x_train")
    view.locator(".nbdist-mesh-mesh").focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowDown", "Enter"):
        page.keyboard.press(key)
    expect(view.locator(".nbdist-device-title")).to_contain_text("process 1 · device 1 pinned")
    assert tour.busy()
    page.screenshot(path=shots / "tour-dark.png")
    training()


def test_the_slices_shown_are_those_of_devices_indices_map(tour: LabPage) -> None:
    view = tour.output.last
    row_of(view, KERNEL_PATH).first.click()
    asking = training_cell(with_more_cells()) + 1
    active = "jupyterapp.shell.currentWidget.content.activeCellIndex"
    tour.page.evaluate(f"number => {{ {active} = number; }}", asking)
    tour.command("notebook:run-cell-and-select-next")
    printed = tour.page.locator(".jp-OutputArea-output", has_text="slices {").last.inner_text()
    asked = json.loads(printed[printed.index("{") :])
    assert slices_shown(view) == {key: to_slices(text) for key, text in asked.items()}
