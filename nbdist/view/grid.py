"""A mesh as blocks of rows and columns, each cell one device and the part of an array it holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import product

from nbdist.contract.snapshot import Array, Device, DeviceKey, Mesh, Snapshot
from nbdist.errors import ArrayError, OptionError
from nbdist.notation import bytes_text, count_text, mesh_axes_text, slices_text
from nbdist.pieces import Part, meshes_of, pieces, split
from nbdist.view.branches import within


@dataclass(frozen=True, slots=True, kw_only=True)
class GridCell:
    """One device. `part` counts the array's parts from 0; None where the device holds none of it."""

    key: DeviceKey
    device: str
    process_id: int
    part: int | None
    text: str
    lost: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class GridRow:
    """The devices along the last axis; `label` is the place on the axis before it."""

    label: str
    cells: tuple[GridCell, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One plane of the mesh; `label` is the place on all axes but the last two."""

    label: str
    rows: tuple[GridRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """The content of one picture: a mesh, and on it an array or the devices' memory.

    `mesh` is None where an array's devices lie on no known mesh; they are then rows of one block.
    `columns` labels the cells of each row; empty where a row has one cell.
    """

    mesh: Mesh | None
    array: Array | None
    parts: tuple[Part, ...]
    columns: tuple[str, ...]
    blocks: tuple[Block, ...]


def grids(snapshot: Snapshot, *, path: str | None = None, mesh: str | None = None) -> list[Grid]:
    """Return the grids to show for an array, a mesh, or neither.

    Args:
      snapshot: The session.
      path: The path of an array or a branch, see `find_arrays`; each version has a grid of its own.
      mesh: The id of a mesh. Without it the array's own, else the one in context, else the
        distribution's, else the one that most arrays lie on.

    Returns:
      Nothing where neither an array is asked for nor any mesh is known.

    Raises:
      ArrayError: No process has an array under this path.
      OptionError: No mesh has this id.
      SpecError: The array's sharding does not fit its mesh.
    """
    meshes = {known.id: known for known in snapshot.meshes}
    if mesh is not None and mesh not in meshes:
        known = ", ".join(f"{one.id} ({mesh_axes_text(one)})" for one in snapshot.meshes)
        raise OptionError(f"no mesh {mesh!r}; allowed: {known or 'none, no mesh is known yet'}.")
    if path is not None:
        return [
            _grid(snapshot, _mesh_of(array, snapshot, meshes, mesh), array)
            for array in find_arrays(snapshot, path)
        ]
    shown = meshes[mesh] if mesh is not None else usual_mesh(snapshot)
    return [] if shown is None else [_grid(snapshot, shown, None)]


def find_arrays(snapshot: Snapshot, path: str) -> tuple[Array, ...]:
    """Return all versions of the array under a path.

    For a branch, such as `model`, return the largest array below that is cut into pieces, or the largest of all
    where none is: the live view picks the same one.

    Raises:
      ArrayError: There is none; the text offers paths that look alike.
      SpecError: The sharding of an array of the branch does not fit its mesh.
    """
    below = tuple(array for array in snapshot.arrays if within(array.path, path))
    if below:
        chosen = path
        if all(array.path != path for array in below):
            meshes = meshes_of(snapshot)
            chosen = max(below, key=lambda one: (_is_cut(one, meshes), one.nbytes)).path
        return tuple(array for array in below if array.path == chosen)
    paths = tuple(dict.fromkeys(array.path for array in snapshot.arrays))
    close = " or ".join(map(repr, get_close_matches(path, paths, n=3)))
    hint = f" Did you mean {close}?" if close else ""
    count = f"{count_text(len(paths), 'array')} {'is' if len(paths) == 1 else 'are'} known."
    if snapshot.arrays_omitted:
        count += f" {snapshot.arrays_omitted} more lie too deep to be listed."
    raise ArrayError(f"no process has an array {path!r}.{hint} {count}")


def _is_cut(array: Array, meshes: Mapping[str, Mesh]) -> bool:
    cut = split(array, meshes)
    return cut.pieces * cut.addends > 1 or (cut.own and cut.devices > 1)


def usual_mesh(snapshot: Snapshot) -> Mesh | None:
    """Return the mesh in context on most processes, else the distribution's, else that of most arrays."""
    meshes = meshes_of(snapshot)
    in_context = Counter(process.context_mesh for process in snapshot.processes)
    is_set = Counter(one.mesh for one in snapshot.distributions)
    of_arrays = Counter(
        array.sharding.mesh for array in snapshot.arrays if array.sharding.kind == "named"
    )
    for counted in (in_context, is_set, of_arrays):
        for mesh, _ in counted.most_common():
            if mesh in meshes:
                return meshes[mesh]
    return next(iter(meshes.values()), None)


def device_text(key: DeviceKey, devices: Mapping[DeviceKey, Device]) -> str:
    """Return `cpu:2048`; for a device that no process has reported yet, `device:2048`."""
    known = devices.get(key)
    return f"{known.platform if known else 'device'}:{key.partition(':')[2]}"


def part_text(part: Part, *, own: bool) -> str:
    """Return the slices; for partial sums which one it is, for a process's own array that it is so."""
    text = slices_text(part.slices)
    if own:
        return f"own {text}"
    return text if part.addend is None else f"{text} addend {part.addend}"


def _mesh_of(
    array: Array, snapshot: Snapshot, meshes: Mapping[str, Mesh], asked: str | None
) -> Mesh | None:
    if asked is not None:
        return meshes[asked]
    if array.sharding.kind == "named":
        return meshes.get(array.sharding.mesh)
    usual = usual_mesh(snapshot)
    held = {key for part in pieces(array, meshes) for key in part.devices}
    return usual if usual is not None and held <= set(usual.devices) else None


def _grid(snapshot: Snapshot, mesh: Mesh | None, array: Array | None) -> Grid:
    parts = pieces(array, {one.id: one for one in snapshot.meshes}) if array else ()
    if mesh is None:
        keys = [key for part in parts for key in part.devices]
        cells = _cells(snapshot, keys, array, parts)
        rows = tuple(GridRow(label="", cells=(cells[key],)) for key in keys)
        block = Block(label="", rows=rows)
        return Grid(mesh=None, array=array, parts=parts, columns=(), blocks=(block,))
    cells = _cells(snapshot, mesh.devices, array, parts)
    return Grid(
        mesh=mesh,
        array=array,
        parts=parts,
        columns=_places(mesh, len(mesh.axes) - 1) if len(mesh.axes) > 1 else (),
        blocks=_blocks(mesh, [cells[key] for key in mesh.devices]),
    )


def _blocks(mesh: Mesh, cells: Sequence[GridCell]) -> tuple[Block, ...]:
    """Cut the row-major cells into planes and rows; a mesh of one axis has a cell a row."""
    leading = [_places(mesh, axis) for axis in range(max(len(mesh.axes) - 2, 0))]
    down = _places(mesh, max(len(mesh.axes) - 2, 0))
    across = mesh.axes[-1].size if len(mesh.axes) > 1 else 1
    blocks = []
    start = 0
    for place in product(*leading):
        rows = []
        for label in down:
            rows.append(GridRow(label=label, cells=tuple(cells[start : start + across])))
            start += across
        blocks.append(Block(label=", ".join(place), rows=tuple(rows)))
    return tuple(blocks)


def _places(mesh: Mesh, axis: int) -> tuple[str, ...]:
    if not mesh.axes:
        return ("",)
    return tuple(f"{mesh.axes[axis].name} {index}" for index in range(mesh.axes[axis].size))


def _cells(
    snapshot: Snapshot, keys: Sequence[DeviceKey], array: Array | None, parts: tuple[Part, ...]
) -> dict[DeviceKey, GridCell]:
    devices = {device.key: device for device in snapshot.devices}
    lost = {process.process_id for process in snapshot.processes if process.state == "lost"}
    own = array is not None and array.sharding.kind == "per_process"
    part_of = {key: number for number, part in enumerate(parts) for key in part.devices}
    cells = {}
    for key in keys:
        process_id = int(key.partition(":")[0])
        part = part_of.get(key)
        held = part_text(parts[part], own=own) if part is not None else ""
        cells[key] = GridCell(
            key=key,
            device=device_text(key, devices),
            process_id=process_id,
            part=part,
            text=held if array else _memory_text(devices.get(key)),
            lost=process_id in lost,
        )
    return cells


def _memory_text(device: Device | None) -> str:
    if device is None or device.live_bytes is None:
        return ""
    memory = device.memory
    if memory is None or memory.bytes_in_use is None or memory.bytes_limit is None:
        return bytes_text(device.live_bytes)
    return f"{bytes_text(memory.bytes_in_use)} of {bytes_text(memory.bytes_limit)}"


def bytes_note(grid: Grid) -> str | None:
    """Return a note on the bytes that a picture shows on its devices; None where it shows none."""
    texts = {cell.text for block in grid.blocks for row in block.rows for cell in row.cells} - {""}
    if grid.array is not None or not texts:
        return None
    what = "memory in use" if all(" of " in text for text in texts) else "bytes of live arrays"
    return f"{what} on each device, with what Python has not collected yet"
