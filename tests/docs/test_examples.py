"""What the tutorial and the how-to pages have typed is typed, in one kernel, and shows what they say."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.docs.pages import Typed, agrees, pages, typed
from tests.integration.notebook import ANSI, execute
from tests.integration.test_tour import users_environment

CELL_SECONDS = 150
START = "%dist_init -n 2 --devices-per-process 2 --platform cpu"
END = "%dist_shutdown"
WIDGET = "application/vnd.jupyter.widget-view+json"
"""A front end shows it in place of its text."""
RUN = {page: [block for block in typed(page) if block.not_run is None] for page in pages()}
BLOCKS = [block for blocks in RUN.values() for block in blocks]


def cell_of(code: str, place: str) -> Any:
    """A cell that others go on after, also when it fails: each block has a test of its own."""
    return nbformat.v4.new_code_cell(code, metadata={"tags": ["raises-exception"], "place": place})


def cells_of(page: Path) -> list[Any]:
    """A page's cells, with a session around them where it starts none."""
    blocks = RUN[page]
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


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Said]:
    """By place, what each cell has shown."""
    folder = tmp_path_factory.mktemp("pages")
    notebook = nbformat.v4.new_notebook()
    notebook.cells = [cell for page in RUN for cell in cells_of(page)]
    env = users_environment(IPYTHONDIR=str(folder / "ipython"))
    execute(notebook, folder=folder, env=env, cell_timeout_s=CELL_SECONDS)
    return {
        cell.metadata["place"]: Said(
            said_by(cell, pictures=True),
            said_by(cell, pictures=False),
            any(output.output_type == "error" for output in cell.outputs),
        )
        for cell in notebook.cells
    }


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.place)
def test_a_block_shows_what_its_page_says(block: Typed, said: dict[str, Said]) -> None:
    found = said[block.place]
    assert found.failed == block.fails, found.text
    if block.shown is not None:
        agreed = agrees(block.shown, found.text) or agrees(block.shown, found.besides)
        assert agreed, f"{block.place} shows:\n{found.text}"


def test_sessions_around_pages_start_and_end(said: dict[str, Said]) -> None:
    around = {place: found for place, found in said.items() if "%" in place}
    assert around
    assert {place: found.text for place, found in around.items() if found.failed} == {}


def test_the_whole_tutorial_is_run() -> None:
    tutorial = typed(pages()[0])
    assert len(tutorial) > 10
    assert not [block.place for block in tutorial if block.not_run]


def test_only_times_and_versions_may_differ() -> None:
    shown = "ready in 1.5 s, jax 0.12.0.1\n…\nloss 0.5"
    assert agrees(shown, "ready in 21.5 s, jax 0.13\nx\ny\nloss 0.5\n")
    assert agrees(shown, "ready in 21.5 s, jax 0.13\nloss 0.5")
    assert not agrees(shown, "ready in 21.5 s, jax 0.13\nx\nloss 0.6")
    assert not agrees(shown, "ready in 21.5 s\nx\nloss 0.5")
