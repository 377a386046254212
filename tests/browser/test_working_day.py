"""A day's work in a real JupyterLab: a training in the background, a reload, a breakpoint, values."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from labpage import THEMES, Lab, LabPage, notebook
from playwright.sync_api import BrowserContext, Locator, expect
from viewpage import row_of

START = "%load_ext nbdist\n%dist_init -n 2 --devices-per-process 2 --platform cpu"

MODEL = """%%dist
import os, time
import jax, numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P

me = jax.process_index()
mesh = jax.make_mesh((2, 2), ("data", "model"))

def put(array, *spec):
    return jax.make_array_from_callback(array.shape, NamedSharding(mesh, P(*spec)), lambda i: array[i])

ramp = np.arange(64.0, dtype="float32").reshape(8, 8)
ramp[2, 5] = np.nan
params = {
    "blocks": [
        {
            "qkv": put(np.ones((64, 96), "float32"), "data", "model"),
            "out": put(np.ones((32, 64), "float32"), "data", "model"),
        }
        for _ in range(3)
    ],
    "head": {"kernel": put(ramp, "data", "model"), "bias": put(np.zeros(8, "float32"))},
}"""

TRAIN = """%%dist --no-wait
step = 0
while not os.path.exists({over!r}):
    step += 1
    print(f"step {{step}}")
    time.sleep(0.5)
if me == 1:
    raise ValueError("no data")"""

LIST = "%dist_cells"

NEXT = "%%dist\n'next'"

COUNTS = """%%dist
count = 0
while not os.path.exists({over!r}):
    count += 1
    print(f"count {{count}}")
    time.sleep(0.5)
print("counted")"""

STOPS = """%%dist --grace 1
if me == 1:
    breakpoint()
