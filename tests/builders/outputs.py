"""What processes put out in a cell, and what is made of it."""

from __future__ import annotations

from collections.abc import Iterable

from nbdist.view.output import CellOutput, NoteBlock, TextBlock

PNG = {"image/png": "iVBORw0KGgo=", "text/plain": "<Figure size 640x480 with 1 Axes>"}
LINES = 2000


def say(
    cell: CellOutput, text: str, processes: Iterable[int] = range(4), name: str = "stdout"
) -> None:
    """Processes write the same."""
    for process_id in processes:
        cell.stream(process_id, name, text)


def shown(cell: CellOutput) -> list[object]:
    """What stands in a cell, from top to bottom: notes, texts and displays of their processes."""
    return [
        block.text
        if isinstance(block, NoteBlock)
        else (block.processes, block.lines if isinstance(block, TextBlock) else set(block.data))
        for block in cell.blocks()
    ]


def flood(start: int, *, said_by: str = "") -> str:
    """More lines than a cell shows."""
    return "".join(f"line {start + n} of a flood{said_by}\n" for n in range(LINES))


def texts(cell: CellOutput) -> list[TextBlock]:
    """The blocks of text."""
    return [block for block in cell.blocks() if isinstance(block, TextBlock)]


def cut_lines(cell: CellOutput) -> list[str]:
    """The lines that say what was left out."""
    return [line for block in texts(cell) for line in block.lines if line.startswith("…")]
