"""The outputs of many processes as one sequence of blocks, from top to bottom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from nbdist.output.entries import Display, Entry, Line
from nbdist.widgets import LiveWidget


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

    `widgets` are the processes' widgets that it stands for, if any.
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
    """Puts blocks together from entries; consecutive lines of the same processes make one block."""

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
