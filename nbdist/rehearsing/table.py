"""Programs on several meshes as one table."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from itertools import groupby

from nbdist.quantities import bytes_text
from nbdist.rehearsing.figures import MEMORY, Figures, Sent
from nbdist.view.text.table import WIDTH, columns

BEST = "*"
"""Stands behind the best of the meshes on which the program fits."""

LEGEND = (
    "Bytes are of each device. The total has the program itself, too, and once what arguments and outputs "
    "share. What is sent is the least that one run must send along the axes, whichever algorithm is used. No run "
    "is faster than the bound."
)


def table(rows: Sequence[Figures]) -> str:
    """A block for each program, a line for each mesh.

    Args:
      rows: As `figures` gives them.
    """
    blocks = []
    for (name, number), group in groupby(rows, key=lambda row: (row.program, row.number)):
        again = f" (its program {number})" if number > 1 else ""
        blocks.append("\n".join([f"{name}{again}", *_lines(list(group))]))
    best = f" {BEST} the best of those that fit." if any(row.best for row in rows) else ""
    left_out = dict.fromkeys(part for row in rows for part in row.bound_left_out)
    more = f" A bound with ≥ does not count {'; '.join(left_out)}." if left_out else ""
    return "\n\n".join([*blocks, textwrap.fill(f"{LEGEND}{more}{best}", WIDTH)])


def seconds_figure(seconds: float) -> str:
    """`12.3 ms`: three figures, from nanoseconds up."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size * 0.9995:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def _lines(rows: Sequence[Figures]) -> list[str]:
    along = list(dict.fromkeys(each.axes for row in rows for each in row.sent))
    head = ["mesh", "fits", *MEMORY, *(f"along {_axes(axes)}" for axes in along), "sent", "bound"]
    cells = [
        [
            row.mesh or "no mesh",
            "yes" if row.fits else "no",
            *(_best(row, name, _bytes(getattr(row, name))) for name in MEMORY),
            *(_along(row, axes) for axes in along),
            _best(row, "sent", _all_sent(row)),
            _best(row, "bound_s", _bound(row)),
        ]
        for row in rows
    ]
    return columns([head, *cells], right=range(2, len(head)))


def _best(row: Figures, name: str, text: str) -> str:
    return f"{text} {BEST}" if name in row.best else f"{text}  "


def _bytes(size: int | None) -> str:
    return "?" if size is None else bytes_text(size)


def _axes(axes: tuple[str, ...] | None) -> str:
    return "other devices" if axes is None else ", ".join(axes) or "nothing"


def _along(row: Figures, axes: tuple[str, ...] | None) -> str:
    if row.total is None:
        return "?"
    found = [each for each in row.sent if each.axes == axes]
    return _sent(found)


def _all_sent(row: Figures) -> str:
    return "?" if row.total is None else _sent(row.sent)


def _sent(each: Sequence[Sent]) -> str:
    about = "" if all(one.certain for one in each) else "about "
    return f"{about}{bytes_text(sum(one.bytes for one in each))}"


def _bound(row: Figures) -> str:
    if row.bound_s is None:
        return "?"
    return f"{'≥ ' if row.bound_left_out else ''}{seconds_figure(row.bound_s)}"
