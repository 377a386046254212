"""Plans of what each device of a mesh would hold of a value: made from its specs, shown as text, HTML or picture.

`make_plan` takes a value, specs, a topology and a mesh, and returns an `ArrayPlan`, the result of `nbdist.plan`. A
picture needs a snapshot, so that the view shows a plan as it shows a session.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from nbdist.contract.snapshot import (
    Array,
    Axis,
    Memory,
    Mesh,
    NamedSharding,
    Notice,
    Snapshot,
)
from nbdist.engine.frameworks.interfaces import ArrayShape, AskedLayout
from nbdist.errors import OptionError
from nbdist.notation import ROWS, bytes_text, count_text
from nbdist.rehearsal.plan.layouts import arrays_of, layout_of
from nbdist.rehearsal.plan.mesh import (
    Topology,
    check_devices,
    counting_hint,
    read_axes,
    read_topology,
    with_rest,
)
from nbdist.rehearsal.plan.planned import Planned, PlannedArray, planned_arrays
from nbdist.rehearsal.plan.text import (
    HEADINGS,
    heading_lines,
    notes,
    plan_text,
    row_cells,
    rows,
    verdict,
)
from nbdist.rehearsal.plan.torus import devices_of, place_mesh, torus_of
from nbdist.spelling import option
from nbdist.view.feed import OneFrame
from nbdist.view.picture import Picture

_CELL = "border: none; padding: 2px 10px; vertical-align: top"
_RIGHT = (4, 5)
_BAR = "rgba(128, 128, 128, 0.25)"
_USED = {
    True: "rgba(46, 140, 80, 0.75)",
    False: "rgba(200, 50, 50, 0.8)",
    None: "rgba(200, 140, 30, 0.8)",
}


def plan_html(plan: Planned) -> str:
    """Return all of a plan as one HTML element: the words of its text, with the arrays as a table.

    Inline styles only, as in `nbdist.view.picture`: JupyterLab drops all else from notebooks that are not trusted.
    """
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
    """Return a bar for the memory of a device and how much of it would be used; empty where that is not known."""
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


MESH = "planned"
"""The id of the mesh of a plan."""


def snapshot_of(plan: Planned) -> Snapshot | None:
    """Return the pod with what each device would hold; None where it is not known how the mesh lies on the pod.

    Devices have the ids and the processes that JAX would give them; of several slices each counts on from the one
    before. Arrays whose spec is impossible are left out, and a notice says so.
    """
    if plan.topology is None or plan.place is None:
        return None
    memory = Memory(
        bytes_in_use=plan.device_bytes, peak_bytes_in_use=None, bytes_limit=plan.memory_bytes
    )
    found = devices_of(plan.topology, memory)
    each = len(found) // plan.topology.slices
    mesh = Mesh(
        id=MESH,
        axes=tuple(Axis(name=name, size=size, type="auto") for name, size in plan.axes.items()),
        devices=tuple(found[number * each + device].key for number, device in plan.place.order),
    )
    return Snapshot(
        session=f"plan of {plan.name}",
        sequence=1,
        time=0.0,
        state="planned",
        devices=tuple(found),
        meshes=(mesh,),
        arrays=tuple(_array(one) for one in plan.arrays if one.state != "impossible"),
        notices=tuple(_notices(plan)),
        torus=torus_of(plan.topology, found),
    )


def largest_split(plan: Planned) -> str | None:
    """Return the path of the array that a picture shows first: the largest that is cut into pieces."""
    cut = [array for array in plan.arrays if array.state != "impossible" and any(array.spec)]
    return max(cut, key=lambda array: array.nbytes).path if cut else None


def _array(array: PlannedArray) -> Array:
    return Array(
        path=array.path,
        shape=array.shape,
        dtype=array.dtype,
        nbytes=array.nbytes,
        sharding=NamedSharding(mesh=MESH, spec=array.spec, unreduced=(), memory_kind=None),
    )


def _notices(plan: Planned) -> list[Notice]:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayPlan(Planned):
    """A plan of what each device of a mesh would hold; `Planned` lists its data."""

    def text(self) -> str:
        """Return the text that `%dist_plan` prints."""
        return plan_text(self)

    def picture(self) -> Picture | None:
        """Return a picture of the pod, its mesh and the arrays on it, as `%dist_mesh` shows those of a session.

        Returns:
          None where it is not known how the mesh lies on the pod: no chip is named, or JAX is not imported.
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


