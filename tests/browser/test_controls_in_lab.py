"""A session without a magic typed, from its start to its end: by mouse, and by keyboard alone."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from labpage import SHOWN, Lab, LabPage, notebook
from playwright.sync_api import Locator, Page, expect

from tests.places import ROOT

AXE = ROOT / "labextension" / "node_modules" / "axe-core" / "axe.min.js"

LINE = "%dist_init -n 2 --devices-per-process 2 --platform cpu"
LOOP = "import time\nwhile True: time.sleep(0.1)"
PID = "import os\nprint('pid', os.getpid())"

SLOWER = """() => {
  window.asItWas = window.setTimeout;
  window.setTimeout = (then, ms, ...rest) => window.asItWas(then, ms === 1000 ? 60_000 : ms, ...rest);
}"""

OFFERED = ["all processes", "process 0", "process 1"]
"""The first entries of a cell's menu."""

IDLE = "2 processes · idle"
RUNNING = re.compile(r"^2 processes · running cell \d+$")
STUCK = "2 processes · stuck"
NONE = "no session"


class Hand:
    """A person at a page of JupyterLab who types no magic."""

    def __init__(self, lab: LabPage, shots: Path) -> None:
        self.lab = lab
        self.shots = shots
        self.page: Page = lab.page
        self.panel = self.page.locator("#nbdist-devices")
        self.state = self.panel.locator(".nbdist-lab-state")
        self.status = self.page.locator(".nbdist-lab-status")
        self.form = self.page.locator(".nbdist-lab-start")
        self.cells = self.page.locator(".jp-Notebook .jp-CodeCell")

    def button(self, name: str) -> Locator:
        return self.panel.get_by_role("button", name=name, exact=True)

    def answer(self, name: str) -> Locator:
        """A button of the dialog."""
        return self.page.locator(".jp-Dialog").get_by_role("button", name=name, exact=True)

    def enables(self, *names: str) -> None:
        """Wait until exactly these buttons can be pressed."""
        expect(self.panel.locator(".nbdist-lab-button:not([aria-disabled])")).to_have_text(names)

    def sources(self) -> list[str]:
        script = "Array.from(jupyterapp.shell.currentWidget.content.model.cells, c => c.sharedModel.source)"
        found: list[str] = self.page.evaluate(script)
        return found

    def check(self, part: str, name: str) -> None:
        """Take a picture in both themes; axe-core finds nothing wrong in a part of the page."""
        if not self.page.evaluate("'axe' in window"):
            self.page.evaluate(AXE.read_text(encoding="utf-8"))
        for theme in ("light", "dark"):
            self.lab.theme(theme)
            found: dict[str, Any] = self.page.evaluate("part => axe.run(part)", part)
            assert found["passes"], f"axe-core has looked at nothing in {part}"
            wrong = [
                f"{one['id']}: {node['html'][:200]} {node['failureSummary']}"
                for one in found["violations"]
                for node in one["nodes"]
            ]
            if theme in SHOWN:
                self.page.screenshot(path=self.shots / f"controls-{name}-{theme}.png")
            assert wrong == [], theme
        self.lab.theme("light")

    def check_bar(self, name: str) -> None:
        self.check(".nbdist-lab-bar", name)

    def open_in_a_tab(self, section: str) -> None:
        """Open a section in a tab from the menu, look at it, and close the tab."""
        page = self.page
        page.get_by_role("menuitem", name="Distributed", exact=True).click()
        page.locator(".lm-Menu-item", has_text="Open in a Tab").hover()
        page.get_by_role("menuitem", name=f"Open {section} in a Tab").click()
        tab = page.locator(".jp-MainAreaWidget .nbdist-lab-panel")
        heads = tab.locator(".nbdist-parts-fold-head").filter(visible=True)
        expect(heads).to_have_text([section])
        self.check(".jp-MainAreaWidget .nbdist-lab-panel", "tab")
        self.lab.command("application:close")
        expect(tab).to_have_count(0)

    def kill_process_1(self) -> None:
        """Kill the process whose id a cell has printed, between two cells."""
        printed = self.page.locator(".jp-OutputArea-output", has_text="pid ")
        expect(printed).to_be_visible()
        found = re.search(r"pid (\d+)", printed.inner_text())
        assert found is not None
        expect(self.state).to_have_text(IDLE)
        os.kill(int(found[1]), signal.SIGKILL)
        expect(self.state).to_have_text(STUCK)

    def add(self, code: str, target: str) -> None:
        """Add a cell by mouse and choose where it runs."""
        self.page.locator(".jp-Notebook-footer").click()
        self.cells.last.locator(".cm-content").click()
        self.page.keyboard.insert_text(code)
        self.cells.last.locator(".nbdist-lab-target").select_option(target)

    def keys(self, letter: str) -> None:
        """Press a shortcut of nbdist.

        JupyterLab forgets the first stroke of a shortcut after a second, in which a busy machine may do nothing.
        """
        self.page.evaluate(SLOWER)
        self.page.keyboard.press("Control+Shift+Y")
        self.page.evaluate("window.setTimeout = window.asItWas")
        self.page.keyboard.press(letter)

    def add_by_keys(self, code: str, target: str) -> None:
        """Do as `add`, from a notebook in command mode."""
        press = self.page.keyboard.press
        press("b")
        press("Enter")
        self.page.keyboard.insert_text(code)
        press("Escape")
        menu = self.page.locator(".nbdist-lab-target:focus")
        self.keys("w")
        expect(menu).to_have_count(1)
        press("Home")
        for _ in range(OFFERED.index(target)):
            press("ArrowDown")
        expect(self.cells.last.locator(".nbdist-lab-target")).to_have_value(target)
        press("Escape")


