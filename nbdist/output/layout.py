"""Blocks as lines of text, each with the processes it is from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from nbdist.output.blocks import Block, NoteBlock, TextBlock
from nbdist.quantities import processes_text

Name = Callable[[Sequence[int]], str]
"""What the output of some processes stands under, such as `processes 0–3`."""

_WIDEST = 40
_SPACE = "   "


class Layout(NamedTuple):
    """Lines, and the processes whose label the last of them stands under, if any."""

    lines: list[str]
    label: tuple[int, ...] | None


def lay_out(
    blocks: Sequence[Block],
    *,
    muted: Callable[[str], str],
    label: tuple[int, ...] | None = None,
    name: Name = processes_text,
) -> Layout:
    """The lines of blocks, of a rich block its label only.

    A single line stands behind its label, several below it; the labels of neighboring single
    lines are padded to one width, up to 40 characters. `label` is what the lines before these
    stand under: it is not repeated. `muted` paints a label, `name` words it.
    """
    lines: list[str] = []
    for index, block in enumerate(blocks):
        if isinstance(block, NoteBlock):
            lines += block.text.split("\n")
            label = None
            continue
        own = list(block.lines) if isinstance(block, TextBlock) else []
        if block.continued or block.processes == label:
            lines += own
        elif len(own) == 1:
            width = _width(blocks, index, name)
            text = name(block.processes)
            lines.append(f"{muted(text)}{' ' * (width - len(text))}{_SPACE}{own[0]}")
            label = None
        else:
            lines += [muted(name(block.processes)), *own]
            label = block.processes
    return Layout(lines, label)


def _width(blocks: Sequence[Block], index: int, name: Name) -> int:
    """Width of the labels of all single lines next to this one."""
    first = last = index
    while first > 0 and _single(blocks[first - 1]):
        first -= 1
    while last + 1 < len(blocks) and _single(blocks[last + 1]):
        last += 1
    own = len(_label(blocks[index], name))
    widths = [len(_label(block, name)) for block in blocks[first : last + 1]]
    return max(own, *(width for width in widths if width <= _WIDEST), 0)


def _single(block: Block) -> bool:
    return isinstance(block, TextBlock) and len(block.lines) == 1 and not block.continued


def _label(block: Block, name: Name) -> str:
    return "" if isinstance(block, NoteBlock) else name(block.processes)
