"""A plan as HTML for a notebook: the same words, with the arrays as a table.

Inline styles only, as in `nbdist.view.still`: JupyterLab drops all else from notebooks that are not trusted.
"""

from __future__ import annotations

from html import escape

from nbdist.quantities import bytes_text, count_text
from nbdist.rehearsal.fold import rows
from nbdist.rehearsal.planned import Planned
from nbdist.rehearsal.text import HEADINGS, heading_lines, notes, row_cells, verdict
from nbdist.view.text.table import ROWS

_CELL = "border: none; padding: 2px 10px; vertical-align: top"
_RIGHT = (4, 5)
_BAR = "rgba(128, 128, 128, 0.25)"
_USED = {
    True: "rgba(46, 140, 80, 0.75)",
    False: "rgba(200, 50, 50, 0.8)",
    None: "rgba(200, 140, 30, 0.8)",
}


def plan_html(plan: Planned) -> str:
    """All of a plan as one HTML element."""
    found = rows(plan.arrays)
    parts = [
        _lines(heading_lines(plan)),
        f'<p style="margin: 6px 0px"><b>{escape(verdict(plan))}</b></p>',
        _bar(plan),
        _table([row_cells(row) for row in found[:ROWS]]),
    ]
    if len(found) > ROWS:
        rest = found[ROWS:]
        more = count_text(sum(len(row.arrays) for row in rest), "more array")
        parts.append(
            _lines(
                [
                    f"… and {more}, {bytes_text(sum(row.device_bytes for row in rest))} on each device"
                ]
            )
        )
    parts.append(_lines(notes(plan)))
    return '<div class="nbdist-plan">\n' + "\n".join(filter(None, parts)) + "\n</div>"


def _bar(plan: Planned) -> str:
    """The memory of a device, and how much of it would be used; nothing where it is not known."""
    if plan.memory_bytes is None:
        return ""
    share = min(plan.device_bytes / plan.memory_bytes, 1)
    return (
        f'<div style="width: 320px; height: 8px; background-color: {_BAR}">'
        f'<div style="width: {share * 100:.1f}%; height: 8px; background-color: {_USED[plan.fits]}"></div></div>'
    )


def _table(table: list[list[str]]) -> str:
    lines = ['<table style="border-collapse: collapse; margin: 6px 0px">']
    lines.append(_row(HEADINGS, "th", "; opacity: 0.75; font-weight: normal"))
    lines += [_row(cells, "td", "") for cells in table]
    return "\n".join([*lines, "</table>"])


def _row(cells: list[str], tag: str, style: str) -> str:
    made = []
    for number, cell in enumerate(cells):
        align = "right" if number in _RIGHT else "left"
        made.append(f'<{tag} style="{_CELL}; text-align: {align}{style}">{escape(cell)}</{tag}>')
    return f"<tr>{''.join(made)}</tr>"


def _lines(lines: list[str]) -> str:
    text = "<br>\n".join(escape(line.strip()) for line in lines)
    return f'<p style="margin: 4px 0px">{text}</p>' if text else ""
