"""The folded output in a terminal: what is printed stays."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Sequence
from typing import TextIO

from nbdist.output import sgr
from nbdist.output.blocks import Block, NoteBlock, RichBlock, TextBlock
from nbdist.output.cell import CellOutput
from nbdist.output.layout import Name, lay_out
from nbdist.quantities import processes_text

_SHORTEST_S = 0.2
_MOST_BARS = 8
_DIM = "2"


class TerminalRenderer:
    """Prints a `CellOutput` as it comes, each output once.

    On a terminal the progress bars that are being redrawn stand below everything, one for all
    processes that are at the same one, and below them how things stand; elsewhere a bar is printed when it is
    complete.

    Args:
      file: Where to; by default what `sys.stdout` is at the time.
      name: What output stands under; None: the processes, said again only where others come. Other text may stand
        between two outputs with a name of their own, so that it is said each time.
    """

    def __init__(
        self,
        *,
        file: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
        name: Name | None = None,
    ) -> None:
        self._file = file
        self._clock = clock
        self._name = name
        self._label: tuple[int, ...] | None = None
        self._bars: list[str] = []
        self._not_before = 0.0

    def refresh(self, output: CellOutput, *, final: bool = False) -> None:
        """Prints what is new: at most five times a second, except when `final`."""
        now = self._clock()
        if now < self._not_before and not final:
            return
        self._not_before = now + _SHORTEST_S
        file = self._file or sys.stdout
        laid_out = lay_out(
            _texts(output.take(final=final)),
            muted=(lambda text: sgr.paint(text, _DIM)) if file.isatty() else str,
            label=self._label,
            name=self._name or processes_text,
        )
        self._label = laid_out.label if self._name is None else None
        bars = _bars(output, self._name) if file.isatty() and not final else []
        if not laid_out.lines and bars == self._bars:
            return
        back = f"\x1b[{len(self._bars)}F\x1b[J" if self._bars else ""
        file.write(back + "".join(f"{line}\n" for line in [*laid_out.lines, *bars]))
        file.flush()
        self._bars = bars

    def fail(self, output: CellOutput, error: str, *, raised: bool) -> None:
        """Prints an error that nobody raises."""
        self.refresh(output, final=True)
        if not raised:
            print(error, file=self._file or sys.stdout)


def _texts(blocks: Sequence[Block]) -> list[Block]:
    """Rich outputs as their text, together with the lines before and after them."""
    texts: list[Block] = []
    for block in blocks:
        if isinstance(block, NoteBlock):
            texts.append(block)
            continue
        lines = _lines(block)
        last = texts[-1] if texts else None
        if isinstance(last, TextBlock) and last.processes == block.processes:
            lines = (*last.lines, *lines)
            texts.pop()
        texts.append(TextBlock(processes=block.processes, lines=lines))
    return texts


def _lines(block: TextBlock | RichBlock) -> tuple[str, ...]:
    if isinstance(block, TextBlock):
        return block.lines
    text = block.data.get("text/plain")
    return tuple(text.split("\n")) if isinstance(text, str) else (f"[{', '.join(block.data)}]",)


def _bars(output: CellOutput, name: Name | None) -> list[str]:
    """One line for each bar, of processes at the same one that of the slowest."""
    same: dict[str, list[tuple[float, int, str]]] = {}
    for process_id, line in output.live_bars():
        kind = line.bar.skeleton if line.bar else line.text
        progress = line.bar.progress if line.bar else 0.0
        plain = sgr.plain(line.text)
        same.setdefault(kind, []).append((progress, process_id, plain))
    width = shutil.get_terminal_size().columns - 1
    lines = []
    for bars in list(same.values())[:_MOST_BARS]:
        _, _, text = min(bars)
        label = (name or processes_text)([one for _, one, _ in bars])
        lines.append(f"{label}   {text}"[:width])
    return [*lines, *(line[:width] for line in (output.standing or "").splitlines())]
