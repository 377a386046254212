"""Renderers of a cell's output, one for notebooks and one for terminals, and the choice between them.

A front end that can update a display gets the notebook renderer; any other, such as Jupyter's console, gets the
terminal renderer. The notebook renderer updates a few outputs in place. It also keeps them for a page that is
reloaded while the cell runs: JupyterLab ignores the output of a cell that another page started, so without the
kept copy a reload would lose all later output, and all earlier output that was not saved.
"""

from __future__ import annotations

import functools
import html
import shutil
import sys
import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TextIO

from IPython.display import publish_display_data

from nbdist.contract.page import CellOutputs
from nbdist.errors import Notice
from nbdist.notation import processes_text
from nbdist.spelling import command
from nbdist.view.output import cursor
from nbdist.view.output.agree import slowest_bar
from nbdist.view.output.cell import CellOutput
from nbdist.view.output.entries import WIDGET_MIME, view_of
from nbdist.view.output.fold import Block, Name, NoteBlock, RichBlock, TextBlock, lay_out

MOST_CELLS = 50
"""The most cells that are remembered; those that run longest are the last to go."""


class Shown:
    """The present outputs of one renderer, written on one thread and read on another."""

    def __init__(self) -> None:
        self.outputs: tuple[dict[str, Any], ...] = ()
        self.running = True

    def show(
        self, bundles: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]], *, final: bool
    ) -> None:
        """Take the present outputs, as pairs of data and metadata by MIME type."""
        self.outputs = tuple(
            {"output_type": "display_data", "data": data, "metadata": metadata}
            for data, metadata in bundles
            if data
        )
        self.running = not final


class ShownCells:
    """The outputs of this kernel's cells, by the id that the notebook gives a cell."""

    def __init__(self) -> None:
        self._cells: OrderedDict[str, list[Shown]] = OrderedDict()
        self._lock = threading.Lock()
        self._requests: dict[str, str] = {}

    def begin(self, cell: str, request: str) -> Shown:
        """Return a place for one more renderer's outputs below a cell; drop those of an earlier run of the cell.

        Args:
          cell: The id of the cell.
          request: The id of the request that runs it.
        """
        shown = Shown()
        with self._lock:
            if self._requests.get(cell) != request:
                self._cells[cell] = []
                self._requests[cell] = request
            self._cells[cell].append(shown)
            self._cells.move_to_end(cell)
            while len(self._cells) > MOST_CELLS:
                ended = (one for one, parts in self._cells.items() if not _runs(parts))
                oldest = next(ended, next(iter(self._cells)))
                del self._cells[oldest], self._requests[oldest]
        return shown

    def of(self, wanted: Collection[str]) -> list[CellOutputs]:
        """Return the outputs of the cells that are running and of the `wanted` cells."""
        with self._lock:
            found = {cell: list(parts) for cell, parts in self._cells.items()}
        return [
            CellOutputs(
                cell=cell,
                running=_runs(parts),
                outputs=tuple(output for part in parts for output in part.outputs),
            )
            for cell, parts in found.items()
            if cell in wanted or _runs(parts)
        ]


def _runs(parts: Sequence[Shown]) -> bool:
    """Return whether the first part, the cell's own output, may still grow."""
    return bool(parts) and parts[0].running


SHOWN = ShownCells()
"""The outputs of this kernel's cells."""


_SHORTEST_S = 0.2
"""The fewest seconds between two refreshes."""

_CHARACTERS_PER_S = 400_000
"""The most characters a second: Jupyter Server drops output beyond 1 MB/s (`iopub_data_rate_limit`), of which
others use a part."""

_PAGE = 16_000
"""The characters of text in one output: only the last page of a growing text is sent again."""

# A gray that reads on white and on black (4.5:1 on both); ANSI's own grays do not.
_MUTED = "38;2;118;118;118"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Content:
    digest: str
    data: Mapping[str, Any]
    metadata: Mapping[str, Any]
    kept: Mapping[str, Any] | None = None
    """The output that a reloaded page shows, if it differs."""


_NOTHING = _Content(digest="", data={}, metadata={})
"""An output without any MIME type takes no room in JupyterLab, and is valid in a saved notebook."""


