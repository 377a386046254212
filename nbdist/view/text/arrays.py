"""The arrays of a session as a table, and one array's pieces."""

from __future__ import annotations

from collections.abc import Mapping

from nbdist.contract.snapshot import Array, Device, Mesh, Snapshot
from nbdist.notation import mesh_axes_text, spec_text
from nbdist.pieces import Part, meshes_of, piece_bytes, pieces, sentence, split
from nbdist.quantities import array_type_text, bytes_text, count_text, processes_text
from nbdist.shorten import SMALLEST_WIDTH, shorten
from nbdist.view.grid import device_text, part_text
from nbdist.view.text.table import ROWS, WIDTH, columns

_DEVICES = 4
"""Devices named for each piece; copies on more are counted."""


def arrays_text(snapshot: Snapshot, *, find: str = "", width: int = WIDTH) -> str:
    """One row an array: path, type, spec, bytes a device needs, copies.

    Args:
      snapshot: The session.
      find: Only paths that contain this, upper and lower case alike.
      width: Characters a line; longer paths are shortened in the middle.

    Raises:
      SpecError: A sharding does not fit its mesh.
    """
    meshes = meshes_of(snapshot)
    found = [array for array in snapshot.arrays if find.lower() in array.path.lower()]
    if not found:
        return f"no array with {find!r} in its path" if find else "no arrays yet"
    shown = found[:ROWS]
    rest = [["type", "spec", "per device", "copies", ""]]
    rest += [array_row(array, meshes) for array in shown]
    facts = columns(rest, right=(2, 3))
    room = max(width - max(map(len, facts)) - 2, SMALLEST_WIDTH)
    paths = shorten([array.path for array in shown], room)
    lines = columns([[path, fact] for path, fact in zip(["array", *paths], facts, strict=True)])
    left_out = len(found) - len(shown) + (0 if find else snapshot.arrays_omitted)
    return "\n".join([*lines, f"… and {count_text(left_out, 'more array')}"] if left_out else lines)


def shards_text(array: Array, meshes: Mapping[str, Mesh], snapshot: Snapshot) -> str:
    """One array: how it lies, then a row for each piece with the devices that hold it.

    Args:
      array: Any array, also one that the snapshot does not name.
      meshes: By id; the array's must be among them.
      snapshot: Where the devices' platforms are known from.

    Raises:
      SpecError: The array's sharding does not fit its mesh.
    """
    devices = {device.key: device for device in snapshot.devices}
    parts = pieces(array, meshes)
    rows = [_part_row(array, part, devices) for part in parts[:ROWS]]
    lines = [
        "  ".join(_about(array, meshes)),
        sentence(array, meshes),
        *columns(rows, right=(1,)),
    ]
    if len(parts) > ROWS:
        lines.append(f"… and {len(parts) - ROWS} more pieces")
    return "\n".join(lines)


def _about(array: Array, meshes: Mapping[str, Mesh]) -> list[str]:
    spec = spec_text(array)
    if array.sharding.kind == "named":
        spec += f" on mesh {mesh_axes_text(meshes[array.sharding.mesh])}"
    by = [f"({processes_text(array.processes)})"] if array.processes else []
    return [array.path, array_type_text(array.dtype, array.shape), spec, *by]


def array_row(array: Array, meshes: Mapping[str, Mesh]) -> list[str]:
    """Type, spec, bytes a device needs, copies, and on which processes it is where not on all."""
    cut = split(array, meshes)
    # Partial sums are no copies, and neither is what each process has for itself.
    copies = "own" if cut.own else f"×{cut.copies}" if cut.copies != 1 else "1"
    if cut.addends > 1:
        copies = f"{cut.addends} addends" + (f" {copies}" if cut.copies != 1 else "")
    by = f"({processes_text(array.processes)})" if array.processes else ""
    return [
        array_type_text(array.dtype, array.shape),
        spec_text(array),
        bytes_text(cut.piece_bytes),
        "various" if cut.copies is None else copies,
        by,
    ]


def _part_row(array: Array, part: Part, devices: Mapping[str, Device]) -> list[str]:
    named = [
        f"{device_text(key, devices)} p{key.partition(':')[0]}" for key in part.devices[:_DEVICES]
    ]
    more = len(part.devices) - len(named)
    held = ", ".join(named) + (f" and {more} more" if more else "")
    own = array.sharding.kind == "per_process"
    return [part_text(part, own=own), bytes_text(piece_bytes(array, part.slices)), held]
