"""Picture of a session in a notebook or a terminal: a live widget, and a still picture for when it is gone.

The widget and the still picture are two outputs. The widget alone would leave "model not found" in a saved
notebook. The still picture is updated in place by its display id; the browser hides it while the widget is alive.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable
from colorsys import hls_to_rgb
from html import escape
from typing import Any

from nbdist.contract.page import FILLS, STILL_ATTRIBUTE
from nbdist.contract.snapshot import Process, Snapshot
from nbdist.errors import ArrayError
from nbdist.notation import mesh_axes_text, processes_text
from nbdist.pieces import meshes_of, sentence
from nbdist.spelling import Door, command, through
from nbdist.view.feed import Source
from nbdist.view.mesh import (
    Block,
    Grid,
    GridCell,
    GridRow,
    array_texts,
    bytes_note,
    grids,
    mesh_text,
)
from nbdist.view.status import (
    DeviceNames,
    disagreement_text,
    distribution_text,
    model_text,
    progress_lines,
    state_text,
    summary_text,
)

PAGES = {"light": 255, "dark": 17}
"""Red, green and blue, which are equal, of a page in JupyterLab's two themes."""

OPACITY = 0.4
"""The opacity of a fill over the page: with more, the fills are no further apart, and text on them is less
readable."""


def translucent_fills() -> tuple[str, ...]:
    """Return the live view's fills in the palette's order, translucent so that they fit a page of either theme.

    A saved picture does not know its page: no style sheet goes with it that could ask for the theme. So each fill
    is one colour (`rgba(…)`) that lies over the page at `OPACITY`, in the middle between those that would give the
    live view's fill of either theme: near to both if the two have one hue.
    """
    pairs = zip(FILLS["light"], FILLS["dark"], strict=True)
    return tuple(f"rgba({', '.join(map(str, _between(*pair)))}, {OPACITY})" for pair in pairs)


def _between(light: str, dark: str) -> tuple[int, ...]:
    """Return red, green and blue equally far from both fills, each over its page, if 0 to 255 allow it."""
    page = (1 - OPACITY) * sum(PAGES.values())
    wanted = (
        (one + other - page) / (2 * OPACITY)
        for one, other in zip(bytes.fromhex(light[1:]), bytes.fromhex(dark[1:]), strict=True)
    )
    return tuple(round(min(255, max(0, channel))) for channel in wanted)


RAMP = 270, 50
"""Hues in degrees: colours of many shards run from violet over blue and green to yellow."""


def fill(part: int, count: int) -> str:
    """Return the colour of one of so many shards; no other has the same."""
    if count <= len(_FILLS):
        return _FILLS[part]
    first, last = RAMP
    hue = first + (last - first) * part / (count - 1)
    channels = (round(255 * one) for one in hls_to_rgb(hue / 360, 0.5, 0.7))
    return f"rgba({', '.join(map(str, channels))}, {OPACITY})"


CELLS = 512
"""The most devices that are drawn: every saved notebook carries them, at about 300 bytes each."""

PROGRESS = 8
"""The most lines of progress; processes that are equally far share one."""

_LINE = "1px solid rgba(128, 128, 128, 0.45)"
_CELL = f"border: {_LINE}; padding: 4px 8px; text-align: left; vertical-align: top"
_LABEL = "border: none; padding: 4px 8px; text-align: left; font-weight: normal; opacity: 0.75"
_TABLE = "border-collapse: separate; border-spacing: 4px; margin: 6px 0px"
# JupyterLab paints code on a ground of its own, which would cover the piece's colour.
_CODE = "background-color: transparent; padding: 0px"
_TEXT = f"{_CODE}; margin: 6px 0px"
_FILLS = translucent_fills()
_LOST = "1px dashed rgba(128, 128, 128, 0.9)"