class NotebookRenderer:
    """Renderer of a `CellOutput` in the outputs of the cell that runs.

    Outputs cannot be moved or removed, so each is a slot with a display id whose content changes: a page of text,
    or a rich output. A slot no longer needed is emptied and used again. Text is `text/plain` with ANSI colors,
    which JupyterLab, nbconvert and VS Code draw, so that a saved notebook reads without any style sheet of ours.

    Args:
      publish: Shows a display, or changes one, as IPython's own function.
      clock: Returns monotonic seconds.
      name: Returns the label for given processes; None: the label names the processes.
      shown: Keeps the outputs for a page that is reloaded.
    """

    def __init__(
        self,
        *,
        publish: Callable[..., None] = publish_display_data,
        clock: Callable[[], float] = time.monotonic,
        name: Name | None = None,
        shown: Shown | None = None,
    ) -> None:
        self._shown = shown or Shown()
        self._name = name or processes_text
        self._publish = publish
        self._clock = clock
        self._slots: list[tuple[str, _Content]] = []
        self._not_before = 0.0
        self._error: list[_Content] = []
        self._raised = False

    def refresh(self, output: CellOutput, *, final: bool = False) -> None:
        """Bring the outputs up to date, at most five times a second except when `final`."""
        now = self._clock()
        if now < self._not_before and not final:
            return
        contents = _contents(output.blocks(), self._name)
        kept = [*contents, *self._error]
        self._shown.show([(one.kept or one.data, one.metadata) for one in kept], final=final)
        sent = self._show(contents if self._raised else kept)
        self._not_before = now + max(_SHORTEST_S, sent / _CHARACTERS_PER_S)

    def fail(self, output: CellOutput, error: str, *, raised: bool) -> None:
        """Show an error below the output; if it is also `raised`, only a page reloaded later shows it here."""
        self._error = [_Content(digest=error, data={"text/plain": error}, metadata={})]
        self._raised = raised
        self.refresh(output, final=True)

    def _show(self, contents: Sequence[_Content]) -> int:
        """Publish the contents that have changed, and return about how many characters were sent."""
        sent = 0
        missing = len(self._slots) - len(contents)
        for index, content in enumerate([*contents, *[_NOTHING] * missing]):
            is_new = index == len(self._slots)
            if is_new:
                self._slots.append((f"nbdist-{uuid.uuid4().hex}", _NOTHING))
            display_id, shown = self._slots[index]
            if shown.digest == content.digest and not is_new:
                continue
            self._publish(
                content.data,
                content.metadata,
                transient={"display_id": display_id},
                update=not is_new,
            )
            self._slots[index] = (display_id, content)
            sent += sum(len(str(value)) for value in content.data.values())
        return sent


def _contents(blocks: Sequence[Block], name: Name) -> list[_Content]:
    contents: list[_Content] = []
    run: list[Block] = []
    for block in blocks:
        run.append(block)
        if isinstance(block, RichBlock):
            contents += _pages(run, name)
            contents.append(_widget(block) if block.widgets else _rich(block))
            run = []
    return contents + _pages(run, name)


def _rich(block: RichBlock) -> _Content:
    return _Content(digest=block.digest, data=block.data, metadata=block.metadata)


def _widget(block: RichBlock) -> _Content:
    """Return a widget, which front ends draw and keep up to date; a saved notebook shows its text.

    A page that is reloaded while the cell runs cannot ask for the widget, so it shows bars as text.
    """
    model = block.widgets[0].board.show(block.widgets)
    bar = slowest_bar(block.widgets)
    text = block.data.get("text/plain") if bar is None or bar.open else bar.text
    data = {**block.data, "text/plain": text, WIDGET_MIME: view_of(model)}
    kept = data if bar is None else {"text/plain": bar.text}
    return _Content(digest=f"{model} {text}", data=data, metadata=block.metadata, kept=kept)


def _pages(blocks: Sequence[Block], name: Name) -> list[_Content]:
    """Return the text of blocks, cut between lines into outputs of about 16,000 characters."""
    pages: list[list[str]] = []
    room = 0
    laid_out = lay_out(blocks, muted=lambda text: cursor.paint(text, _MUTED), name=name)
    for line in laid_out.lines:
        if not pages or len(line) > room:
            pages.append([])
            room = _PAGE
        pages[-1].append(line)
        room -= len(line) + 1
    texts = ["\n".join(page) for page in pages]
    return [_Content(digest=text, data={"text/plain": text}, metadata={}) for text in texts]


_MOST_BARS = 8
_DIM = "2"


