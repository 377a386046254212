"""`nbdist demo`: the tour, in JupyterLab where somebody can look, else in this terminal."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

TOUR = "01_tour.ipynb"
MAY_FAIL = "raises-exception"
"""The cell tag by which notebook tools know that a cell fails on purpose."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of the command `nbdist`.

    Returns:
      The exit code.
    """
    parser = argparse.ArgumentParser(prog="nbdist", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    demo = commands.add_parser("demo", help="run the tour")
    demo.add_argument("--notebook", type=Path, default=None, help="another notebook than the tour")
    demo.add_argument("--terminal", action="store_true", help="here, also where there is a display")
    options = parser.parse_args(arguments)
    notebook = options.notebook or find_tour()
    if options.terminal or not can_show(os.environ, terminal=sys.stdin.isatty()):
        return in_terminal(notebook)
    return in_lab(notebook)


def find_tour() -> Path:
    """The tour's notebook, in the checkout this package was installed from.

    Raises:
      SystemExit: It is not there, as in an installation without the notebooks.
    """
    path = Path(__file__).parent.parent / "notebooks" / TOUR
    if not path.exists():
        raise SystemExit(
            f"nbdist demo: {path} is not there; run it from a clone of the repository."
        )
    return path


def can_show(environment: Mapping[str, str], *, terminal: bool) -> bool:
    """Whether a browser can be opened for somebody: a terminal, and a display."""
    if sys.platform in ("darwin", "win32"):
        return terminal
    return terminal and any(environment.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))


def in_lab(notebook: Path) -> int:
    """Opens JupyterLab on a copy of the notebook, so that the original stays as it is."""
    with tempfile.TemporaryDirectory(prefix="nbdist-demo-") as folder:
        copy = shutil.copy(notebook, folder)
        command = [sys.executable, "-m", "jupyterlab", "--ServerApp.ip=127.0.0.1", str(copy)]
        return subprocess.call(command, cwd=folder)


def in_terminal(notebook: Path) -> int:
    """Runs the notebook's cells in this terminal, with everything shown as text.

    Returns:
      0 when every cell did what it should, 1 at the first that did not.
    """
    from IPython.terminal.interactiveshell import TerminalInteractiveShell
    from traitlets.config import Config

    os.environ.setdefault("MPLBACKEND", "agg")
    config = Config()
    config.HistoryManager.enabled = False
    config.TerminalInteractiveShell.colors = "linux" if sys.stdout.isatty() else "nocolor"
    shell = TerminalInteractiveShell.instance(config=config)
    try:
        for source, may_fail in cells(json.loads(notebook.read_text(encoding="utf-8"))):
            print("\n" + "\n".join(f"  │ {line}" for line in source.splitlines()), flush=True)
            result = shell.run_cell(source, store_history=True)
            if result.success == may_fail:
                print("This cell should have failed." if may_fail else "The tour ends here.")
                return 1
    finally:
        shell.run_cell("%unload_ext nbdist")
    return 0


def cells(notebook: Mapping[str, Any]) -> Iterator[tuple[str, bool]]:
    """The code cells of a notebook, and whether each is meant to fail."""
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            source = cell["source"]
            text = source if isinstance(source, str) else "".join(source)
            yield text, MAY_FAIL in cell.get("metadata", {}).get("tags", [])


if __name__ == "__main__":
    sys.exit(main())
