"""The bytes each device would hold of arrays, computed from their shapes and specs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from nbdist.contract.limits import LARGE_BYTES
from nbdist.contract.snapshot import Array, Axis, Mesh, NamedSharding
from nbdist.engine.frameworks.shapes import ArrayShape, AskedSpec, Entries
from nbdist.pieces import split
from nbdist.rehearsal.fits import could_split, impossible, padded, uneven
from nbdist.rehearsal.mesh import Axes
from nbdist.rehearsal.planned import PlannedArray

MESH = "planned"
"""The id of the one mesh of a plan."""


def planned_arrays(
    shapes: Sequence[ArrayShape],
    specs: Sequence[AskedSpec | None],
    axes: Axes,
    *,
    root: str,
    devices: int,
) -> tuple[PlannedArray, ...]:
    """Return what each device would hold of each array.

    Args:
      shapes: The arrays.
      specs: The spec asked for each; None where there is none, so that the array is whole on each device.
      axes: The mesh's axes.
      root: The expression with which the paths begin.
      devices: The number of devices of the mesh.
    """
    meshes = {MESH: planned_mesh(axes, devices)}
    known: dict[tuple[object, ...], _Cut] = {}
    found = []
    for shape, asked in zip(shapes, specs, strict=True):
        entries = asked.entries if asked is not None else ()
        problem = asked.problem if asked is not None else None
        look = (shape.shape, shape.nbytes, entries, problem)
        if look not in known:  # the layers of a model are alike
            known[look] = _cut(shape, entries, problem, axes, meshes)
        cut = known[look]
        found.append(
            PlannedArray(
                path=shape.path.removeprefix("/")
                if shape.path.startswith("/")
                else root + shape.path,
                name=shape.name,
                shape=shape.shape,
                dtype=shape.dtype,
                nbytes=shape.nbytes,
                spec=cut.spec,
                rule=asked.rule if asked is not None else None,
                asked=asked is not None,
                state=cut.state,
                piece_shape=cut.piece_shape,
                device_bytes=cut.device_bytes,
                copies=cut.copies,
                why=cut.why,
                could=cut.could,
            )
        )
    return tuple(found)


def planned_mesh(axes: Axes, devices: int) -> Mesh:
    """Return the mesh of a plan as a snapshot has it; its devices are those of one process that is not there."""
    return Mesh(
        id=MESH,
        axes=tuple(Axis(name=name, size=size, type="auto") for name, size in axes.items()),
        devices=tuple(f"0:{number}" for number in range(devices)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cut:
    """The fields that all `PlannedArray`s of the same shape, bytes and spec share."""

    spec: Entries
    state: Literal["even", "uneven", "impossible"]
    piece_shape: tuple[int, ...] | None = None
    device_bytes: int | None = None
    copies: int | None = None
    why: str | None = None
    could: str | None = None


def _cut(
    shape: ArrayShape, entries: Entries, problem: str | None, axes: Axes, meshes: Mapping[str, Mesh]
) -> _Cut:
    cannot = impossible(entries, shape.shape, axes) or (f"{problem}." if problem else None)
    if cannot is not None:
        return _Cut(spec=entries, state="impossible", why=cannot)
    spec = padded(entries, shape.shape)
    found = split(
        Array(
            path=shape.name,
            shape=shape.shape,
            dtype=shape.dtype,
            nbytes=shape.nbytes,
            sharding=NamedSharding(mesh=MESH, spec=spec, unreduced=(), memory_kind=None),
        ),
        meshes,
    )
    why = uneven(spec, shape.shape, axes)
    large = shape.nbytes >= LARGE_BYTES and not any(spec)
    return _Cut(
        spec=spec,
        state="even" if why is None else "uneven",
        piece_shape=found.piece_shape,
        device_bytes=found.piece_bytes,
        copies=found.copies,
        why=why,
        could=could_split(spec, shape.shape, axes) if large else None,
    )
