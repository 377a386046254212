"""Programs on several meshes as one table."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from itertools import groupby

from nbdist.quantities import bytes_text
from nbdist.rehearsing.figures import MEMORY, Figures, Sent
from nbdist.view.text.program import BETWEEN
from nbdist.view.text.table import WIDTH, columns

BEST = "*"
"""Stands behind the best of the meshes on which the program fits."""

_COUNT = re.compile(r"^\d+ collectives?")

LEGEND = (
    "Bytes are of each device. The total has the program itself, too, and once what arguments and outputs "
    "share. What is sent is the least that one run must send along the axes, whichever algorithm is used. No run "
    "is faster than the bound."
)


def table(rows: Sequence[Figures], *, width: int = WIDTH) -> str:
    """A block for each program, a column for each mesh.

    Args:
      rows: As `figures` gives them.
      width: Characters a line; meshes that are too many for it follow below.
    """
    blocks = [
        _block(list(group), width)
        for _, group in groupby(rows, key=lambda row: (row.program, row.number))
    ]
    best = f" {BEST} the best of those that fit." if any(row.best for row in rows) else ""
    left_out = dict.fromkeys(
        _COUNT.sub("collectives", part) for row in rows for part in row.bound_left_out
    )
    more = f" A bound with ≥ does not count {', '.join(left_out)}." if left_out else ""
    return "\n\n".join([*blocks, textwrap.fill(f"{LEGEND}{more}{best}", width)])


def seconds_figure(seconds: float) -> str:
    """`12.3 ms`: three figures, from nanoseconds up."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size * 0.9995:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def _block(rows: Sequence[Figures], width: int) -> str:
    """The lines of one program; the meshes side by side as far as they go."""
    name = rows[0].program + (f" (its program {rows[0].number})" if rows[0].number > 1 else "")
    # The same axes stand in another order in another mesh.
    along = list({_along_of(each): each for row in rows for each in row.sent}.values())
    figures = ["fits", *MEMORY, *(_words(each) for each in along), "sent in all", "bound"]
    cells = [
        [
            row.mesh or "no mesh",
            "yes" if row.fits else "no",
            *(_best(row, name, _bytes(getattr(row, name))) for name in MEMORY),
            *(_along(row, each) for each in along),
            _best(row, "sent", _all_sent(row)),
            _best(row, "bound_s", _bound(row)),
        ]
        for row in rows
    ]
    head = [name, *figures]
    parts: list[list[list[str]]] = [[]]
    for column in cells:
        if parts[-1] and _width([head, *parts[-1], column]) > width:
            parts.append([])
        parts[-1].append(column)
    return "\n\n".join("\n".join(columns(list(zip(head, *part, strict=True)))) for part in parts)


def _width(found: Sequence[Sequence[str]]) -> int:
    return len(found) * 2 - 2 + sum(max(map(len, column)) for column in found)


def _best(row: Figures, name: str, text: str) -> str:
    return f"{text} {BEST}" if name in row.best else text


def _bytes(size: int | None) -> str:
    return "?" if size is None else bytes_text(size)


def _words(each: Sent) -> str:
    along = "devices that are no axes" if each.axes is None else ", ".join(each.axes) or "nothing"
    return f"sent along {along}{BETWEEN if each.between_slices else ''}"


def _along_of(each: Sent) -> tuple[frozenset[str] | None, bool]:
    return None if each.axes is None else frozenset(each.axes), each.between_slices


def _along(row: Figures, along: Sent) -> str:
    if row.total is None:
        return "?"
    return _sent([each for each in row.sent if _along_of(each) == _along_of(along)])


def _all_sent(row: Figures) -> str:
    return "?" if row.total is None else _sent(row.sent)


def _sent(each: Sequence[Sent]) -> str:
    about = "" if all(one.certain for one in each) else "about "
    return f"{about}{bytes_text(sum(one.bytes for one in each))}"


def _bound(row: Figures) -> str:
    if row.bound_s is None:
        return "?"
    return f"{'≥ ' if row.bound_left_out else ''}{seconds_figure(row.bound_s)}"
