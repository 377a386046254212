"""Sees to a browser for the tests: `python -m tests.browser.install`.

It takes one that is there and starts: `NBDIST_CHROMIUM`, Chromium or Chrome on the path, Playwright's own.
Where there is none it has Playwright download its own, and where that fails asks the system's package
manager, on Debian and its kin and for root only.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import Error, sync_playwright

from tests.browser.viewpage import chromium

DOWNLOAD_SECONDS = 300.0
"""Where nothing outside can be reached, Playwright tries for minutes."""

PLAYWRIGHT = (sys.executable, "-m", "playwright", "install", "chromium")
DEBIAN = (
    ("apt-get", "update"),
    ("apt-get", "install", "-y", "--no-install-recommends", "chromium"),
)


def why_not(path: str | None) -> str | None:
    """Starts and ends a browser.

    Args:
      path: The program; None for Playwright's own.

    Returns:
      None when it starts, else what it said.
    """
    with sync_playwright() as playwright:
        try:
            playwright.chromium.launch(
                executable_path=path, args=["--no-sandbox", "--disable-dev-shm-usage"]
            ).close()
        except Error as error:
            return str(error).partition("\n")[0]
    return None


def run(*command: str) -> bool:
    """Runs a command with its output shown; whether it ended well and in time."""
    print("browser:", *command, flush=True)
    try:
        return subprocess.run(command, timeout=DOWNLOAD_SECONDS, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired) as error:
        print(f"browser: {error}", flush=True)
        return False


def can_use_apt(*, root: Path = Path("/")) -> bool:
    """Whether this is root on Debian or a system made from it."""
    debian = (root / "etc" / "debian_version").exists()
    return debian and shutil.which("apt-get") is not None and os.geteuid() == 0


def install() -> str | None:
    """Finds a browser, or gets one.

    Returns:
      Its path; None for Playwright's own.

    Raises:
      SystemExit: There is none and none could be got; the text says what to do.
    """
    try:
        path = chromium()
    except FileNotFoundError as error:
        raise SystemExit(f"browser: {error}") from error
    said = why_not(path)
    if said is None:
        return path
    if path is not None:
        # Another browser would not help: the tests take this one as well.
        raise SystemExit(
            f"browser: {path} does not start ({said}). Name another in NBDIST_CHROMIUM."
        )
    if run(*PLAYWRIGHT) and why_not(None) is None:
        return None
    if can_use_apt() and all(run(*command) for command in DEBIAN):
        path = chromium()
        if path is not None and why_not(path) is None:
            return path
    raise SystemExit(
        "browser: the tests need Chromium, and it could be had neither from Playwright nor from this "
        "system's packages. Install Chromium or Chrome, or name one in NBDIST_CHROMIUM, and run this again."
    )


if __name__ == "__main__":
    print(f"browser: {install() or 'Playwright’s own Chromium'}")
