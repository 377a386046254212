"""Where the page that holds one view comes from, and the browser that shows it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Literal

from playwright.sync_api import Locator, Page, Route

HERE = Path(__file__).parent
WIDGET = HERE.parents[1] / "nbdist" / "static" / "widget.js"
ORIGIN = "http://view.invalid/"
"""Never looked up: every request to it is answered from disk."""


def chromium() -> str | None:
    """Path of a Chromium: `NBDIST_CHROMIUM`, one on the path, or None for Playwright's own."""
    named = os.environ.get("NBDIST_CHROMIUM")
    for name in (named, "chromium", "chromium-browser", "google-chrome"):
        if name and (path := shutil.which(name)):
            return path
    if named:
        raise FileNotFoundError(f"NBDIST_CHROMIUM is {named!r}, which is no program.")
    return None


def answer(route: Route) -> None:
    """Answers a request of a page that holds one view."""
    name = route.request.url.removeprefix(ORIGIN).split("?")[0]
    path = WIDGET if name == "widget.js" else HERE / name
    if path.is_file():
        route.fulfill(path=path)
    else:
        route.fulfill(status=404, body="")


def row_of(where: Page | Locator, path: str) -> Locator:
    """The row of an array, a branch or a variable, by its whole path; its text may have only the path's end."""
    return where.locator(f'[aria-description^="{path},"]')


def set_theme(page: Page, *, dark: bool) -> None:
    """Gives a loaded page the colours of one of JupyterLab's themes, and the preference that goes with them."""
    scheme: Literal["dark", "light"] = "dark" if dark else "light"
    page.emulate_media(color_scheme=scheme)
    page.evaluate(f"document.body.className = 'lab-{scheme}'")
