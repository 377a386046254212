"""The outputs of many processes as one: equal ones folded, differing ones by process."""

from nbdist.view.output.blocks import Block, NoteBlock, RichBlock, TextBlock
from nbdist.view.output.cell import CellOutput
from nbdist.view.output.notebook import NotebookRenderer
from nbdist.view.output.renderer import (
    Renderer,
    TerminalRenderer,
    above_what_is_typed,
    drops_later_output,
    renderer_elsewhere,
    renderer_for,
    show_end,
    shows_widgets,
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
    "above_what_is_typed",
    "drops_later_output",
    "renderer_elsewhere",
    "renderer_for",
    "show_end",
    "shows_widgets",
]
