"""Notebooks that are committed, from top to bottom, in a kernel as JupyterLab runs it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode

from tests.integration.notebook import ANSI, LOST_PORT, folded
from tests.places import ROOT

NOTEBOOKS = ROOT / "notebooks"
MAY_FAIL = "raises-exception"
CELL_SECONDS = 150
"""More than a start may take, so that one which does not succeed says which process is missing."""

Cells = dict[str, Any]
"""Executed cells by id."""


def users_environment(**added: str) -> dict[str, str]:
    """The environment without pytest's variables, which change what engines do."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    return {**kept, **added}


def execute(
    notebook: NotebookNode, *, folder: Path, env: dict[str, str], cell_timeout_s: int
) -> None:
    """Runs a notebook from top to bottom, in `folder`; its cells then have their outputs."""
    # Times are not recorded: where ipyparallel's client has been imported, jupyter_client leaves the times of
    # messages as text, which nbclient replaces by a call that is deprecated since Python 3.12.
    client = NotebookClient(
        notebook,
        timeout=cell_timeout_s,
        record_timing=False,
        resources={"metadata": {"path": str(folder)}},
    )
    try:
        client.execute(env=env)
    except RuntimeError as error:
        if not LOST_PORT.search(str(error)):
            raise
        client.km = client.kc = None
        client.execute(env=env)


def executed(
    notebook: Path | NotebookNode,
    *,
    folder: Path,
    without: tuple[str, ...] = (),
    cell_timeout_s: int = CELL_SECONDS,
    **added: str,
) -> Cells:
    """The cells of a notebook that was run in `folder`; an error in a cell that must not fail is the test's.

    The kernel has no variables of which the name begins as `without` says, and those that are `added`.
    """
    if isinstance(notebook, Path):
        notebook = nbformat.read(notebook, as_version=4)
    env = users_environment(IPYTHONDIR=str(folder / "ipython"), **added)
    env = {name: value for name, value in env.items() if not name.startswith(without)}
    execute(notebook, folder=folder, env=env, cell_timeout_s=cell_timeout_s)
    return {cell.id: cell for cell in notebook.cells}


def tagged(cells: Mapping[str, Any]) -> set[str]:
    """Those that are meant to fail."""
    return {name for name, cell in cells.items() if MAY_FAIL in cell.metadata.get("tags", ())}


def failed(cells: Mapping[str, Any]) -> set[str]:
    """Those that have failed."""
    outputs = {name: cell.get("outputs", ()) for name, cell in cells.items()}
    return {name for name, shown in outputs.items() if any(o.output_type == "error" for o in shown)}


def text_of(cell: Any) -> str:
    """Return the text of a cell's outputs, with errors and folded details, without colours."""
    parts = []
    for output in cell.outputs:
        data = output.get("data", {})
        parts.append(output.get("text", ""))
        parts.append(folded(data.get("text/html", "")) or data.get("text/plain", ""))
        parts.append("\n".join(output.get("traceback", ())))
    return ANSI.sub("", "\n".join(part for part in parts if part))


def lost_in(shown: str) -> set[str]:
    """The first names of the paths in the sentences about lost arrays."""
    found = re.findall(r"Lost[^:]*: (.+?)\.(?: |$)", shown, re.M)
    return {re.split(r"[\[. ]", name)[0] for names in found for name in names.split(", ")}
