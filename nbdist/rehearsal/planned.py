"""Arrays planned for a mesh: what each device would hold of each, computed from shapes and specs.

If a spec cannot split an array on the mesh, or not evenly, a sentence says why, and what would work.

Source: imports nothing outside the standard library.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Literal

from nbdist.contract.page import LARGE_BYTES
from nbdist.contract.snapshot import Array, Axis, Mesh, NamedSharding
from nbdist.engine.frameworks.interfaces import ArrayShape, AskedSpec, Entries
from nbdist.notation import count_text, entries_text
from nbdist.pieces import split
from nbdist.rehearsal.mesh import Axes, axes_text


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedArray:
    """One array of a plan.

    Attributes:
      path: The Python expression that reaches it; in Keras, the path of the variable.
      name: The text that rules are matched against.
      shape: The shape of the whole array.
      dtype: The name of its type.
      nbytes: Bytes of one whole copy.
      spec: The mesh axes that split each dimension; an impossible spec is kept as it was given.
      rule: The pattern that gave the spec; None if no rule did.
      asked: Whether a spec was asked for; without one the array is whole on each device.
      state: `even`; `uneven` where a dimension is not divided evenly, which JAX takes within `jit` alone, and then
        pads; `impossible` where no array can have this spec.
      piece_shape: Shape of the largest piece of a device; None if the spec is impossible.
      device_bytes: Bytes of the largest piece of a device; None if the spec is impossible.
      copies: Devices that would hold the very same piece; None if that differs, or the spec is impossible.
      why: What is wrong, and what would fit; None if nothing is wrong.
      could: An axis of the mesh that would split it, where it is large and whole on each device; else None.
    """

    path: str
    name: str
    shape: tuple[int, ...]
    dtype: str
    nbytes: int
    spec: Entries
    rule: str | None
    asked: bool
    state: Literal["even", "uneven", "impossible"]
    piece_shape: tuple[int, ...] | None = None
    device_bytes: int | None = None
    copies: int | None = None
    why: str | None = None
    could: str | None = None

    @property
    def whole(self) -> bool:
        """Return whether each device would hold the whole array."""
        return self.state != "impossible" and not any(self.spec)


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
      specs: The spec given for each array; None: the array is whole on each device.
      axes: The mesh's axes.
      root: The expression with which the paths begin.
      devices: The number of devices of the mesh; all count as those of one imagined process.
    """
    mesh = planned_mesh(axes, [f"0:{number}" for number in range(devices)])
    known: dict[tuple[object, ...], PlannedArray] = {}
    found = []
    for shape, asked in zip(shapes, specs, strict=True):
        spec = None if asked is None else (asked.entries, asked.rule, asked.problem)
        look = (shape.shape, shape.dtype, shape.nbytes, spec)
        if look not in known:  # the layers of a model are alike
            known[look] = _planned(shape, asked, axes, mesh)
        own = shape.path.startswith("/")
        path = shape.path.removeprefix("/") if own else root + shape.path
        found.append(replace(known[look], path=path, name=shape.name))
    return tuple(found)


def _planned(shape: ArrayShape, asked: AskedSpec | None, axes: Axes, mesh: Mesh) -> PlannedArray:
    entries = asked.entries if asked is not None else ()
    plain = PlannedArray(
        path=shape.path,
        name=shape.name,
        shape=shape.shape,
        dtype=shape.dtype,
        nbytes=shape.nbytes,
        spec=entries,
        rule=asked.rule if asked is not None else None,
        asked=asked is not None,
        state="impossible",
    )
    problem = f"{asked.problem}." if asked is not None and asked.problem else None
    cannot = impossible(entries, shape.shape, axes) or problem
    if cannot is not None:
        return replace(plain, why=cannot)
    spec = padded(entries, shape.shape)
    sharding = NamedSharding(mesh=mesh.id, spec=spec, unreduced=(), memory_kind=None)
    array = Array(
        path=shape.name,
        shape=shape.shape,
        dtype=shape.dtype,
        nbytes=shape.nbytes,
        sharding=sharding,
    )
    found = split(array, {mesh.id: mesh})
    why = uneven(spec, shape.shape, axes)
    large = shape.nbytes >= LARGE_BYTES and not any(spec)
    return replace(
        plain,
        spec=spec,
        state="even" if why is None else "uneven",
        piece_shape=found.piece_shape,
        device_bytes=found.piece_bytes,
        copies=found.copies,
        why=why,
        could=could_split(spec, shape.shape, axes) if large else None,
    )