def still_html(snapshot: Snapshot, *, path: str | None = None, view_id: str) -> str:
    """Return the session, its mesh and, with `path`, where that array lies, as one HTML element.

    A saved notebook keeps it. It has tables with inline styles only: JupyterLab's sanitizer for notebooks that are
    not trusted drops scripts, style sheets, SVG and data attributes; GitHub drops the inline styles and the
    classes too, and what is left still reads. Colours are translucent and text inherits its colour, so the picture
    fits dark and light pages.

    Args:
      snapshot: The session.
      path: The path of an array; without it devices show their memory.
      view_id: The id of the live view that this stands for; the browser hides this while that view lives.

    Raises:
      ArrayError: No process has an array under this path.
      SpecError: The array's sharding does not fit its mesh.
    """
    parts = [_paragraph(f"<b>{escape(snapshot.state)}</b>", escape(_summary(snapshot)))]
    if snapshot.processes:
        parts.append(_paragraph(escape(_processes_text(snapshot.processes))))
        parts += [
            _paragraph(escape(line)) for line in progress_lines(snapshot.processes)[:PROGRESS]
        ]
    parts += [
        _paragraph(f"<b>{escape(notice.title)}</b>", escape(notice.text))
        for notice in snapshot.notices
    ]
    parts += [_paragraph(escape(disagreement_text(one))) for one in snapshot.disagreements]
    meshes = meshes_of(snapshot)
    parts += [_paragraph(escape(distribution_text(one, meshes))) for one in snapshot.distributions]
    if snapshot.program is not None:
        parts.append(f'<pre style="{_TEXT}">{escape(snapshot.program.text)}</pre>')
    for grid in grids(snapshot, path=path):
        parts += _picture(snapshot, grid)
    if path is None:
        names = DeviceNames(device.key for device in snapshot.devices)
        parts += [_paragraph(escape(model_text(one, names))) for one in snapshot.models]
    return _element(view_id, parts)


def _summary(snapshot: Snapshot) -> str:
    return ", ".join(summary_text(snapshot).split("   ")[1:])


def _processes_text(processes: tuple[Process, ...]) -> str:
    """Return `processes 0–2 waiting in cell 12, line 4; process 3 lost: ended by signal 9`."""
    alike: dict[str, list[int]] = {}
    for process in processes:
        place = [
            f"{name} {number}"
            for name, number in (("cell", process.cell), ("line", process.line))
            if number is not None
        ]
        text = state_text(process) + (f" in {', '.join(place)}" if place else "")
        text += f": {process.error}" if process.error else ""
        text = f"{process.task} {text}" if process.task else text
        alike.setdefault(text, []).append(process.process_id)
    return "; ".join(f"{processes_text(ids)} {text}" for text, ids in alike.items())


