"""Plan of arrays on a pod, as data, text, HTML and picture.

The text has the pod and the mesh, a verdict, a row for each array, and notes. Similar arrays, such as those of the
layers of a model, differ only in numbers in their paths and share a row. The picture is made from a snapshot, so
that the view shows a plan as it shows a session.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from nbdist.contract.snapshot import Array, Memory, NamedSharding, Snapshot
from nbdist.errors import Notice
from nbdist.notation import (
    ROWS,
    WIDTH,
    array_type_text,
    bytes_text,
    columns,
    count_text,
    entries_text,
    shorten,
)
from nbdist.rehearsal.mesh import axes_text
from nbdist.rehearsal.planned import PlannedArray, planned_mesh
from nbdist.rehearsal.topology import Topology, topology_text
from nbdist.rehearsal.torus import MeshPlace, devices_of, place_lines, torus_of
from nbdist.view.feed import OneFrame
from nbdist.view.picture import Picture

_NUMBER = re.compile(r"\d+")
_TABLE = "border-collapse: collapse; margin: 6px 0px"
_CELL = "border: none; padding: 2px 10px; vertical-align: top"
_RIGHT = (4, 5)
_BAR = "rgba(128, 128, 128, 0.25)"
_USED = {
    True: "rgba(46, 140, 80, 0.75)",
    False: "rgba(200, 50, 50, 0.8)",
    None: "rgba(200, 140, 30, 0.8)",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayPlan:
    """A plan of what each device of a mesh would hold.

    Attributes:
      name: The name of the planned value.
      source: Where its name was found, such as `this notebook`; empty if the value itself was given.
      topology: The pod; None if only a number of devices was given.
      devices: Number of devices.
      axes: The size of each axis of the mesh, in order.
      place: Where the mesh lies on the pod; None if that is not known.
      memory_bytes: Memory of one device; None if it is not known.
      arrays: The arrays, in the order of the planned value.
      unmatched: Rules or specs that match no array.
      noun: A word for these rules or specs.
      made_for: The axes of the mesh that the specs were made for, if that is another mesh; else None.
    """

    name: str
    source: str
    topology: Topology | None
    devices: int
    axes: Mapping[str, int]
    place: MeshPlace | None
    memory_bytes: int | None
    arrays: tuple[PlannedArray, ...]
    unmatched: tuple[str, ...]
    noun: str
    made_for: Mapping[str, int] | None

    @property
    def nbytes(self) -> int:
        """Bytes of one whole copy of each array."""
        return sum(array.nbytes for array in self.arrays)

    @property
    def device_bytes(self) -> int:
        """Bytes that the fullest device would hold of all arrays, without those whose spec is impossible."""
        return sum(array.device_bytes or 0 for array in self.arrays)

    @property
    def total_bytes(self) -> int:
        """Bytes that all devices would hold together, including the padding of uneven pieces."""
        return self.device_bytes * self.devices

    @property
    def fits(self) -> bool | None:
        """Return whether the arrays fit into a device's memory; None if not known."""
        if self.memory_bytes is None:
            return None
        if self.device_bytes > self.memory_bytes:
            return False
        return None if self.impossible else True

    @property
    def impossible(self) -> tuple[PlannedArray, ...]:
        """Arrays that cannot have the given spec; their bytes are not counted."""
        return tuple(array for array in self.arrays if array.state == "impossible")

    @property
    def uneven(self) -> tuple[PlannedArray, ...]:
        """Arrays with a dimension that is not divided evenly."""
        return tuple(array for array in self.arrays if array.state == "uneven")

    @property
    def whole(self) -> tuple[PlannedArray, ...]:
        """Arrays of which each device would hold a whole copy, the largest first."""
        found = (array for array in self.arrays if array.whole)
        return tuple(sorted(found, key=lambda array: array.nbytes, reverse=True))

    @property
    def copies_bytes(self) -> int:
        """Bytes of all copies on all devices together, beyond the first copy of each piece."""
        return sum(
            array.device_bytes * self.devices * (array.copies - 1) // array.copies
            for array in self.arrays
            if array.device_bytes is not None and array.copies is not None
        )

    def text(self) -> str:
        """Return the text that `%dist_plan` prints."""
        return plan_text(self)

    def picture(self) -> Picture | None:
        """Return a picture of the pod, its mesh and the arrays on it, as `%dist_mesh` shows those of a session.

        Returns:
          None if the mesh's place on the pod is not known: no chip is named, or JAX is not imported.
        """
        found = snapshot_of(self)
        if found is None:
            return None
        return Picture(OneFrame(found), lambda: found, path=largest_split(self))

    def __repr__(self) -> str:
        return self.text()

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        """Return the plan as text and HTML, for a notebook."""
        return {"text/plain": self.text(), "text/html": plan_html(self)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Similar arrays; `path` has the range of each number that differs, such as `blocks[0–31].kernel`."""

    path: str
    arrays: tuple[PlannedArray, ...]

    @property
    def first(self) -> PlannedArray:
        """An array that stands for all."""
        return self.arrays[0]

    @property
    def device_bytes(self) -> int:
        """The bytes that a device would hold of all arrays of the row."""
        return sum(array.device_bytes or 0 for array in self.arrays)


def rows(arrays: Sequence[PlannedArray]) -> list[Row]:
    """Return the arrays in rows: impossible ones, then uneven ones, then by the bytes a device needs."""
    alike: dict[tuple[object, ...], list[PlannedArray]] = {}
    for one in arrays:
        look = (one.shape, one.dtype, one.spec, one.rule, one.why, one.could)
        alike.setdefault((_NUMBER.sub("#", one.path), *look), []).append(one)
    order = {"impossible": 0, "uneven": 1, "even": 2}
    found = [Row(path=_path(found), arrays=tuple(found)) for found in alike.values()]
    return sorted(found, key=lambda row: (order[row.first.state], -row.device_bytes))


def _path(arrays: Sequence[PlannedArray]) -> str:
    paths = [array.path for array in arrays]
    numbers = [tuple(map(int, found)) for found in zip(*map(_NUMBER.findall, paths), strict=True)]
    texts = iter(_range(found) for found in numbers)
    return _NUMBER.sub(lambda _: next(texts), paths[0])


def _range(numbers: Sequence[int]) -> str:
    low, high = min(numbers), max(numbers)
    return str(low) if low == high else f"{low}–{high}"


SIGNS = {"impossible": "!", "uneven": "~", "even": ""}

HEADINGS = ["", "array", "type", "spec", "per device", "replicas", ""]

UNCOUNTED = "Not counted: gradients, activations and what a step needs besides; padding of small dimensions."
"""Note that holds for every plan: a plan knows arrays, and no program."""

PATH_WIDTH = 36
"""The least width of a path, also where lines get longer than others like them."""

MOST_RULES = 8
"""The most unused rules that are listed."""


def plan_text(plan: ArrayPlan, *, width: int = WIDTH) -> str:
    """Return all of a plan: the pod and the mesh, the verdict, a row for each array or similar ones, and notes."""
    found = rows(plan.arrays)
    table = [*_table(found[:ROWS], width), *_more(found[ROWS:])]
    return "\n".join([*heading_lines(plan), verdict(plan), *table, *notes(plan)])


def plan_html(plan: ArrayPlan) -> str:
    """Return all of a plan as one HTML element: the words of its text, with the arrays as a table.

    Inline styles only, as in `nbdist.view.picture`: JupyterLab drops all else from notebooks that are not trusted.
    """
    found = rows(plan.arrays)
    table = [_html_row(row_cells(row), "td", "") for row in found[:ROWS]]
    head = _html_row(HEADINGS, "th", "; opacity: 0.75; font-weight: normal")
    parts = [
        _html_lines(heading_lines(plan)),
        f'<p style="margin: 6px 0px"><b>{escape(verdict(plan))}</b></p>',
        _bar(plan),
        "\n".join([f'<table style="{_TABLE}">', head, *table, "</table>"]),
        _html_lines(_more(found[ROWS:])),
        _html_lines(notes(plan)),
    ]
    return '<div class="nbdist-plan">\n' + "\n".join(filter(None, parts)) + "\n</div>"


def _more(rest: Sequence[Row]) -> list[str]:
    """Return a line about the rows that are not shown; no line if all are shown."""
    if not rest:
        return []
    more = count_text(sum(len(row.arrays) for row in rest), "more array")
    return [f"… and {more}, {bytes_text(sum(row.device_bytes for row in rest))} on each device"]


def _bar(plan: ArrayPlan) -> str:
    """Return a bar of a device's memory and its used part; empty if the memory is not known."""
    if plan.memory_bytes is None:
        return ""
    share = min(plan.device_bytes / plan.memory_bytes, 1)
    return (
        f'<div style="width: 320px; height: 8px; background-color: {_BAR}">'
        f'<div style="width: {share * 100:.1f}%; height: 8px; background-color: {_USED[plan.fits]}"></div></div>'
    )


def _html_row(cells: Sequence[str], tag: str, style: str) -> str:
    aligned = [("right" if number in _RIGHT else "left", cell) for number, cell in enumerate(cells)]
    made = [
        f'<{tag} style="{_CELL}; text-align: {side}{style}">{escape(cell)}</{tag}>'
        for side, cell in aligned
    ]
    return f"<tr>{''.join(made)}</tr>"


def _html_lines(lines: Sequence[str]) -> str:
    text = "<br>\n".join(escape(line.strip()) for line in lines)
    return f'<p style="margin: 4px 0px">{text}</p>' if text else ""


def snapshot_of(plan: ArrayPlan) -> Snapshot | None:
    """Return the pod with the arrays on its devices; None if the mesh's place on the pod is not known.

    Devices have the ids and the processes that JAX would give them; with several slices, ids continue from one
    slice to the next. Arrays whose spec is impossible are left out, and a notice says so.
    """
    if plan.topology is None or plan.place is None:
        return None
    memory = Memory(
        bytes_in_use=plan.device_bytes, peak_bytes_in_use=None, bytes_limit=plan.memory_bytes
    )
    found = devices_of(plan.topology, memory)
    each = len(found) // plan.topology.slices
    mesh = planned_mesh(plan.axes, [found[n * each + at].key for n, at in plan.place.order])
    return Snapshot(
        session=f"plan of {plan.name}",
        sequence=1,
        time=0.0,
        state="planned",
        devices=tuple(found),
        meshes=(mesh,),
        arrays=tuple(
            Array(
                path=one.path,
                shape=one.shape,
                dtype=one.dtype,
                nbytes=one.nbytes,
                sharding=NamedSharding(mesh=mesh.id, spec=one.spec, unreduced=(), memory_kind=None),
            )
            for one in plan.arrays
            if one.state != "impossible"
        ),
        notices=tuple(_notices(plan)),
        torus=torus_of(plan.topology, found),
    )


def largest_split(plan: ArrayPlan) -> str | None:
    """Return the path of the array that a picture shows first: the largest that is cut into pieces."""
    cut = [array for array in plan.arrays if array.state != "impossible" and any(array.spec)]
    return max(cut, key=lambda array: array.nbytes).path if cut else None


def _notices(plan: ArrayPlan) -> list[Notice]:
    found = []
    if plan.fits is False and plan.memory_bytes is not None:
        held = f"{bytes_text(plan.device_bytes)} of {bytes_text(plan.memory_bytes)} on each device."
        found.append(Notice(level="bad", title="It does not fit.", text=held))
    if plan.impossible:
        count = count_text(len(plan.impossible), "array")
        first = plan.impossible[0]
        text = f"Not in the picture: {first.path}, {first.why}"
        found.append(Notice(level="warn", title=f"{count} with an impossible spec.", text=text))
    return found


def heading_lines(plan: ArrayPlan) -> list[str]:
    """Return lines about the pod, its chips, and the mesh on it."""
    topology = plan.topology
    where = count_text(plan.devices, "device") if topology is None else topology_text(topology)
    chip = topology.chip if topology is not None else None
    if plan.memory_bytes is not None:
        where += f", {bytes_text(plan.memory_bytes)} per device"
    lines = [f"{where}, mesh {axes_text(plan.axes)}"]
    if chip is not None:
        lines.append(
            f"a {chip.name} chip: {bytes_text(chip.memory_bytes)} HBM at {chip.hbm_bytes_per_s / 1e9:,.0f} GB/s, "
            f"{chip.bf16_flops / 1e12:,.0f} TFLOP/s in bf16, {chip.ici_links} links ({chip.source})"
        )
    return [*lines, *(place_lines(plan.place) if plan.place is not None else [])]


def verdict(plan: ArrayPlan) -> str:
    """Return `params (this notebook): 4 arrays, 2.1 GB; needs 140 MB of 16 GB per device`."""
    source = f" ({plan.source})" if plan.source else ""
    text = (
        f"{plan.name}{source}: {count_text(len(plan.arrays), 'array')}, {bytes_text(plan.nbytes)}; "
        f"needs {bytes_text(plan.device_bytes)}"
    )
    if plan.memory_bytes is None:
        text += " per device"
    else:
        share = plan.device_bytes / plan.memory_bytes
        text += f" of {bytes_text(plan.memory_bytes)} per device, {_percent(share)}"
    if plan.fits is False:
        text += ": it does not fit"
    if plan.impossible:
        text += f", without {count_text(len(plan.impossible), 'array')} whose spec is impossible"
    return text


def notes(plan: ArrayPlan) -> list[str]:
    """Return lines about problems, the most urgent first, and about what a plan does not count."""
    lines = []
    for row in rows([*plan.impossible, *plan.uneven])[:ROWS]:
        lines.append(f"{SIGNS[row.first.state]} {row.path}: {row.first.why}")
    if plan.uneven:
        lines.append(
            "~ JAX refuses arrays and arguments that are not divided evenly; within jit it pads them, and the "
            "bytes are those of the padded shards."
        )
    if plan.fits is False:
        least = bytes_text(-(-plan.nbytes // plan.devices))
        lines.append(f"split evenly over all {plan.devices} devices, each would hold {least}")
    lines += _whole_lines(plan)
    if plan.copies_bytes:
        lines.append(
            f"replicas: {bytes_text(plan.copies_bytes)} of the {bytes_text(plan.total_bytes)} that all devices "
            "would hold"
        )
    if plan.unmatched:
        noun = plan.noun if len(plan.unmatched) == 1 else f"{plan.noun}s"
        verb = "matches" if len(plan.unmatched) == 1 else "match"
        more = len(plan.unmatched) - MOST_RULES
        lines.append(f"{noun} that {verb} nothing:")
        lines += [f"  {rule}" for rule in plan.unmatched[:MOST_RULES]]
        lines += [f"  … and {more} more"] if more > 0 else []
    if plan.made_for is not None:
        lines.append(
            f"The specs were made for a mesh {axes_text(plan.made_for)}; planned is {axes_text(plan.axes)}."
        )
    if any(array.dtype in ("int4", "uint4", "int2", "uint2") for array in plan.arrays):
        lines.append(
            "Integers of less than a byte are counted as a byte each; a TPU may pack them."
        )
    return [*lines, UNCOUNTED]


def row_cells(row: Row) -> list[str]:
    """Return a row: sign, path, type, spec, bytes of one array per device, replicas, count, bytes of all."""
    array = row.first
    return [
        SIGNS[array.state] or ("·" if array.could else ""),
        row.path,
        array_type_text(array.dtype, array.shape),
        entries_text(array.spec) if array.asked else "none",
        "" if array.device_bytes is None else bytes_text(array.device_bytes),
        _replicas_text(array),
        f"×{len(row.arrays)} identical, {bytes_text(row.device_bytes)}"
        if len(row.arrays) > 1
        else "",
    ]


def _table(found: Sequence[Row], width: int) -> list[str]:
    table = [row_cells(row) for row in found]
    signs = any(row[0] for row in table)
    facts = columns([HEADINGS[2:], *(row[2:] for row in table)], right=(2, 3))
    room = max(width - max(map(len, facts)) - 4, PATH_WIDTH)
    paths = shorten([row[1] for row in table], room)
    head = zip(["", *(row[0] for row in table)], [HEADINGS[1], *paths], facts, strict=True)
    return columns([list(cells) if signs else list(cells[1:]) for cells in head])


def _whole_lines(plan: ArrayPlan) -> list[str]:
    if not plan.whole or plan.devices == 1:
        return []
    held = bytes_text(sum(array.nbytes for array in plan.whole))
    lines = [f"replicated on every device: {count_text(len(plan.whole), 'array')}, {held} on each"]
    lines += [
        f"· {row.path}: {row.first.could}"
        for row in rows([array for array in plan.whole if array.could])[:MOST_RULES]
    ]
    unasked = [array for array in plan.whole if not array.asked]
    if unasked and len(unasked) < len(plan.arrays):
        held = bytes_text(sum(array.nbytes for array in unasked))
        lines.append(f"  no spec is given for {len(unasked)} of them, {held}")
    elif unasked:
        lines.append("  no spec is given for any array")
    return lines


def _replicas_text(array: PlannedArray) -> str:
    if array.state == "impossible":
        return ""
    return "varies" if array.copies is None else f"{array.copies}×" if array.copies > 1 else "—"


def _percent(share: float) -> str:
    percent = 100 * share
    if 0 < percent < 0.05:
        return "less than 0.1 %"
    return f"{percent:.1f} %" if percent < 10 else f"{math.ceil(percent)} %"