@pytest.fixture
def hand(lab: Lab, lab_page: Callable[[], LabPage], shots: Path) -> Hand:
    page = lab_page()
    page.page.set_viewport_size({"width": 1280, "height": 850})
    page.open(notebook(lab, "hand.ipynb", ""))
    page.wait_for_kernel()
    return Hand(page, shots)


def test_by_mouse(hand: Hand) -> None:
    page = hand.page
    page.locator('.jp-SideBar [data-id="nbdist-devices"]').click()
    expect(hand.state).to_have_text(NONE)
    expect(hand.status).to_be_hidden()
    hand.enables("Start…")
    hand.check_bar("none")
    assert not page.evaluate("jupyterapp.hasPlugin('ipyparallel-labextension:plugin')")

    hand.button("Start…").click()
    field = {
        name: hand.form.locator(f'[data-field="{name}"]')
        for name in ("processes", "devices", "platform", "further")
    }
    for name, nonsense in (("processes", "<b>2</b>"), ("devices", "0"), ("further", "--nodes 3")):
        field[name].fill(nonsense)
        error = hand.form.locator(f"#nbdist-start-{name}-error")
        expect(error).not_to_be_empty()
        expect(hand.answer("Start")).to_be_disabled()
        assert hand.form.locator("b").count() == 0
        hand.check(".nbdist-lab-start", f"form-{name}")
        field[name].fill("")
        expect(error).to_be_empty()
    field["processes"].fill("2")
    field["devices"].fill("2")
    field["platform"].select_option("cpu")
    expect(hand.form.locator("output")).to_have_text(LINE)
    expect(hand.answer("Start")).to_be_enabled()
    hand.answer("Start").click()
    expect(hand.status).to_have_text(IDLE)
    expect(hand.state).to_have_text(IDLE)
    assert hand.sources() == [f"%load_ext nbdist\n{LINE}"]
    hand.enables("Recover", "Restart", "Shut down")
    hand.check_bar("idle")
    hand.open_in_a_tab("Processes")

    run = page.locator('.jp-NotebookPanel-toolbar [data-jp-item-name="run"]')
    hand.add(LOOP, "all processes")
    hand.check(".nbdist-lab-target", "target")
    run.click()
    expect(hand.state).to_have_text(RUNNING)
    hand.enables("Interrupt")
    hand.check_bar("running")
    hand.button("Interrupt").click()
    expect(hand.state).to_have_text(IDLE)
    assert f"%%dist\n{LOOP}" in hand.sources()

    hand.add(PID, "process 1")
    run.click()
    hand.kill_process_1()
    expect(hand.button("Recover")).to_have_class(re.compile("nbdist-lab-first"))
    hand.check_bar("stuck")
    hand.button("Recover").dblclick()
    expect(hand.state).to_have_text(IDLE)
    assert hand.sources().count("%dist_recover") == 1

    hand.button("Restart").click()
    hand.answer("Cancel").click()
    assert "%dist_init --restart" not in hand.sources()
    hand.button("Restart").click()
    hand.answer("Restart").click()
    expect(hand.button("Recover")).to_have_attribute("aria-disabled", "true")
    expect(hand.button("Recover")).not_to_have_attribute("aria-disabled", "true")
    expect(hand.state).to_have_text(IDLE)
    assert "%dist_init --restart" in hand.sources()

    hand.button("Shut down").click()
    hand.answer("Shut down").click()
    expect(hand.state).to_have_text(NONE)
    expect(hand.status).to_be_hidden()
    expect(hand.panel.locator(".nbdist")).to_have_count(0)
    expect(hand.button("Start…")).not_to_have_attribute("aria-disabled", "true")
    hand.check_bar("over")
    assert "%dist_shutdown" in hand.sources()
    expect(hand.lab.errors).to_have_count(1)  # of the cell that was interrupted


