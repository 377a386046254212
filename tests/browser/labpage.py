"""A page of a real JupyterLab with one notebook open, and what its view shows."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.sync_api import Locator, Page, expect

PATIENT_MS = 60_000
"""For whatever a page is waited for: Playwright's own limits are too short where other work runs."""

THEMES = {"light": "JupyterLab Light", "dark": "JupyterLab Dark"}

# Once more, in the dark, is for its pictures: nothing that is checked depends on the theme.
SHOWN = ("light", "dark") if "NBDIST_SHOTS" in os.environ else ("light",)

WATCH = """view => {
  window.texts = [];
  const note = () => window.texts.push(view.innerText);
  new MutationObserver(note).observe(view, {childList: true, characterData: true, subtree: true});
}"""
"""Keeps in `window.texts` all that a view says, also what is gone before it is looked for."""

MOVES_SECONDS = 20.0
"""A view that stands still for so long has been given up by whoever watches it."""


@dataclass(frozen=True, slots=True)
class Lab:
    """A running JupyterLab: where it answers, its notebooks, and the token to say."""

    url: str
    root: Path
    token: str = "nbdist"


def notebook(lab: Lab, name: str, *sources: str) -> str:
    """Writes a notebook with one code cell a source; answers its path."""
    cells = [
        {
            "cell_type": "code",
            "id": f"c{number}",
            "metadata": {},
            "source": source,
            "outputs": [],
            "execution_count": None,
        }
        for number, source in enumerate(sources)
    ]
    spec = {"name": "python3", "display_name": "Python 3"}
    content = {
        "cells": cells,
        "metadata": {"kernelspec": spec},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    (lab.root / name).write_text(json.dumps(content))
    return name


class LabPage:
    """One browser page with one notebook open."""

    def __init__(self, page: Page, lab: Lab) -> None:
        self.page = page
        page.set_default_timeout(PATIENT_MS)
        self._lab = lab
        self._said: list[str] = []
        page.on("pageerror", lambda error: self._said.append(str(error)))
        page.on("crash", lambda _: self._said.append("it crashed"))

    def open(self, name: str, *, reset: bool = True) -> None:
        query = f"token={self._lab.token}{'&reset' if reset else ''}"
        self.page.goto(f"{self._lab.url}/lab/tree/{name}?{query}")
        self.page.wait_for_selector(".jp-NotebookPanel .jp-Cell")
        # The server keeps the one that was chosen last, by whichever test.
        self.theme("light")

    def open_with_view(self, name: str, *, run: int, theme: str = "light") -> Locator:
        """Opens a notebook and the panel beside it, and runs the first cells; answers the view in the panel."""
        self.open(name)
        self.wait_for_kernel()
        self.theme(theme)
        self.command("nbdist:show-devices")
        self.run_cells(run)
        return self.panel

    def open_empty(self) -> None:
        """JupyterLab without a document."""
        self.page.goto(f"{self._lab.url}/lab?token={self._lab.token}&reset")
        # Asked again and again: the page loads itself anew once what was saved of it is reset.
        self.page.wait_for_function(
            "() => !location.search.includes('reset') && window.jupyterapp?.restored.then(() => true)"
        )

    def theme(self, name: str) -> None:
        """Has the page `light` or `dark`; returns when it is. Until then JupyterLab covers the page."""
        wanted = THEMES[name]
        if self.page.evaluate("document.body.dataset.jpThemeName") != wanted:
            self.command("apputils:change-theme", {"theme": wanted})
        self.page.wait_for_function(
            "name => document.body.dataset.jpThemeName === name", arg=wanted
        )
        self.page.locator("#jupyterlab-splash").wait_for(state="detached")

    def wait_for_kernel(self) -> None:
        self.page.wait_for_function(
            "window.jupyterapp.shell.currentWidget?.sessionContext?.session?.kernel?.status"
            " === 'idle'",
            timeout=60_000,
        )

    def command(self, name: str, arguments: dict[str, Any] | None = None) -> None:
        """Runs a command and waits for what it answers."""
        self.page.evaluate(
            "([name, args]) => jupyterapp.commands.execute(name, args)", [name, arguments or {}]
        )

    def start(self, name: str, arguments: dict[str, Any] | None = None) -> None:
        """Runs a command and does not wait."""
        self.page.evaluate(
            "([name, args]) => { void jupyterapp.commands.execute(name, args); }",
            [name, arguments or {}],
        )

    def start_next(self) -> None:
        """Run the chosen cell and do not wait for it; a cell sent before an earlier one fails would never run."""
        expect(self.page.locator(".jp-InputArea-prompt", has_text="*")).to_have_count(
            0, timeout=60_000
        )
        self.start("notebook:run-cell-and-select-next")

    def run_cells(self, count: int) -> None:
        for _ in range(count):
            self.command("notebook:run-cell-and-select-next")

    def wait_for_saved_layout(self) -> None:
        """JupyterLab saves which panels are open a moment after that has changed."""
        self.page.wait_for_function(
            "async () => JSON.stringify((await jupyterapp.serviceManager.workspaces.fetch('default'))"
            ".data['layout-restorer:data'] ?? '').includes('nbdist-devices')",
            timeout=60_000,
            polling=300,
        )

    @property
    def output(self) -> Locator:
        return self.page.locator(".jp-OutputArea .nbdist")

    @property
    def panel(self) -> Locator:
        return self.page.locator("#nbdist-devices .nbdist")

    @property
    def errors(self) -> Locator:
        """Tracebacks that cells ended with."""
        kinds = "stderr", "error"
        types = (f'[data-mime-type="application/vnd.jupyter.{kind}"]' for kind in kinds)
        return self.page.locator(", ".join(types))

    def account(self) -> str:
        """What one looks at after a failed test: the kernel, all outputs, what the page complained of."""
        kernel = "window.jupyterapp?.shell.currentWidget?.sessionContext?.session?.kernel?.status"
        outputs = self.page.locator(".jp-Cell").all_inner_texts()
        return "\n".join(
            (
                f"the kernel is {self.page.evaluate(kernel)}; the page is"
                f" {self.page.evaluate('document.visibilityState')}",
                *(f"cell: {text[-2000:]}" for text in outputs),
                *(f"the page said: {text[:500]}" for text in self._said),
            )
        )

    def busy(self) -> bool:
        prompt = self.page.locator(".jp-InputArea-prompt", has_text="*")
        return prompt.count() > 0


def moving(view: Locator) -> bool:
    """Whether the line the processes are in moves on."""
    expect(view.locator(".nbdist-session-what").first).to_be_visible()
    first = view.locator(".nbdist-session-what").first.inner_text()
    deadline = time.monotonic() + MOVES_SECONDS
    while time.monotonic() < deadline:
        if view.locator(".nbdist-session-what").first.inner_text() != first:
            return True
        time.sleep(0.1)
    return False


def slices_shown(view: Locator) -> dict[str, str]:
    """What each device's card says it holds."""
    expect(view.locator(".nbdist-mesh-card").first).to_be_visible()
    cards = view.locator(".nbdist-mesh-card").all()
    return {
        str(card.get_attribute("data-device")): card.locator(".nbdist-mesh-holds").inner_text()
        for card in cards
    }
