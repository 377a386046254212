"""Renderers of a cell's output: the one for terminals, and the choice between it and that of notebooks.

A front end that can change what it shows gets the notebook's; any other, such as Jupyter's console, the
terminal's.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TextIO

from nbdist.notation import processes_text
from nbdist.view.output import cursor
from nbdist.view.output.blocks import (
    Block,
    Name,
    NoteBlock,
    RichBlock,
    TextBlock,
    lay_out,
)
from nbdist.view.output.cell import CellOutput
from nbdist.view.output.notebook import SHOWN, NotebookRenderer, Shown

_SHORTEST_S = 0.2
"""The fewest seconds between two refreshes."""

_MOST_BARS = 8
_DIM = "2"


class TerminalRenderer:
    """Renderer of a `CellOutput` in a terminal: each output is printed once as it comes, and stays.

    On a terminal the progress bars that are being redrawn are below everything, one for all processes that are at
    the same bar, and below them how things stand (`CellOutput.standing`). Elsewhere a bar is printed when it is
    complete.

    Args:
      file: Gets the output; by default what `sys.stdout` is at the time.
      clock: Returns seconds that never go back.
      name: Words the labels of output; None: names the processes, and again only if others follow. A name of the
        caller's is said each time, since other text may come between two such outputs.
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
        """Print what is new, at most five times a second except when `final`."""
        now = self._clock()
        if now < self._not_before and not final:
            return
        self._not_before = now + _SHORTEST_S
        file = self._file or sys.stdout
        laid_out = lay_out(
            _texts(output.take(final=final)),
            muted=(lambda text: cursor.paint(text, _DIM)) if file.isatty() else str,
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
        """Print an error that nobody raises."""
        self.refresh(output, final=True)
        if not raised:
            print(error, file=self._file or sys.stdout)


def _texts(blocks: Sequence[Block]) -> list[Block]:
    """Return blocks with rich outputs as their text, together with the lines before and after them."""
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
    """Return one line for each bar: of processes at the same bar, that of the slowest."""
    same: dict[str, list[tuple[float, int, str]]] = {}
    for process_id, line in output.live_bars():
        kind = line.bar.skeleton if line.bar else line.text
        progress = line.bar.progress if line.bar else 0.0
        plain = cursor.plain(line.text)
        same.setdefault(kind, []).append((progress, process_id, plain))
    width = shutil.get_terminal_size().columns - 1
    lines = []
    for bars in list(same.values())[:_MOST_BARS]:
        _, _, text = min(bars)
        label = (name or processes_text)([one for _, one, _ in bars])
        lines.append(f"{label}   {text}"[:width])
    return [*lines, *(line[:width] for line in (output.standing or "").splitlines())]


class Renderer(Protocol):
    """A display of the output of one cell while it grows."""

    def refresh(self, output: CellOutput, *, final: bool = False) -> None:
        """Show what is new; called often, even when nothing is, and with `final` once at the end."""


def above_what_is_typed(renderer: Renderer) -> bool:
    """Return whether later output is shown above what a person has typed meanwhile, as outputs have places."""
    return isinstance(renderer, NotebookRenderer)


def shows_widgets(renderer: Renderer) -> bool:
    """Return whether a widget that a process displays is shown as one, and not as its text."""
    return isinstance(renderer, NotebookRenderer)


def show_end(renderer: Renderer, output: CellOutput, error: str, *, raised: bool) -> None:
    """Show that a cell has ended with an error; one that is `raised` is shown by whoever catches it.

    A renderer that a person has written knows nothing of errors: an error that nobody raises is printed.
    """
    if isinstance(renderer, NotebookRenderer | TerminalRenderer):
        renderer.fail(output, error, raised=raised)
    elif not raised:
        print(error)


def renderer_elsewhere(shell: object | None) -> Renderer | None:
    """Return a renderer that shows, whole, what another shows already; None if nothing can be shown twice."""
    return renderer_for(shell) if getattr(shell, "kernel", None) is not None else None


def drops_later_output(shell: object | None) -> bool:
    """Return whether what a cell of the notebook shows after its end is lost.

    nbclient, with which nbconvert and papermill run notebooks, takes only the output of the cell that runs. It is
    known by what it says of itself in each request: that nobody can be asked for input.
    """
    kernel = getattr(shell, "kernel", None)
    request = kernel.get_parent("shell") or {} if kernel is not None else {}
    return (request.get("content") or {}).get("allow_stdin") is False


def renderer_for(shell: object | None, *, name: Name | None = None) -> Renderer:
    """Return a renderer for one cell: that of notebooks if a Jupyter front end can change what it shows.

    Args:
      shell: What `IPython.get_ipython()` returns; None in a plain script.
      name: Words the labels of output; None: names the processes.
    """
    # Only a shell behind a kernel has one (`ipykernel.zmqshell.ZMQInteractiveShell.kernel`).
    kernel = getattr(shell, "kernel", None)
    if kernel is None or _shows_each_output_once(kernel):
        return TerminalRenderer(name=name)
    return NotebookRenderer(name=name, shown=_shown(kernel))


def _shows_each_output_once(kernel: Any) -> bool:
    """Return whether the front end passes over `update_display_data`, so that only what is printed is seen.

    Jupyter's console does, and so do QtConsole and `KernelClient.execute_interactive`. They are clients made with
    `jupyter_client`, which begins the numbers of its messages with that of its session; they ask a person for
    input, as nbclient does not, and name no cell, as pages of notebooks do.
    """
    request = kernel.get_parent("shell") or {}
    header, content = request.get("header") or {}, request.get("content") or {}
    own = f"{header.get('session')}_"
    return (
        content.get("allow_stdin") is True
        and "cellId" not in (request.get("metadata") or {})
        and str(header.get("msg_id", "")).startswith(own)
    )


def _shown(kernel: Any) -> Shown | None:
    """Return the place that keeps the output of the running cell; None if the front end has not named the cell."""
    request = kernel.get_parent("shell") or {}
    cell = (request.get("metadata") or {}).get("cellId")
    number = (request.get("header") or {}).get("msg_id", "")
    return SHOWN.begin(cell, number) if isinstance(cell, str) else None