def test_by_keyboard(hand: Hand) -> None:
    press = hand.page.keyboard.press
    hand.keys("p")
    expect(hand.state).to_have_text(NONE)
    hand.keys("s")
    expect(hand.form.locator('[data-field="processes"]')).to_be_focused()
    # The kernel answers which platforms there are.
    expect(hand.form.locator('[data-field="platform"] option[value="cpu"]')).to_have_count(1)
    hand.page.keyboard.type("2")
    press("Tab")
    hand.page.keyboard.type("2")
    press("Tab")
    hand.page.keyboard.type("cpu")
    expect(hand.form.locator("output")).to_have_text(LINE)
    press("Enter")
    expect(hand.state).to_have_text(IDLE)

    hand.add_by_keys(LOOP, "all processes")
    press("Control+Enter")
    expect(hand.state).to_have_text(RUNNING)
    hand.keys("r")  # while a cell runs, it adds no cell that would wait for it
    hand.keys("i")
    expect(hand.state).to_have_text(IDLE)
    assert "%dist_recover" not in hand.sources()

    hand.add_by_keys(PID, "process 1")
    press("Control+Enter")
    hand.kill_process_1()
    hand.keys("r")
    expect(hand.state).to_have_text(IDLE)
    hand.keys("t")
    expect(hand.answer("Restart")).to_be_focused()
    press("Enter")
    expect(hand.button("Recover")).to_have_attribute("aria-disabled", "true")
    expect(hand.button("Recover")).not_to_have_attribute("aria-disabled", "true")
    expect(hand.state).to_have_text(IDLE)
    hand.keys("q")
    press("Enter")
    expect(hand.state).to_have_text(NONE)
    assert [source for source in hand.sources() if source.startswith("%dist")] == [
        "%dist_recover",
        "%dist_init --restart",
        "%dist_shutdown",
    ]


def test_the_panel_follows_the_active_notebook(hand: Hand, lab: Lab) -> None:
    page, command = hand.page, hand.lab.command
    command("nbdist:show-devices")

    def start(processes: int) -> None:
        page.locator(".jp-NotebookPanel:visible .jp-CodeCell .cm-content").first.click()
        page.keyboard.insert_text(f"%load_ext nbdist\n%dist_init -n {processes} --platform cpu")
        hand.lab.start("notebook:run-cell")

    start(2)
    expect(hand.state).to_have_text(IDLE)
    command("docmanager:open", {"path": notebook(lab, "other.ipynb", "")})
    expect(hand.state).to_have_text(NONE)
    hand.lab.wait_for_kernel()
    start(1)
    expect(hand.state).to_have_text("1 process · idle")
    expect(hand.panel.locator(".nbdist-session-process")).to_have_count(1)
    page.locator(".lm-TabBar-tab", has_text="hand.ipynb").click()
    expect(hand.state).to_have_text(IDLE)
    expect(hand.panel.locator(".nbdist-session-process")).to_have_count(2)
    # What is shut down is the session of this notebook.
    hand.button("Shut down").click()
    hand.answer("Shut down").click()
    expect(hand.state).to_have_text(NONE)
    page.locator(".lm-TabBar-tab", has_text="other.ipynb").click()
    expect(hand.state).to_have_text("1 process · idle")


def test_a_narrow_panel_has_all_buttons_and_nothing_beside_it(hand: Hand) -> None:
    hand.lab.command("nbdist:show-devices")
    panel = hand.page.locator("#jp-right-stack")
    box = panel.bounding_box()
    assert box is not None
    hand.page.mouse.move(box["x"] - 1, box["y"] + 300)
    hand.page.mouse.down()
    hand.page.mouse.move(box["x"] + box["width"] - 250, box["y"] + 300, steps=5)
    hand.page.mouse.up()
    width = hand.panel.evaluate("node => [node.clientWidth, node.scrollWidth]")
    assert width[0] <= 260
    assert width[1] <= width[0]
    hand.check_bar("narrow")
