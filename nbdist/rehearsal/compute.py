"""From shapes and specs to what each device would hold."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

from nbdist.contract.limits import LARGE_BYTES
from nbdist.contract.snapshot import Array, Axis, Mesh, NamedSharding
from nbdist.engine.frameworks.shapes import ArrayShape, AskedSpec
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
    """What each device would hold of each array.

    Args:
      shapes: The arrays.
      specs: What is asked for each; None: nothing, so that it is whole on each device.
      axes: Of the mesh.
      root: The expression with which the paths begin.
      devices: How many the mesh has.
    """
    meshes = {MESH: planned_mesh(axes, devices)}
    return tuple(
        _planned(shape, asked, axes, meshes, root)
        for shape, asked in zip(shapes, specs, strict=True)
    )


def planned_mesh(axes: Axes, devices: int) -> Mesh:
    """The mesh of a plan as a snapshot has it; its devices are those of one process that is not there."""
    return Mesh(
        id=MESH,
        axes=tuple(Axis(name=name, size=size, type="auto") for name, size in axes.items()),
        devices=tuple(f"0:{number}" for number in range(devices)),
    )


def _planned(
    shape: ArrayShape,
    asked: AskedSpec | None,
    axes: Axes,
    meshes: Mapping[str, Mesh],
    root: str,
) -> PlannedArray:
    entries = asked.entries if asked is not None else ()
    make = functools.partial(
        PlannedArray,
        path=shape.path.removeprefix("/") if shape.path.startswith("/") else root + shape.path,
        name=shape.name,
        shape=shape.shape,
        dtype=shape.dtype,
        nbytes=shape.nbytes,
        rule=asked.rule if asked is not None else None,
        asked=asked is not None,
    )
    problem = impossible(entries, shape.shape, axes)
    if problem is None and asked is not None and asked.problem is not None:
        problem = f"{asked.problem}."
    if problem is not None:
        return make(
            spec=entries,
            state="impossible",
            piece_shape=None,
            device_bytes=None,
            copies=None,
            why=problem,
            could=None,
        )
    spec = padded(entries, shape.shape)
    sharding = NamedSharding(mesh=MESH, spec=spec, unreduced=(), memory_kind=None)
    cut = split(
        Array(
            path=shape.name,
            shape=shape.shape,
            dtype=shape.dtype,
            nbytes=shape.nbytes,
            sharding=sharding,
        ),
        meshes,
    )
    why = uneven(spec, shape.shape, axes)
    large = shape.nbytes >= LARGE_BYTES and not any(spec)
    return make(
        spec=spec,
        state="even" if why is None else "uneven",
        piece_shape=cut.piece_shape,
        device_bytes=cut.piece_bytes,
        copies=cut.copies,
        why=why,
        could=could_split(spec, shape.shape, axes) if large else None,
    )
