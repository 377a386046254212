"""Arrays and their shardings as plain data of bounded size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nbdist.contract.snapshot import Array, Mesh, Snapshot
from nbdist.errors import SpecError
from nbdist.notation import array_type_text, bytes_text, columns, count_text, spec_text
from nbdist.pieces import fullest_bytes, meshes_of, pieces, sentence
from nbdist.tools.answers import MOST_DETAILS, bounded
from nbdist.view.shards import Shards

MOST_PIECES = 64
"""The most pieces of one array that are listed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayFacts:
    """One array of the processes' variables.

    Attributes:
      path: The expression that reaches it.
      dtype: Its type, such as `float32`.
      shape: Its global shape.
      sharding: Its spec, such as `P('data', None)`, or another kind of sharding in words.
      mesh: The size of each axis of its mesh; empty if it has none.
      layout: Its pieces in words.
      bytes: Bytes of the whole array.
      bytes_per_device: Bytes on its fullest device.
      processes: The processes that have it so; empty if all have.
    """

    path: str
    dtype: str
    shape: tuple[int, ...]
    sharding: str
    mesh: dict[str, int]
    layout: str
    bytes: int
    bytes_per_device: int
    processes: tuple[int, ...]


def array_facts(array: Array, snapshot: Snapshot | Shards) -> ArrayFacts:
    """Return what is known of an array of a snapshot, or of the answer about shards."""
    meshes = snapshot.meshes if isinstance(snapshot, Shards) else meshes_of(snapshot)
    mesh = meshes.get(array.sharding.mesh) if array.sharding.kind == "named" else None
    return ArrayFacts(
        path=array.path,
        dtype=array.dtype,
        shape=array.shape,
        sharding=spec_text(array),
        mesh={axis.name: axis.size for axis in mesh.axes} if mesh else {},
        layout=_layout(array, meshes),
        bytes=array.nbytes,
        bytes_per_device=fullest_bytes(array, meshes),
        processes=array.processes,
    )


def _layout(array: Array, meshes: Mapping[str, Mesh]) -> str:
    """Return the pieces in words; if the mesh is not known or does not fit, why there are none."""
    try:
        return sentence(array, meshes)
    except SpecError as error:
        return str(error)


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrays:
    """The arrays of a session, the largest first.

    Attributes:
      arrays: The arrays that are listed.
      left_out: How many more there are of those that were asked for.
      unreported: How many arrays the processes have beyond those that they report.
    """

    arrays: tuple[ArrayFacts, ...]
    left_out: int
    unreported: int

    def text(self) -> str:
        """Return a row for each array."""
        rows = [
            (
                one.path,
                array_type_text(one.dtype, one.shape),
                one.sharding,
                bytes_text(one.bytes),
                bytes_text(one.bytes_per_device),
            )
            for one in self.arrays
        ]
        heads = ("array", "type", "sharding", "bytes", "per device")
        lines = columns([heads, *rows], right=(3, 4)) if rows else ["no arrays"]
        more = self.left_out + self.unreported
        return "\n".join([*lines, *([f"… and {count_text(more, 'more array')}"] if more else [])])


def arrays_of(snapshot: Snapshot, *, find: str, most: int) -> Arrays:
    """Return the arrays of a snapshot whose paths contain a text."""
    found = sorted(
        (one for one in snapshot.arrays if find in one.path), key=lambda one: -one.nbytes
    )
    return Arrays(
        arrays=tuple(array_facts(one, snapshot) for one in found[:most]),
        left_out=len(found[most:]),
        unreported=snapshot.arrays_omitted,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PieceFacts:
    """One piece of an array: half-open slices, and the devices that hold it, as `process:device`."""

    slices: tuple[tuple[int, int], ...]
    devices: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardedArray:
    """One array and where its pieces lie; `pieces_left_out` are not listed."""

    array: ArrayFacts
    pieces: tuple[PieceFacts, ...]
    pieces_left_out: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharding:
    """Where the pieces of one array lie, or of the arrays below a name.

    Attributes:
      path: What was asked for.
      remark: How old the answer is, while the processes are busy; else empty.
      arrays: The arrays; pieces are listed of one array alone.
      left_out: How many more arrays there are.
      text: The same in words.
    """

    path: str
    remark: str
    arrays: tuple[ShardedArray, ...]
    left_out: int
    text: str


def sharding_of(found: Shards, *, most: int) -> Sharding:
    """Return the answer about shards as data."""
    alone = all(one.path == found.expression for one in found.arrays)
    text, _ = bounded(found.text(), MOST_DETAILS)
    return Sharding(
        path=found.expression,
        remark=found.remark,
        arrays=tuple(_sharded(one, found, listed=alone) for one in found.arrays[:most]),
        left_out=len(found.arrays[most:]) + found.left_out[0],
        text=text,
    )


def _sharded(array: Array, found: Shards, *, listed: bool) -> ShardedArray:
    parts = pieces(array, found.meshes) if listed else ()
    return ShardedArray(
        array=array_facts(array, found),
        pieces=tuple(
            PieceFacts(slices=part.slices, devices=part.devices) for part in parts[:MOST_PIECES]
        ),
        pieces_left_out=len(parts[MOST_PIECES:]),
    )
