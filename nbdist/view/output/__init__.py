"""The outputs of many processes as one: equal ones folded, differing ones by process."""

from nbdist.view.output.cell import CellOutput
from nbdist.view.output.fold import Block, NoteBlock, RichBlock, TextBlock
from nbdist.view.output.renderer import (
    NotebookRenderer,
    Renderer,
    TerminalRenderer,
    blocks_text,
    drops_later_output,
    in_notebook,
    renderer_elsewhere,
    renderer_for,
    show_details,
    show_end,
)

__all__ = [
    "Block",
    "CellOutput",
    "NoteBlock",
    "NotebookRenderer",
    "Renderer",
    "RichBlock",
    "TerminalRenderer",
    "TextBlock",
    "blocks_text",
    "drops_later_output",
    "in_notebook",
    "renderer_elsewhere",
    "renderer_for",
    "show_details",
    "show_end",
]