class TerminalRenderer:
    """Renderer of a `CellOutput` in a terminal: prints each output once, as it comes, and never changes it.

    On a terminal, the progress bars that are being redrawn stay below all other output, one line for all processes
    that are at the same bar; the lines of `CellOutput.standing` are below the bars. Anywhere else, for example in
    a file, a bar is printed once it is complete.

    Args:
      file: Gets the output; by default what `sys.stdout` is at the time.
      clock: Returns monotonic seconds.
      name: Returns the label for given processes; None: the label names the processes, and is repeated only when
        they change. A label from `name` is repeated each time, since other text may come between two such outputs.
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
        """Print an error, unless it is also raised."""
        self.refresh(output, final=True)
        if not raised:
            print(error, file=self._file or sys.stdout)


def blocks_text(blocks: Sequence[Block]) -> str:
    """Return blocks as text without colors, each labelled with its processes; of a rich output its text form."""
    return cursor.plain("\n".join(lay_out(_texts(blocks), muted=str).lines))


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
    """Return one line for each bar; for processes at the same bar, the slowest process's line."""
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
        """Show new output. Called often, even if there is none, and once with `final` at the end."""


def in_notebook(renderer: Renderer) -> bool:
    """Return whether this is the renderer for notebooks.

    Only this renderer shows the widgets that processes display, and only its outputs keep their places, so later
    output appears above what a person has typed since. Other renderers show a widget's text, and print later
    output below.
    """
    return isinstance(renderer, NotebookRenderer)


def show_end(renderer: Renderer, output: CellOutput, error: str, *, raised: bool) -> None:
    """Show that a cell has ended with an error; the caller shows an error that is `raised`.

    A renderer that a user has written has no `fail`: for it, an error that is not raised is printed.
    """
    if isinstance(renderer, NotebookRenderer | TerminalRenderer):
        renderer.fail(output, error, raised=raised)
    elif not raised:
        print(error)


def show_details(notice: Notice, shell: Any, *, after_error: bool = False) -> None:
    """Show the details of a notice below a cell in a notebook, folded.

    Args:
      notice: The notice; without details nothing is shown.
      shell: What `IPython.get_ipython()` returns.
      after_error: Whether the running cell is about to raise: they come below its error then.
    """
    if not notice.details:
        return
    lines = html.escape("\n".join(notice.details))
    folded = f"<details><summary>Details</summary><pre>{lines}</pre></details>"
    # A saved notebook and a page show the second; the first is for terminals, which can fold nothing.
    said = "" if command("why") in notice.do else f"{command('why')} says more."
    show = functools.partial(publish_display_data, {"text/plain": said, "text/html": folded})
    if not after_error:
        show()
        return

    def once(*_: object) -> None:
        shell.events.unregister("post_run_cell", once)
        show()

    shell.events.register("post_run_cell", once)


def renderer_elsewhere(shell: object | None) -> Renderer | None:
    """Return a second renderer for output that another already shows; None without a Jupyter kernel."""
    return renderer_for(shell) if getattr(shell, "kernel", None) is not None else None


def drops_later_output(shell: object | None) -> bool:
    """Return whether output that a notebook cell produces after its end is lost.

    nbclient, with which nbconvert and papermill run notebooks, takes only the output of the running cell. It is
    recognized by its requests, each of which says `allow_stdin=False`: nobody can be asked for input.
    """
    kernel = getattr(shell, "kernel", None)
    request = kernel.get_parent("shell") or {} if kernel is not None else {}
    return (request.get("content") or {}).get("allow_stdin") is False


def renderer_for(shell: object | None, *, name: Name | None = None) -> Renderer:
    """Return a renderer for one cell: `NotebookRenderer` if the front end can update a display.

    Args:
      shell: What `IPython.get_ipython()` returns; None in a plain script.
      name: Returns the label for given processes; None: the label names the processes.
    """
    # Only a shell behind a kernel has one (`ipykernel.zmqshell.ZMQInteractiveShell.kernel`).
    kernel = getattr(shell, "kernel", None)
    if kernel is None or _shows_each_output_once(kernel):
        return TerminalRenderer(name=name)
    return NotebookRenderer(name=name, shown=_shown(kernel))


def _shows_each_output_once(kernel: Any) -> bool:
    """Return whether the front end ignores `update_display_data`, and so shows only printed output.

    Jupyter's console, QtConsole and `KernelClient.execute_interactive` ignore it. All three are clients made with
    `jupyter_client`, whose message ids begin with the session id. Unlike nbclient, they allow input; unlike
    notebook pages, they send no cell id.
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
