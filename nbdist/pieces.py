"""Pieces of an array: which device holds which part, computed from the array's mesh, spec and shape.

A snapshot does not list the pieces of arrays: the view and its texts compute them here, for the array that is
shown. `Split` counts pieces without listing any device. A part of an array is described by its bounds in the whole
array (`Bounds`), which this module divides, intersects, and converts to NumPy indices.

Source: imports nothing outside the standard library.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from nbdist.contract.snapshot import (
    Array,
    DeviceBytes,
    DeviceKey,
    Indexed,
    Mesh,
    NamedSharding,
    SingleDevice,
    Slices,
    Snapshot,
)
from nbdist.errors import SpecError
from nbdist.notation import (
    bytes_text,
    count_text,
    mesh_axes_text,
    processes_text,
    shape_text,
    spec_text,
)

Bounds = Sequence[Sequence[int]]
"""Half-open element indices, one pair for each dimension."""


def elements(bounds: Bounds) -> int:
    """Return the number of elements: `[[0, 2], [4, 8]]` → 8."""
    return math.prod(stop - start for start, stop in bounds)


def part_length(size: int, parts: int) -> int:
    """Return the length of the longest part of a dimension: XLA rounds up where `parts` does not divide `size`."""
    return -(-size // parts)


def distinct_parts(size: int, parts: int) -> int:
    """Return how many parts differ: with too few elements, the last parts are all the same empty one."""
    length = part_length(size, parts)
    return min(parts, -(-size // length) + 1) if length else 1


def part(size: int, parts: int, number: int) -> tuple[int, int]:
    """Return start and stop of part `number` of a dimension of `size` elements; the last may be short or empty."""
    length = part_length(size, parts)
    return min(size, number * length), min(size, (number + 1) * length)


def boxes(bounds: Bounds, itemsize: int, most_bytes: int) -> Iterator[Bounds]:
    """Divide a part of an array into boxes of at most `most_bytes`, each as contiguous as possible.

    Never divides an element. A part without elements gives no box.
    """
    count = elements(bounds)
    if not count:
        return
    if count * itemsize <= most_bytes or count == 1:
        yield bounds
        return
    axis = next(axis for axis, (start, stop) in enumerate(bounds) if stop - start > 1)
    start, stop = bounds[axis]
    each = count // (stop - start) * itemsize
    step = max(1, most_bytes // each)
    for begin in range(start, stop, step):
        inner = [list(pair) for pair in bounds]
        inner[axis] = [begin, min(begin + step, stop)]
        yield from boxes(inner, itemsize, most_bytes)


def intersection(one: Bounds, other: Sequence[Sequence[int]]) -> Bounds:
    """Return the part that is in both; its dimensions are empty if the two do not overlap."""
    return [
        [max(a, c), max(min(b, d), max(a, c))] for (a, b), (c, d) in zip(one, other, strict=True)
    ]


def contains(outer: Bounds, inner: Bounds) -> bool:
    """Return whether all of `inner` lies in `outer`."""
    return all(a <= c and d <= b for (a, b), (c, d) in zip(outer, inner, strict=True))


def slices(bounds: Bounds, origin: Bounds | None = None) -> tuple[Any, ...]:
    """Return the bounds as a NumPy index; with `origin`, as an index into an array that begins there."""
    starts = [0] * len(bounds) if origin is None else [start for start, _ in origin]
    found = [
        slice(start - first, stop - first)
        for (start, stop), first in zip(bounds, starts, strict=True)
    ]
    # With the Ellipsis, indexing an array without dimensions gives an array, not a scalar.
    return (*found, ...)


def shape_of(bounds: Bounds) -> tuple[int, ...]:
    """Return the shape: `[[0, 2], [4, 8]]` → `(2, 4)`."""
    return tuple(stop - start for start, stop in bounds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One distinct part of an array and the devices that hold a copy of it.

    `addend` tells partial sums apart: the place along the unreduced axes, row-major, from 0; None if nothing is
    left to be added. Parts with equal slices and addend are the same part, except those of a `PerProcess` array,
    which are each process's own.
    """

    slices: Slices
    addend: int | None
    devices: tuple[DeviceKey, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """The numbers of an array's pieces.

    `pieces` counts distinct slices, `addends` the partial sums of each (1 if there are none), `copies` the devices
    that hold the very same part (None if parts differ in that), `devices` all of them. `piece_shape` is the shape
    of the largest piece and `piece_bytes` its bytes; `even` is false if pieces differ in shape. `own` is true if
    each device holds an array of its own process.
    """

    pieces: int
    addends: int
    copies: int | None
    devices: int
    piece_shape: tuple[int, ...]
    piece_bytes: int
    even: bool
    own: bool


def meshes_of(snapshot: Snapshot) -> dict[str, Mesh]:
    """Return the meshes of a snapshot, by id."""
    return {mesh.id: mesh for mesh in snapshot.meshes}


def pieces(array: Array, meshes: Mapping[str, Mesh]) -> tuple[Part, ...]:
    """Return the array's distinct parts, ordered by slices, then addend.

    Args:
      array: An array of a snapshot or report.
      meshes: The meshes of the same snapshot or report, by id.

    Returns:
      Every device that holds some of the array in exactly one part; within a part in the order of
      the mesh. The parts of a `PerProcess` array follow the order of its devices.

    Raises:
      SpecError: The mesh is unknown, or the spec names an axis that the mesh does not have, or does not have one
        entry for each dimension.
    """
    sharding = array.sharding
    whole = tuple((0, size) for size in array.shape)
    if sharding.kind == "single":
        return (Part(slices=whole, addend=None, devices=(sharding.device,)),)
    if sharding.kind == "per_process":
        return tuple(Part(slices=whole, addend=None, devices=(key,)) for key in sharding.devices)
    if sharding.kind == "indexed":
        parts = (
            Part(slices=piece.slices, addend=None, devices=piece.devices)
            for piece in sharding.pieces
        )
        return tuple(sorted(parts, key=lambda part: part.slices))
    held: dict[tuple[Slices, int | None], list[DeviceKey]] = {}
    for key, slices, addend in _named(array, sharding, meshes):
        held.setdefault((slices, addend), []).append(key)
    ordered = sorted(held.items(), key=lambda item: (item[0][0], item[0][1] or 0))
    return tuple(
        Part(slices=slices, addend=addend, devices=tuple(devices))
        for (slices, addend), devices in ordered
    )


def split(array: Array, meshes: Mapping[str, Mesh]) -> Split:
    """Count the pieces; with mesh and spec, in time that grows with the axes, not with the devices.

    Raises:
      SpecError: As `pieces`.
    """
    sharding = array.sharding
    if sharding.kind == "named":
        return _split_named(array, sharding, _mesh(array, sharding, meshes))
    if sharding.kind == "indexed":
        return _split_indexed(array, sharding)
    return Split(
        pieces=1,
        addends=1,
        copies=1,
        devices=len(sharding.devices) if sharding.kind == "per_process" else 1,
        piece_shape=array.shape,
        piece_bytes=array.nbytes,
        even=True,
        own=sharding.kind == "per_process",
    )


def piece_bytes(array: Array, slices: Slices) -> int:
    """Return the bytes that a device needs for this part of the array."""
    elements = math.prod(array.shape)
    if not elements:
        return 0
    return array.nbytes * math.prod(stop - start for start, stop in slices) // elements


def fullest_bytes(array: Array, meshes: Mapping[str, Mesh]) -> int:
    """Return the bytes of an array on its fullest device; the array's bytes if its mesh is not known.

    Args:
      array: The description of the array in a report.
      meshes: The meshes by id.
    """
    try:
        return split(array, meshes).piece_bytes
    except SpecError:
        return array.nbytes


def holders(array: Array, meshes: Mapping[str, Mesh]) -> tuple[DeviceKey, ...]:
    """Return the keys of the devices that hold a part of an array; empty if the devices are not known."""
    sharding = array.sharding
    if isinstance(sharding, SingleDevice):
        return (sharding.device,)
    if isinstance(sharding, Indexed):
        return tuple(device for piece in sharding.pieces for device in piece.devices)
    if not isinstance(sharding, NamedSharding):
        return sharding.devices
    mesh = meshes.get(sharding.mesh)
    return mesh.devices if mesh is not None else ()


def is_whole_everywhere(array: Array, meshes: Mapping[str, Mesh]) -> bool:
    """Return whether each of two or more devices of a mesh holds all of an array."""
    sharding = array.sharding
    if not isinstance(sharding, NamedSharding) or any(sharding.spec) or sharding.unreduced:
        return False
    return len(holders(array, meshes)) > 1


def totals(arrays: Iterable[Array], meshes: Mapping[str, Mesh]) -> tuple[DeviceBytes, ...]:
    """Return how many bytes of these arrays each device holds, the fullest first."""
    # Summed by set of devices, not device by device: a mesh may have thousands of devices.
    by_place: dict[tuple[DeviceKey, ...], int] = {}
    for array in arrays:
        place = holders(array, meshes)
        by_place[place] = by_place.get(place, 0) + fullest_bytes(array, meshes)
    held: dict[DeviceKey, int] = {}
    for place, nbytes in by_place.items():
        for device in place:
            held[device] = held.get(device, 0) + nbytes
    groups: dict[int, list[DeviceKey]] = {}
    for device, nbytes in held.items():
        groups.setdefault(nbytes, []).append(device)
    return tuple(
        DeviceBytes(devices=tuple(devices), nbytes=nbytes)
        for nbytes, devices in sorted(groups.items(), reverse=True)
    )


def sentence(array: Array, meshes: Mapping[str, Mesh]) -> str:
    """Return the layout of an array in words, such as `8 shards of 128 × 128, 64 KB each, not replicated`.

    Raises:
      SpecError: As `pieces`.
    """
    text = _sentence(array, split(array, meshes))
    kind = array.sharding.memory_kind
    # Arrays lie in "device" memory unless somebody has asked for another.
    return text if kind in (None, "device") else f"{text}, in {kind} memory"


def _sentence(array: Array, cut: Split) -> str:
    size = bytes_text(cut.piece_bytes)
    if cut.own:
        return f"{count_text(cut.devices, 'process')}, each with its own, whole, {size} each"
    if cut.addends > 1:
        return _partial_sentence(array, cut, size)
    if cut.pieces == 1:
        if cut.devices == 1:
            return f"whole on one device, {size}"
        return f"replicated on {cut.devices} devices, {size} each"
    if not cut.even:
        return f"{cut.pieces} shards of different shapes, up to {size} each, {_replicas_text(cut)}"
    return f"{_shards_text(cut)}, {size} each, {_replicas_text(cut)}"


def _partial_sentence(array: Array, cut: Split, size: str) -> str:
    assert isinstance(array.sharding, NamedSharding)
    axes = ", ".join(map(repr, array.sharding.unreduced))
    whole = "whole" if cut.pieces == 1 else f"in {_shards_text(cut)}"
    return (
        f"{cut.addends} partial sums over {axes}, each {whole}, {size} each, {_replicas_text(cut)}"
    )


def _shards_text(cut: Split) -> str:
    return f"{count_text(cut.pieces, 'shard')} of {shape_text(cut.piece_shape)}"


def _replicas_text(cut: Split) -> str:
    if cut.copies is None:
        return "some with more replicas than others"
    return "not replicated" if cut.copies == 1 else f"{cut.copies} replicas of each"


def _split_named(array: Array, sharding: NamedSharding, mesh: Mesh) -> Split:
    factors = _factors(array, sharding, mesh)
    dimensions = list(zip(array.shape, factors, strict=True))
    addends = math.prod(_sizes(mesh)[name] for name in sharding.unreduced)
    shape = tuple(part_length(size, factor) for size, factor in dimensions)
    counts = [distinct_parts(size, factor) for size, factor in dimensions]
    count = math.prod(counts)
    alike = all(one in (1, factor) for one, factor in zip(counts, factors, strict=True))
    return Split(
        pieces=count,
        addends=addends,
        copies=len(mesh.devices) // (count * addends) if alike else None,
        devices=len(mesh.devices),
        piece_shape=shape,
        piece_bytes=piece_bytes(array, tuple((0, size) for size in shape)),
        even=all(size % factor == 0 for size, factor in dimensions),
        own=False,
    )


def _split_indexed(array: Array, sharding: Indexed) -> Split:
    shapes = {
        tuple(stop - start for start, stop in piece.slices): None for piece in sharding.pieces
    }
    largest = max(shapes, key=math.prod, default=array.shape)
    copies = {len(piece.devices) for piece in sharding.pieces}
    return Split(
        pieces=len(sharding.pieces),
        addends=1,
        copies=copies.pop() if len(copies) == 1 else None,
        devices=sum(len(piece.devices) for piece in sharding.pieces),
        piece_shape=largest,
        piece_bytes=piece_bytes(array, tuple((0, size) for size in largest)),
        even=len(shapes) == 1,
        own=False,
    )


def _named(
    array: Array, sharding: NamedSharding, meshes: Mapping[str, Mesh]
) -> Iterator[tuple[DeviceKey, Slices, int | None]]:
    """Yield each device of the mesh, row-major, with the slices and the addend that it holds."""
    mesh = _mesh(array, sharding, meshes)
    sizes = _sizes(mesh)
    factors = _factors(array, sharding, mesh)
    for key, place in zip(mesh.devices, product(*map(range, sizes.values())), strict=True):
        at = dict(zip(sizes, place, strict=True))
        slices = [
            part(size, factor, _row_major(axes, at, sizes))
            for axes, size, factor in zip(sharding.spec, array.shape, factors, strict=True)
        ]
        addend = _row_major(sharding.unreduced, at, sizes) if sharding.unreduced else None
        yield key, tuple(slices), addend


def _row_major(axes: tuple[str, ...], at: Mapping[str, int], sizes: Mapping[str, int]) -> int:
    """Return the place along several axes as one number; the first axis is the major one, as in JAX."""
    number = 0
    for axis in axes:
        number = number * sizes[axis] + at[axis]
    return number


def _sizes(mesh: Mesh) -> dict[str, int]:
    return {axis.name: axis.size for axis in mesh.axes}


def _mesh(array: Array, sharding: NamedSharding, meshes: Mapping[str, Mesh]) -> Mesh:
    mesh = meshes.get(sharding.mesh)
    if mesh is None:
        known = "; ".join(mesh_axes_text(other) for other in meshes.values()) or "none"
        raise SpecError(
            f"mesh {sharding.mesh!r} of {_named_array(array)} has not been reported. "
            f"Known meshes: {known}."
        )
    sizes = _sizes(mesh)
    for axis in (*(name for axes in sharding.spec for name in axes), *sharding.unreduced):
        if axis not in sizes:
            from difflib import get_close_matches  # engines never need it

            close = get_close_matches(axis, sizes, n=1)
            raise SpecError(
                f"axis {axis!r} is not in mesh {mesh_axes_text(mesh)}."
                + (f" Did you mean {close[0]!r}?" if close else "")
                + f" Used by {spec_text(array)} of {_named_array(array)}."
            )
    return mesh


def _factors(array: Array, sharding: NamedSharding, mesh: Mesh) -> list[int]:
    """Return the number of parts into which each dimension is cut."""
    sizes = _sizes(mesh)
    if len(sharding.spec) != len(array.shape):
        raise SpecError(
            f"{spec_text(array)} has {count_text(len(sharding.spec), 'entry')}, but "
            f"{_named_array(array)} has {count_text(len(array.shape), 'dimension')}; "
            "allowed: one entry for each dimension."
        )
    return [math.prod(sizes[axis] for axis in axes) for axes in sharding.spec]


def _named_array(array: Array) -> str:
    where = f" on {processes_text(array.processes)}" if array.processes else ""
    return f"array {array.path!r}{where}"
