"""The outputs of many processes as one: equal ones folded, differing ones by process."""

from nbdist.output.blocks import Block, NoteBlock, RichBlock, TextBlock
from nbdist.output.cell import CellOutput
from nbdist.output.notebook import NotebookRenderer
from nbdist.output.renderer import (
    Renderer,
    above_what_is_typed,
    drops_later_output,
    renderer_elsewhere,
    renderer_for,
    show_end,
    shows_widgets,
)
from nbdist.output.terminal import TerminalRenderer

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
