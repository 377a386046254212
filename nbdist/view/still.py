"""The static picture that a saved notebook keeps.

HTML tables with inline styles only: JupyterLab's sanitizer for notebooks that are not trusted drops
scripts, style sheets, SVG and data attributes; GitHub drops the inline styles and the classes too,
and what is left still reads. Colours are translucent and text inherits its colour, so the picture
fits dark and light pages.
"""

from __future__ import annotations

from html import escape

from nbdist.contract.page import STILL_ATTRIBUTE
from nbdist.contract.snapshot import Process, Snapshot
from nbdist.notation import mesh_axes_text, spec_text
from nbdist.pieces import meshes_of, sentence
from nbdist.quantities import array_type_text, processes_text
from nbdist.view.grid import Block, Cell, Grid, Row, bytes_note, grids
from nbdist.view.text.frameworks import distribution_text, model_text, progress_lines
from nbdist.view.text.status import disagreement_text, state_text, summary_text
from nbdist.view.translucent import translucent_fills

CELLS = 512
"""Devices drawn; every saved notebook carries them, at about 300 bytes each."""

PROGRESS = 8
"""Lines of progress; processes that are equally far share one."""

_LINE = "1px solid rgba(128, 128, 128, 0.45)"
_CELL = f"border: {_LINE}; padding: 4px 8px; text-align: left; vertical-align: top"
_LABEL = "border: none; padding: 4px 8px; text-align: left; font-weight: normal; opacity: 0.75"
_TABLE = "border-collapse: separate; border-spacing: 4px; margin: 6px 0px"
# JupyterLab paints code on a ground of its own, which would cover the piece's colour.
_CODE = "background-color: transparent; padding: 0px"
_TEXT = f"{_CODE}; margin: 6px 0px"
# With more pieces than fills they repeat, and the slices in the cell tell pieces apart.
_FILLS = translucent_fills()
_LOST = "1px dashed rgba(128, 128, 128, 0.9)"


def still_html(snapshot: Snapshot, *, path: str | None = None, view_id: str) -> str:
    """The session, its mesh and, with `path`, where that array lies, as one HTML element.

    Args:
      snapshot: The session.
      path: The path of an array; without it devices show their memory.
      view_id: Which live view this stands for; the browser hides it while that view lives.

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
        parts += [_paragraph(escape(model_text(one))) for one in snapshot.models]
    return (
        f'<div class="nbdist-still" {STILL_ATTRIBUTE}="{escape(view_id)}">\n'
        + "\n".join(parts)
        + "\n</div>"
    )


def _summary(snapshot: Snapshot) -> str:
    return ", ".join(summary_text(snapshot).split("   ")[1:])


def _processes_text(processes: tuple[Process, ...]) -> str:
    """`processes 0–2 waiting in cell 12, line 4; process 3 lost: ended by signal 9`."""
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
    left = CELLS
    for block in grid.blocks:
        # Whole rows, at least one: half a row would say that the axis is shorter.
        across = max(len(block.rows[0].cells), 1) if block.rows else 1
        rows = block.rows[: max(left // across, 1 if left == CELLS else 0)]
        left -= across * len(rows)
        if rows:
            html.append(_table(grid, block, rows))
    total = sum(len(row.cells) for block in grid.blocks for row in block.rows)
    if total > CELLS - left:
        html.append(_paragraph(f"… and {total - (CELLS - left)} more devices"))
    if grid.array is not None:
        html.append(_legend(snapshot, grid))
    return html


def _table(grid: Grid, block: Block, rows: tuple[Row, ...]) -> str:
    lines = [f'<table style="{_TABLE}">']
    if grid.columns or block.label:
        labels = "".join(_label(column) for column in grid.columns)
        lines.append(f"<tr>{_label(block.label)}{labels}</tr>")
    for row in rows:
        cells = "".join(_cell(cell) for cell in row.cells)
        lines.append(f"<tr>{_label(row.label)}{cells}</tr>")
    return "\n".join([*lines, "</table>"])


def _label(text: str) -> str:
    return f'<th style="{_LABEL}">{escape(text)}</th>'


def _cell(cell: Cell) -> str:
    style = _CELL
    if cell.lost:
        style = style.replace(_LINE, _LOST)
    elif cell.part is not None:
        style += f"; background-color: {_FILLS[cell.part % len(_FILLS)]}"
    text = "lost" if cell.lost else cell.text
    held = f'<br><code style="{_CODE}">{escape(text)}</code>' if text else ""
    return f'<td style="{style}"><b>{escape(cell.device)}</b> p{cell.process_id}{held}</td>'


def _legend(snapshot: Snapshot, grid: Grid) -> str:
    array = grid.array
    assert array is not None
    meshes = meshes_of(snapshot)
    about = f"{array_type_text(array.dtype, array.shape)} {spec_text(array)}"
    by = f"({processes_text(array.processes)})" if array.processes else ""
    return _paragraph(
        f"<b>{escape(array.path)}</b>",
        f"<code>{escape(about)}</code>",
        by,
        f"<br>{escape(sentence(array, meshes))}",
    )


def _paragraph(*parts: str) -> str:
    return f'<p style="margin: 4px 0px">{" ".join(part for part in parts if part)}</p>'
