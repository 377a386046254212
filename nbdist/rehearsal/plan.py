"""From a value, specs, a topology and a mesh to a plan."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

from nbdist.engine.frameworks.shapes import ArrayShape, AskedLayout
from nbdist.errors import OptionError
from nbdist.rehearsal.array_plan import ArrayPlan
from nbdist.rehearsal.arrays import arrays_of
from nbdist.rehearsal.compute import planned_arrays
from nbdist.rehearsal.layouts import layout_of
from nbdist.rehearsal.mesh import check_devices, read_axes, with_rest
from nbdist.rehearsal.topology import Topology, counting_hint, read_topology
from nbdist.rehearsal.torus import place_mesh
from nbdist.spelling import option

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
    """A plan of a value of this process; see `nbdist.plan`.

    Raises:
      OptionError: Something that cannot be.
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
    """A topology, or a number of devices; None where only the mesh says it.

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
    """A plan of arrays by their shapes.

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
    """Bytes of one device: `80GB` as nbdist prints it, in powers of 1024."""
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
