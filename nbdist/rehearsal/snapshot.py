"""A plan as a snapshot, so that the view shows it as it shows a session."""

from __future__ import annotations

from nbdist.contract.snapshot import (
    Array,
    Axis,
    Memory,
    Mesh,
    NamedSharding,
    Notice,
    Snapshot,
)
from nbdist.quantities import bytes_text, count_text
from nbdist.rehearsal.described import devices_of, torus_of
from nbdist.rehearsal.planned import Planned, PlannedArray

MESH = "planned"
"""The id of the mesh of a plan."""


def snapshot_of(plan: Planned) -> Snapshot | None:
    """The pod with what each device would hold; None where it is not known how the mesh lies on it.

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
    """The path of the array that a picture shows first: the largest that is cut into pieces."""
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
