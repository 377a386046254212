"""Pages of the documentation, run in a kernel: what each of their blocks has shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat

from tests.docs.pages import Typed, agrees
from tests.integration.executed import executed
from tests.integration.notebook import ANSI, Notebook, Output, folded

CELL_SECONDS = 150
START = "%dist_init -n 2 --devices-per-process 2 --platform cpu"
END = "%dist_shutdown"
WIDGET = "application/vnd.jupyter.widget-view+json"
"""A front end shows it in place of its text."""

Pages = Mapping[Path, Sequence[Typed]]
"""The blocks that are run, by page."""


def cell_of(code: str, place: str) -> Any:
    """A cell that others go on after, also when it fails: each block has a test of its own."""
    return nbformat.v4.new_code_cell(code, metadata={"tags": ["raises-exception"], "place": place})


def cells_of(page: Path, blocks: Sequence[Typed]) -> list[Any]:
    """A page's cells, with a session around them where it starts none."""
    cells = [cell_of(block.code, block.place) for block in blocks]
    if not any(block.code.endswith(END) for block in blocks):
        cells.append(cell_of(END, f"{page.name} {END}"))
    if not any("%dist_init" in block.code for block in blocks):
        cells.insert(0, cell_of(START, f"{page.name} {START}"))
    return cells if blocks else []


def said_by(cell: Any, *, pictures: bool) -> str:
    """What a cell shows as text, errors included, colours removed; pictures have a text, too."""
    parts = []
    for output in cell.outputs:
        data = output.get("data", {})
        if WIDGET in data or ("text/html" in data and not pictures):
            continue
        if output.output_type == "error":
            parts.append("\n".join(output.traceback))
        if not folded(data.get("text/html", "")):
            parts.append(output.get("text", "") or data.get("text/plain", ""))
    return ANSI.sub("", "\n".join(part.rstrip("\n") for part in parts if part.strip()))


@dataclass(frozen=True, slots=True)
class Said:
    """What a cell has shown.

    Attributes:
      text: All of it.
      besides: The same without pictures, which a page may leave out.
      failed: Whether it ended with an error.
    """

    text: str
    besides: str
    failed: bool


def run(pages: Pages, *, folder: Path, without: tuple[str, ...] = ()) -> dict[str, Said]:
    """Runs pages in one kernel, or where somebody types at a prompt each in one of its own.

    Args:
      pages: What is run.
      folder: The working folder.
      without: How the names of variables begin that the kernel is not to have.

    Returns:
      By place, what each cell has shown.
    """
    alone = {page: blocks for page, blocks in pages.items() if any(b.lines for b in blocks)}
    notebook = nbformat.v4.new_notebook()
    notebook.cells = [
        cell
        for page, blocks in pages.items()
        if page not in alone
        for cell in cells_of(page, blocks)
    ]
    ran = executed(notebook, folder=folder, without=without, cell_timeout_s=CELL_SECONDS)
    said = {
        cell.metadata["place"]: Said(
            said_by(cell, pictures=True),
            said_by(cell, pictures=False),
            any(output.output_type == "error" for output in cell.outputs),
        )
        for cell in ran.values()
    }
    for blocks in alone.values():
        said |= _run_with_a_person(blocks, folder)
    return said


def _run_with_a_person(blocks: Sequence[Typed], folder: Path) -> dict[str, Said]:
    """The cells of one page, whose numbers are then those of the page."""
    found = {}
    with Notebook(folder=folder) as notebook:
        notebook.good("%load_ext nbdist")
        notebook.good(START)
        for block in blocks:
            output = _answered(notebook, block)
            text = "\n".join(part for part in (output.text, output.traceback) if part)
            found[block.place] = Said(text, text, output.error is not None)
        notebook.good(END)
    return found


def _answered(notebook: Notebook, block: Typed) -> Output:
    """A cell, with a person who types the block's lines at its prompts."""
    request = notebook.send(block.code, person=bool(block.lines))
    for line in block.lines:
        notebook.asked(request)
        notebook.types(line)
    return notebook.collect(request)


def check(block: Typed, said: Mapping[str, Said]) -> None:
    """Lets pass where a block has shown what its page says."""
    found = said[block.place]
    assert found.failed == block.fails, found.text
    if block.shown is not None:
        agreed = agrees(block.shown, found.text) or agrees(block.shown, found.besides)
        assert agreed, f"{block.place} shows:\n{found.text}"