def planned_mesh(axes: Axes, devices: Sequence[str]) -> Mesh:
    """Return the mesh of a plan over these devices, in a snapshot's form."""
    named = tuple(Axis(name=name, size=size, type="auto") for name, size in axes.items())
    return Mesh(id="planned", axes=named, devices=tuple(devices))


def impossible(entries: Entries, shape: Sequence[int], axes: Axes) -> str | None:
    """Return why no array of this shape can have this spec on the mesh; None if one can, evenly or not."""
    used = [axis for entry in entries for axis in entry]
    for axis in used:
        if axis not in axes:
            near = get_close_matches(axis, axes, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            return f"axis {axis!r} is not in mesh {axes_text(axes)}.{hint}"
    for axis, times in Counter(used).items():
        if times > 1:
            return f"{entries_text(entries)} uses axis {axis!r} {times} times; each can split one dimension."
    if len(entries) > len(shape):
        return (
            f"{entries_text(entries)} has {count_text(len(entries), 'entry')}, the array has "
            f"{count_text(len(shape), 'dimension')}."
        )
    return None


def padded(entries: Entries, shape: Sequence[int]) -> Entries:
    """Return one entry for each dimension: dimensions that a spec leaves out at its end are whole."""
    return entries + ((),) * (len(shape) - len(entries))


def parts(entry: Sequence[str], axes: Axes) -> int:
    """Return the number of parts into which an entry cuts its dimension."""
    return math.prod(axes[axis] for axis in entry)


def uneven(entries: Entries, shape: Sequence[int], axes: Axes) -> str | None:
    """Return a sentence: which dimension is not divided evenly, and what would fit; None if all are even.

    Args:
      entries: One for each dimension.
      shape: The shape of the array.
      axes: The axes of the mesh.
    """
    for dimension, (size, entry) in enumerate(zip(shape, entries, strict=True)):
        count = parts(entry, axes)
        if size % count == 0:
            continue
        by = " × ".join(f"{axis}={axes[axis]}" for axis in entry)
        return (
            f"dimension {dimension} of {size} is not divisible by {by}. "
            f"Fits: {', or '.join(_remedies(entries, shape, axes, dimension))}."
        )
    return None


def _remedies(entries: Entries, shape: Sequence[int], axes: Axes, dimension: int) -> list[str]:
    size, entry = shape[dimension], entries[dimension]
    count = parts(entry, axes)
    found = []
    others = [
        (other_size, other)
        for other, (other_size, other_entry) in enumerate(zip(shape, entries, strict=True))
        if other != dimension and not other_entry and other_size and other_size % count == 0
    ]
    if others:
        other_size, other = max(others)
        found.append(f"split dimension {other} of {other_size} instead")
    fewer = next(
        (entry[:n] for n in range(len(entry) - 1, 0, -1) if size % parts(entry[:n], axes) == 0), ()
    )
    if fewer:
        found.append(f"split it over {' and '.join(fewer)} alone")
    elif len(entry) == 1 and math.gcd(size, count) > 1:
        found.append(f"a mesh with {entry[0]}={math.gcd(size, count)}")
    found.append(f"pad it to {-(-size // count) * count}")
    return found


def could_split(entries: Entries, shape: Sequence[int], axes: Axes) -> str | None:
    """Return a mesh axis that the array does not use and that divides one of its dimensions; None if none does.

    Args:
      entries: One for each dimension.
      shape: The shape of the array.
      axes: The axes of the mesh.

    Returns:
      The axis with the most devices, for the longest dimension: `data=16 divides dimension 0 of 32000`.
    """
    used = {axis for entry in entries for axis in entry}
    free = sorted(((size, name) for name, size in axes.items() if name not in used and size > 1))
    for count, name in reversed(free):
        fitting = [
            (size // parts(entry, axes), -dimension, size)
            for dimension, (size, entry) in enumerate(zip(shape, entries, strict=True))
            if size and size % (parts(entry, axes) * count) == 0
        ]
        if fitting:
            _, place, size = max(fitting)
            return f"{name}={count} divides dimension {-place} of {size}"
    return None