def _picture(snapshot: Snapshot, grid: Grid) -> list[str]:
    html = []
    if grid.mesh is not None:
        html.append(_paragraph("mesh", f"<code>{escape(mesh_axes_text(grid.mesh))}</code>"))
    if (note := bytes_note(grid)) is not None:
        html.append(_paragraph(escape(note)))
    parts = [cell.part for block in grid.blocks for row in block.rows for cell in row.cells]
    shards = 1 + max((part for part in parts if part is not None), default=0)
    left = CELLS
    for block in grid.blocks:
        # Whole rows, at least one: half a row would look like a shorter axis.
        across = max(len(block.rows[0].cells), 1) if block.rows else 1
        rows = block.rows[: max(left // across, 1 if left == CELLS else 0)]
        left -= across * len(rows)
        if rows:
            html.append(_table(grid, block, rows, shards))
    total = sum(len(row.cells) for block in grid.blocks for row in block.rows)
    if total > CELLS - left:
        html.append(_paragraph(f"… and {total - (CELLS - left)} more devices"))
    if grid.array is not None:
        html.append(_legend(snapshot, grid))
    return html


def _table(grid: Grid, block: Block, rows: tuple[GridRow, ...], shards: int) -> str:
    lines = [f'<table style="{_TABLE}">']
    if grid.columns or block.label:
        labels = "".join(_label(column) for column in grid.columns)
        lines.append(f"<tr>{_label(block.label)}{labels}</tr>")
    for row in rows:
        cells = "".join(_cell(cell, shards) for cell in row.cells)
        lines.append(f"<tr>{_label(row.label)}{cells}</tr>")
    return "\n".join([*lines, "</table>"])


def _label(text: str) -> str:
    return f'<th style="{_LABEL}">{escape(text)}</th>'


def _cell(cell: GridCell, shards: int) -> str:
    style = _CELL
    if cell.lost:
        style = style.replace(_LINE, _LOST)
    elif cell.part is not None:
        style += f"; background-color: {fill(cell.part, shards)}"
    text = "lost" if cell.lost else cell.text
    held = f'<br><code style="{_CODE}">{escape(text)}</code>' if text else ""
    return f'<td style="{style}"><b>{escape(cell.device)}</b>{held}</td>'


def _legend(snapshot: Snapshot, grid: Grid) -> str:
    array = grid.array
    assert array is not None
    path, kind, spec, *by = array_texts(array)
    return _paragraph(
        f"<b>{escape(path)}</b>",
        f"<code>{escape(f'{kind} {spec}')}</code>",
        *by,
        f"<br>{escape(sentence(array, meshes_of(snapshot)))}",
    )


def _paragraph(*parts: str) -> str:
    return f'<p style="margin: 4px 0px">{" ".join(part for part in parts if part)}</p>'


class Picture:
    """One view of a session and, with a path, of that array's placement.

    Args:
      feed: The source of the widget's frames.
      snapshot: Returns what is known now.
      path: The array to show first, or an object that holds arrays; of a model, its largest array that is cut.
    """

    def __init__(
        self, feed: Source, snapshot: Callable[[], Snapshot], *, path: str | None = None
    ) -> None:
        self._feed = feed
        self._snapshot = snapshot
        self._path = path
        self._view_id = uuid.uuid4().hex[:12]
        self._still: Any = None
        self._shown: object = None
        self._strip = False

    def show(self, *, in_notebook: bool, strip: bool = False) -> None:
        """Display the picture.

        Args:
          in_notebook: Whether there is a front end; otherwise the text is printed.
          strip: Whether to display only a line with the processes and devices, which opens by a click.

        Raises:
          ArrayError: No array is known under the path; the message has the nearest names.
        """
        self._strip = strip
        text = self.text()
        if not in_notebook:
            print(text)
            return
        from IPython.display import display

        from nbdist.view.widget import View

        view = View(self._feed, view_id=self._view_id, focus=self._path, strip=strip)
        display(view)
        self._shown = self._content(self._snapshot())
        self._still = display(self._bundle(), raw=True, display_id=True)

    def follow(self, snapshot: Snapshot) -> None:
        """Update the still picture when its content has changed and no cell runs.

        Every update marks the notebook as unsaved, so changes of seconds and bytes alone do not count.
        """
        content = self._content(snapshot)
        if self._still is None or snapshot.state == "running" or content == self._shown:
            return
        try:
            bundle = self._bundle()
        except ArrayError:
            # The array is gone; the last picture of it stays.
            return
        self._shown = content
        self._still.update(bundle, raw=True)

    def text(self) -> str:
        """Return the picture as text; for a program, the text about it."""
        if self._strip:
            return next_step()
        program = self._snapshot().program
        if program is not None:
            return program.text
        return mesh_text(self._snapshot(), path=self._path)

    def _bundle(self) -> dict[str, str]:
        return {
            "text/plain": self.text(),
            "text/html": self._html(),
        }

    def _html(self) -> str:
        if self._strip:
            return strip_html(self._snapshot(), view_id=self._view_id)
        return still_html(self._snapshot(), path=self._path, view_id=self._view_id)

    def _content(self, snapshot: Snapshot) -> object:
        if self._strip:
            return strip_html(snapshot, view_id=self._view_id)
        return _content(snapshot)


def next_step() -> str:
    """Return what a person does next after a start."""
    with through(Door.MAGIC):  # it is shown in notebooks alone, by whichever thread
        return f"Next: start a {command('cell')}"


_SQUARE = "□"
"""The sign of a device in the still picture of a strip."""

_CHIPS = 16
"""The most processes that a strip's still picture shows one by one."""


def strip_html(snapshot: Snapshot, *, view_id: str) -> str:
    """Return the session in one line as an HTML element: hosts, processes, and a square for each device.

    Args:
      snapshot: The session.
      view_id: The id of the live strip that this stands for.
    """
    devices = Counter(device.process_id for device in snapshot.devices)
    hosts: dict[str, list[Process]] = {}
    for process in snapshot.processes:
        hosts.setdefault(process.host, []).append(process)
    parts = []
    if len(snapshot.processes) <= _CHIPS:
        for host, theirs in hosts.items():
            chips = "  ".join(
                f"{one.process_id} {_SQUARE * devices[one.process_id]}".rstrip() for one in theirs
            )
            parts.append(f"<b>{escape(host)}</b> <code>{escape(chips)}</code>")
    else:
        parts.append(escape(_summary(snapshot)))
    if snapshot.state not in ("idle", "running"):
        parts.insert(0, f"<b>{escape(snapshot.state)}</b>")
    else:
        parts.append(f"<br>{escape(next_step())}")
    return _element(view_id, [_paragraph(*parts)])


def _element(view_id: str, parts: list[str]) -> str:
    """Return the parts as one element, which the browser hides while the view of this id lives."""
    opening = f'<div class="nbdist-still" {STILL_ATTRIBUTE}="{escape(view_id)}">'
    return "\n".join([opening, *parts, "</div>"])


def _content(snapshot: Snapshot) -> object:
    """Return the content of a still picture, without values that change all the time."""
    states = tuple((one.state, one.error, one.progress) for one in snapshot.processes)
    contents = (snapshot.meshes, snapshot.arrays, snapshot.distributions, snapshot.models)
    return (snapshot.state, states, *contents, snapshot.notices, snapshot.program)
