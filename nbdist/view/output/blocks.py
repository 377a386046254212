"""Blocks: the outputs of many processes as one sequence from top to bottom, and its lines of text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, NamedTuple

from nbdist.notation import processes_text
from nbdist.view.output.entries import Display, Entry, Line
from nbdist.view.widgets import LiveWidget


@dataclass(frozen=True, slots=True, kw_only=True)
class TextBlock:
    """Lines that are equal on all of `processes`, without line ends, with their ANSI colors.

    A `continued` block follows one of the same processes and needs no label of its own.
    """

    processes: tuple[int, ...]
    lines: tuple[str, ...]
    continued: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RichBlock:
    """A MIME bundle that is equal on all of `processes`. Equal bundles have one `digest`.

    `widgets` are the widgets of the processes for which it stands, if any.
    """

    processes: tuple[int, ...]
    data: Mapping[str, Any]
    metadata: Mapping[str, Any]
    digest: str
    continued: bool = False
    widgets: tuple[LiveWidget, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteBlock:
    """A line of nbdist's own between the outputs."""

    text: str


Block = TextBlock | RichBlock | NoteBlock


class Builder:
    """Builder of blocks from entries; consecutive lines of the same processes make one block."""

    def __init__(self) -> None:
        self._blocks: list[Block | _Text] = []

    def add(self, processes: tuple[int, ...], entries: Sequence[Entry]) -> None:
        """Append entries that these processes have in common."""
        wrapped = ""
        for entry, following in zip_longest(entries, entries[1:]):
            if isinstance(entry, Display):
                if not entry.taken_away:
                    self._blocks.append(self._rich(processes, entry))
                continue
            wrapped += entry.text
            if not (isinstance(entry, Line) and entry.wrapped and isinstance(following, Line)):
                self._text(processes).lines.append(wrapped)
                wrapped = ""

    def note(self, text: str) -> None:
        """Append a note."""
        self._blocks.append(NoteBlock(text=text))

    def blocks(self) -> tuple[Block, ...]:
        """Return the blocks so far."""
        return tuple(one.block() if isinstance(one, _Text) else one for one in self._blocks)

    def _text(self, processes: tuple[int, ...]) -> _Text:
        last = self._blocks[-1] if self._blocks else None
        if isinstance(last, _Text) and last.processes == processes:
            return last
        text = _Text(processes, [], self._continues(processes))
        self._blocks.append(text)
        return text

    def _rich(self, processes: tuple[int, ...], display: Display) -> RichBlock:
        return RichBlock(
            processes=processes,
            data=display.data,
            metadata=display.metadata,
            digest=display.digest,
            continued=self._continues(processes),
            widgets=display.widgets,
        )

    def _continues(self, processes: tuple[int, ...]) -> bool:
        last = self._blocks[-1] if self._blocks else None
        return isinstance(last, _Text | RichBlock) and last.processes == processes


@dataclass(slots=True)
class _Text:
    processes: tuple[int, ...]
    lines: list[str]
    continued: bool

    def block(self) -> TextBlock:
        return TextBlock(
            processes=self.processes, lines=tuple(self.lines), continued=self.continued
        )


Name = Callable[[Sequence[int]], str]
"""A function that words the label of some processes' output, such as `processes 0–3`."""

_WIDEST = 40
"""The most characters to which labels are padded."""

_SPACE = "   "


class LabelledLines(NamedTuple):
    """Lines, and the processes whose label is above the last of them, if any."""

    lines: list[str]
    label: tuple[int, ...] | None


def lay_out(
    blocks: Sequence[Block],
    *,
    muted: Callable[[str], str],
    label: tuple[int, ...] | None = None,
    name: Name = processes_text,
) -> LabelledLines:
    """Return the lines of blocks, of a rich block only its label.

    A single line is behind its label, several are below it; the labels of neighboring single lines are padded to
    one width, up to 40 characters. `label` is the label above the lines before these, and is not repeated. `muted`
    paints a label, `name` words it.
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
    return LabelledLines(lines, label)


def _width(blocks: Sequence[Block], index: int, name: Name) -> int:
    """Return the width of the labels of all single lines next to this one."""
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