_MEMORY = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)i?B?", re.IGNORECASE)
_UNITS = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3, "T": 1024**4}


def make_plan(
    value: Any,
    specs: Any = None,
    *,
    topology: str | Topology | None = None,
    devices: int | None = None,
    mesh: Any = None,
    slices: int = 1,
    memory: str | int | None = None,
    name: str = "value",
) -> ArrayPlan:
    """Return a plan of a value of this process; see `nbdist.plan`.

    Raises:
      OptionError: The topology, the specs or the mesh cannot be read, or do not fit each other.
      ArrayError: The value has no arrays.
    """
    where = read_where(topology, devices, slices)
    shapes = arrays_of(value, name)
    return plan_arrays(
        shapes,
        layout_of(specs, shapes, value),
        where=where,
        mesh=mesh,
        memory=memory,
        name=name,
    )


def read_where(
    topology: str | Topology | None, devices: int | None, slices: int
) -> Topology | int | None:
    """Return a topology or a number of devices; None where only the mesh gives the number.

    Raises:
      OptionError: Both are given, or there is no such topology.
    """
    if topology is not None and devices is not None:
        raise OptionError(
            f"{option('topology')} and {option('devices')} both say how many devices there are: give one."
        )
    if isinstance(topology, Topology):
        return topology
    if topology is not None:
        return read_topology(topology, slices=slices)
    if slices != 1:
        raise OptionError(
            f"{option('slices')} {slices} needs {option('topology')}: that of one slice."
        )
    if devices is not None and devices < 1:
        raise OptionError(f"{option('devices')} {devices}: allowed are 1 or more.")
    return devices


def plan_arrays(
    shapes: Sequence[ArrayShape],
    layout: AskedLayout,
    *,
    where: Topology | int | None,
    mesh: Any,
    memory: str | int | None,
    name: str,
    source: str = "",
) -> ArrayPlan:
    """Return a plan of arrays by their shapes.

    Raises:
      OptionError: The mesh does not fit, or is missing.
    """
    topology = where if isinstance(where, Topology) else None
    count = topology.devices if topology is not None else where
    if mesh is None and layout.axes is None:
        raise OptionError(
            f"{option('mesh')} is missing: neither the specs nor the arrays name a mesh. Write "
            f"{option('mesh', 'data=16,model=16')}."
        )
    asked = read_axes(mesh if mesh is not None else layout.axes)
    axes = with_rest(asked, count if isinstance(count, int) else None)
    total = math.prod(axes.values())
    if isinstance(count, int):
        hint = counting_hint(topology, total) if topology is not None else ""
        check_devices(axes, count, str(topology) if topology is not None else "the plan", hint)
    made_for = layout.axes if layout.axes is not None and dict(layout.axes) != axes else None
    chip = topology.chip if topology is not None else None
    return ArrayPlan(
        name=name,
        source=source,
        topology=topology,
        devices=total,
        axes=axes,
        place=place_mesh(topology, axes) if topology is not None else None,
        memory_bytes=_memory(memory, chip.device_memory_bytes if chip is not None else None),
        arrays=planned_arrays(shapes, layout.specs, axes, root=name, devices=total),
        unmatched=tuple(layout.unmatched),
        noun=layout.noun,
        made_for=made_for,
    )


def _memory(given: str | int | None, known: int | None) -> int | None:
    """Return the memory of one device in bytes; `80GB` is read as nbdist prints it, in powers of 1024."""
    if given is None:
        return known
    if isinstance(given, int) and not isinstance(given, bool) and given > 0:
        return given
    found = _MEMORY.fullmatch(str(given).strip())
    if found is None or float(found[1]) == 0:
        raise OptionError(
            f"{option('memory')}: cannot read {given!r}. Write the memory of one device, such as 80GB."
        )
    return int(float(found[1]) * _UNITS[found[2].upper()])