print("blocks", float(params["blocks"][0]["qkv"].sum()))"""

BAR = """%%dist
from tqdm.auto import tqdm
for epoch in tqdm(range(100_000), desc="epochs"):
    time.sleep(0.02)
    if os.path.exists({over!r}):
        break"""

SLIDER = """%%dist
import ipywidgets
rate = ipywidgets.IntSlider(3, description="rate")
rate.observe(lambda change: print("sum", change.new * float(params["head"]["bias"].sum() + 1)), "value")
rate"""

CELLS = ["START", "MODEL", "TRAIN", "LIST", "NEXT", "COUNTS", "STOPS", "BAR", "SLIDER"]
# A second day, in the dark, is for its pictures: nothing that is checked depends on the theme.
DAYS = THEMES if "NBDIST_SHOTS" in os.environ else ("light",)


@dataclass(frozen=True)
class Day:
    """One page on one session, whose cells are run in the order of the tests."""

    lab: LabPage
    name: str
    theme: str
    shots: Path
    over: dict[str, Path]

    def output(self, cell: str) -> Locator:
        return self.cell(cell).locator(".jp-OutputArea.jp-Cell-outputArea")

    def cell(self, name: str) -> Locator:
        return self.lab.page.locator(".jp-Notebook .jp-CodeCell").nth(CELLS.index(name))

    def run(self, cell: str) -> None:
        """Runs a cell as one does with the keyboard."""
        self.cell(cell).locator(".cm-content").click()
        self.lab.page.keyboard.press("Control+Enter")

    def reload(self) -> None:
        self.lab.command("docmanager:save")
        self.lab.open(self.name, reset=False)

    def shot(self, name: str, cell: str | None = None) -> None:
        """A picture of the page, in which the output of this cell is to be seen."""
        if cell is not None:
            output = self.output(cell)
            output.evaluate("area => area.scrollIntoView({block: 'center'})")
            expect(output).to_be_in_viewport()
        self.lab.page.screenshot(path=self.shots / f"day-{name}-{self.theme}.png")


@pytest.fixture(scope="module", params=DAYS)
def day(
    request: pytest.FixtureRequest,
    lab_browser: BrowserContext,
    lab: Lab,
    tmp_path_factory: pytest.TempPathFactory,
    shots: Path,
) -> Iterator[Day]:
    theme = request.param
    over = {cell: tmp_path_factory.mktemp(theme) / cell for cell in ("TRAIN", "COUNTS", "BAR")}
    train = TRAIN.format(over=str(over["TRAIN"]))
    counts = COUNTS.format(over=str(over["COUNTS"]))
    bar = BAR.format(over=str(over["BAR"]))
    cells = (START, MODEL, train, LIST, NEXT, counts, STOPS, bar, SLIDER)
    name = notebook(lab, f"day-{theme}.ipynb", *cells)
    page = lab_browser.new_page()
    lab_ = LabPage(page, lab)
    try:
        lab_.open(name)
        lab_.wait_for_kernel()
        lab_.theme(theme)
        lab_.run_cells(2)
        yield Day(lab_, name, theme, shots, over)
    finally:
        page.evaluate("window.jupyterapp?.serviceManager.sessions.shutdownAll()")
        page.close()


def test_a_training_in_the_background_is_live_under_its_cell_while_others_run(day: Day) -> None:
    day.run("TRAIN")
    training = day.output("TRAIN")
    expect(training).to_contain_text(re.compile(r"in the background on processes 0, 1, since"))
    day.run("LIST")
    expect(day.output("LIST")).to_contain_text(re.compile(r"(starting|running).*step = 0"))
    expect(training).to_contain_text("step 3", timeout=60_000)
    assert not day.lab.busy()
    day.shot("background", "TRAIN")


def test_a_reload_in_the_middle_has_all_of_it_and_what_comes(day: Day) -> None:
    training = day.output("TRAIN")
    before = int(re.findall(r"step (\d+)", training.inner_text())[-1])
    day.reload()
    expect(training).to_contain_text(f"step {before + 3}", timeout=60_000)
    expect(training).to_contain_text(re.compile(r"step 1\n.*step 2\n", re.S))
    day.shot("background-reloaded", "TRAIN")


def test_a_failure_is_shown_when_it_happens_and_the_next_cell_runs(day: Day) -> None:
    day.over["TRAIN"].touch()
    training = day.output("TRAIN")
    expect(training).to_contain_text("ValueError: no data", timeout=60_000)
    expect(training).to_contain_text(re.compile(r"cell \d+ ended after .*: process 1 raised"))
    day.lab.wait_for_kernel()
    day.run("NEXT")
    expect(day.output("NEXT")).to_contain_text("processes 0, 1   'next'")
    day.shot("background-ended", "NEXT")


def test_a_reload_in_the_middle_of_a_cell_that_is_waited_for_has_its_output_again(
    day: Day,
) -> None:
    day.run("COUNTS")
    counting = day.output("COUNTS")
    expect(counting).to_contain_text("count 2", timeout=60_000)
    before = int(re.findall(r"count (\d+)", counting.inner_text())[-1])
    day.reload()
    expect(counting).to_contain_text(f"count {before + 3}", timeout=60_000)
    expect(counting).to_contain_text(re.compile(r"count 1\n.*count 2\n", re.S))
    day.shot("reloaded", "COUNTS")
    day.over["COUNTS"].touch()
    expect(counting).to_contain_text("counted", timeout=60_000)
    day.lab.wait_for_kernel()
    lines = re.findall(r"count (\d+)", counting.inner_text())
    assert lines == [str(n + 1) for n in range(len(lines))]


def test_a_breakpoint_on_one_process_is_answered_by_keyboard(day: Day) -> None:
    day.run("STOPS")
    asked = day.cell("STOPS").locator("input.jp-Stdin-input").last
    expect(asked).to_be_focused(timeout=60_000)
    expect(day.output("STOPS")).to_contain_text("process 1 ipdb>")
    day.lab.page.keyboard.type("p me * 100")
    day.lab.page.keyboard.press("Enter")
    expect(day.output("STOPS")).to_contain_text(re.compile(r"p me \* 100\s+100"))
    expect(asked).to_be_focused()
    day.shot("breakpoint", "STOPS")
    day.lab.page.keyboard.type("c")
    day.lab.page.keyboard.press("Enter")
    expect(day.output("STOPS")).to_contain_text("processes 0, 1   blocks 6144.0")
    day.lab.wait_for_kernel()


def test_a_bar_of_all_processes_is_one_widget_that_lives(day: Day) -> None:
    day.run("BAR")
    bar = day.output("BAR")
    expect(bar.locator(".jupyter-widgets .progress-bar")).to_have_count(1, timeout=60_000)
    expect(bar).to_contain_text(re.compile(r"processes 0, 1.*epochs:\s*\d+%", re.S))
    expect(bar).to_contain_text(re.compile(r"\s\d{3,}/100000"), timeout=60_000)
    day.shot("bar", "BAR")
    # No widget can be asked for while the notebook waits for the cell.
    day.reload()
    text = re.compile(r"processes 0, 1.*epochs:\s*\d+%\|.*\| \d+/100000", re.S)
    expect(bar).to_contain_text(text)
    (done,) = re.findall(r"(\d+)/100000", bar.text_content() or "")
    expect(bar).to_contain_text(re.compile(rf"\| (?!{done}/)\d+/100000"), timeout=60_000)
    day.shot("bar-reloaded", "BAR")
    day.over["BAR"].touch()
    day.lab.wait_for_kernel()


def test_a_bar_that_was_stopped_says_so(day: Day) -> None:
    day.over["BAR"].unlink(missing_ok=True)
    day.run("BAR")
    bar = day.output("BAR")
    expect(bar.locator(".jupyter-widgets .progress-bar")).to_have_count(1, timeout=60_000)
    day.over["BAR"].touch()
    day.lab.wait_for_kernel()
    # Before its end, on both at the same step or one later.
    expect(bar.locator(".progress-bar-danger")).not_to_have_count(0)
    day.shot("bar-ended", "BAR")


def test_a_widget_is_used_by_keyboard_and_all_processes_follow(day: Day) -> None:
    day.run("SLIDER")
    slider = day.output("SLIDER").get_by_role("slider")
    expect(slider).to_have_count(1, timeout=60_000)
    slider.focus()
    day.lab.page.keyboard.press("ArrowRight")
    expect(slider).to_have_attribute("aria-valuetext", "4")
    expect(day.output("SLIDER")).to_contain_text(re.compile(r"processes 0, 1.*sum 4\.0", re.S))
    day.shot("slider", "SLIDER")


def test_the_tree_and_the_values_of_an_array_with_a_picture(day: Day) -> None:
    day.lab.command("nbdist:show-devices")
    tree = day.lab.panel.get_by_role("tree", name="Arrays")
    root = row_of(tree, "params, 8 arrays")
    expect(root).to_have_attribute("aria-expanded", "true")
    alike = row_of(tree, "params['blocks'][0–2]")
    expect(alike).to_contain_text("×3 identical")
    root.evaluate("item => item.scrollIntoView({block: 'start'})")
    expect(alike).to_be_in_viewport()
    day.shot("tree")
    row_of(tree, "params['head']['kernel']").click()
    day.lab.panel.get_by_role("button", name="Show values").click()
    values = day.lab.panel.get_by_label("Values of params['head']['kernel']", exact=True)
    expect(values).to_contain_text(re.compile(r"min 0\s+mean \S+\s+max 63\s+NaN 1"))
    expect(values).to_contain_text("nan")
    picture = day.lab.panel.get_by_role("img", name=re.compile(r"^Picture of the values of params"))
    expect(picture).to_be_visible()
    picture.scroll_into_view_if_needed()
    day.shot("values")
