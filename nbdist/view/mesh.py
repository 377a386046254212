"""A mesh as rows and columns of devices, each with its part of an array: as data, and as text."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import product

from nbdist.contract.snapshot import Array, Device, DeviceKey, Mesh, Snapshot
from nbdist.errors import ArrayError
from nbdist.notation import (
    ROWS,
    WIDTH,
    array_type_text,
    bytes_text,
    columns,
    count_text,
    cut,
    mesh_axes_text,
    processes_text,
    slices_text,
    spec_text,
)
from nbdist.pieces import Part, meshes_of, pieces, sentence, split
from nbdist.view.status import DeviceNames, framework_lines
from nbdist.view.tree import within


@dataclass(frozen=True, slots=True, kw_only=True)
class GridCell:
    """One device by its short name. `part` counts the array's parts from 0; None if the device holds none."""

    key: DeviceKey
    device: str
    part: int | None
    text: str
    lost: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class GridRow:
    """The devices along the last axis; `label` is the place on the axis before the last."""

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

    `mesh` is None if an array's devices lie on no known mesh; they are then rows of one block.
    `columns` labels the cells of each row; empty if a row has one cell.
    """

    mesh: Mesh | None
    array: Array | None
    parts: tuple[Part, ...]
    columns: tuple[str, ...]
    blocks: tuple[Block, ...]


def grids(snapshot: Snapshot, *, path: str | None = None) -> list[Grid]:
    """Return the grids to show for an array, or for the mesh that is shown without one.

    Args:
      snapshot: The session.
      path: The path of an array or a branch, see `find_arrays`; each version has a grid of its own.

    Returns:
      A grid for each array on its own mesh, if it has one, else on the usual mesh; no grid if no path is given and
      no mesh is known.

    Raises:
      ArrayError: No process has an array under this path.
      SpecError: The array's sharding does not fit its mesh.
    """
    if path is not None:
        return [
            _grid(snapshot, _mesh_of(array, snapshot), array)
            for array in find_arrays(snapshot, path)
        ]
    shown = usual_mesh(snapshot)
    return [] if shown is None else [_grid(snapshot, shown, None)]


def find_arrays(snapshot: Snapshot, path: str) -> tuple[Array, ...]:
    """Return all versions of the array under a path.

    For a branch, such as `model`, return the largest array below it that is cut into shards, or if none is cut,
    the largest of all; the live view picks the same array.

    Raises:
      ArrayError: There is no such array; the message offers similar paths.
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
    """Return the mesh in context on most processes, else the distribution's, else the most used by arrays."""
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


def array_texts(array: Array, *, on: Mesh | None = None) -> list[str]:
    """Return path, type, spec, the mesh if it must be named, and the processes if not all have the array."""
    spec = spec_text(array) + (f" on mesh {mesh_axes_text(on)}" if on is not None else "")
    by = [f"({processes_text(array.processes)})"] if array.processes else []
    return [array.path, array_type_text(array.dtype, array.shape), spec, *by]


def part_text(part: Part, *, own: bool) -> str:
    """Return the slices; for a partial sum also its number, for a process's own array a remark."""
    text = slices_text(part.slices)
    if own:
        return f"own {text}"
    return text if part.addend is None else f"{text} partial sum {part.addend + 1}"


def _mesh_of(array: Array, snapshot: Snapshot) -> Mesh | None:
    meshes = meshes_of(snapshot)
    if array.sharding.kind == "named":
        return meshes.get(array.sharding.mesh)
    usual = usual_mesh(snapshot)
    held = {key for part in pieces(array, meshes) for key in part.devices}
    return usual if usual is not None and held <= set(usual.devices) else None


def _grid(snapshot: Snapshot, mesh: Mesh | None, array: Array | None) -> Grid:
    parts = pieces(array, meshes_of(snapshot)) if array else ()
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
    """Cut the row-major cells into planes and rows; with one axis, each row has one cell."""
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
    names = DeviceNames(devices)
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
            device=names.short(key),
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
    """Return a note on the bytes that a picture shows on its devices; None if it shows none."""
    texts = {cell.text for block in grid.blocks for row in block.rows for cell in row.cells} - {""}
    if grid.array is not None or not texts:
        return None
    if all(" of " in text for text in texts):
        return "memory in use on each device"
    return "memory of each device (includes arrays awaiting garbage collection)"


GAP = 6
"""Spaces between two devices of a row."""


def mesh_text(snapshot: Snapshot, *, path: str | None = None, width: int = WIDTH) -> str:
    """Return the mesh as rows of devices; with `path`, what each holds of that array.

    Without `path`, lines on the distributions and models follow.

    Args:
      snapshot: The session.
      path: The path of an array, as in `Array.path`.
      width: Characters of a line. A mesh that does not fit is listed with one device a line; after 40 lines the
        rest is only counted.

    Raises:
      ArrayError: No process has an array under this path.
      SpecError: The array's sharding does not fit its mesh.
    """
    shown = grids(snapshot, path=path)
    parts = [_grid_lines(snapshot, grid, width) for grid in shown]
    if not shown:
        parts.append(_devices_by_process(snapshot, width))
    if path is None and (lines := framework_lines(snapshot, width=width)):
        parts.append(lines)
    return "\n\n".join(map("\n".join, parts))


def _devices_by_process(snapshot: Snapshot, width: int) -> list[str]:
    """Return a line on the devices of each process; used before any mesh exists."""
    if not snapshot.devices:
        return ["no devices known yet"]
    names = DeviceNames(device.key for device in snapshot.devices)
    rows: dict[tuple[int, str], list[DeviceKey]] = {}
    for device in snapshot.devices:
        rows.setdefault((device.process_id, device.platform), []).append(device.key)
    lines = columns(
        [
            [
                f"process {process_id}",
                f"{platform} device{'s' if len(keys) > 1 else ''} {names.numbers(keys)}",
            ]
            for (process_id, platform), keys in sorted(rows.items())
        ]
    )
    left_out = len(lines) - ROWS
    more = [f"… and {count_text(left_out, 'more process')}"] if left_out > 0 else []
    shown = [cut(line, width) for line in lines[:ROWS]]
    return ["no mesh yet; devices by process", *shown, *more]


def _grid_lines(snapshot: Snapshot, grid: Grid, width: int) -> list[str]:
    lines = _heading(snapshot, grid, width)
    table = _table(grid)
    if any(len(line) > width for _, line in table):
        table = _device_list(grid)
    shown = table[:ROWS]
    lines += [line for _, line in shown]
    left_out = sum(count for count, _ in table[ROWS:])
    return [*lines, f"… and {left_out} more devices"] if left_out else lines


def _heading(snapshot: Snapshot, grid: Grid, width: int) -> list[str]:
    mesh = f"mesh {mesh_axes_text(grid.mesh)}{_types_text(grid.mesh)}" if grid.mesh else ""
    if grid.array is None:
        note = bytes_note(grid)
        return [mesh] if note is None else [mesh, *textwrap.wrap(note, width)]
    meshes = meshes_of(snapshot)
    about = [*array_texts(grid.array), sentence(grid.array, meshes)]
    one_line = "  ".join(about)
    if mesh and len(mesh) + 10 + len(one_line) <= width:
        return [f"{mesh}          {one_line}"]
    lines = [one_line] if len(one_line) <= width else ["  ".join(about[:-1]), about[-1]]
    wrapped = [
        part for line in lines for part in textwrap.wrap(line, width, break_on_hyphens=False)
    ]
    return [mesh, *wrapped] if mesh else wrapped


def _types_text(mesh: Mesh) -> str:
    """Return the axis types where they are not JAX's plain `auto`."""
    types = {axis.type for axis in mesh.axes}
    if types <= {"auto"}:
        return ""
    if len(types) == 1:
        return f" ({types.pop()})"
    return f" ({', '.join(f'{axis.name} {axis.type}' for axis in mesh.axes)})"


def _table(grid: Grid) -> list[tuple[int, str]]:
    """Return a line for each row of the mesh, with the number of devices in it, and lines of labels."""
    fields = _aligned([cell for block in grid.blocks for row in block.rows for cell in row.cells])
    rows = _rows(grid.blocks)
    room = max(len(row.label) for _, row in rows) + 3 if grid.mesh else 0
    head = [list(grid.columns)] if grid.columns else []
    bodies = columns(
        [*head, *([fields[cell.key] for cell in row.cells] for _, row in rows)], gap=GAP
    )
    lines = [(0, " " * room + body) for body in bodies[: len(head)]]
    above = ""
    for (block, row), body in zip(rows, bodies[len(head) :], strict=True):
        if block.label != above:
            above = block.label
            lines.append((0, above))
        lines.append((len(row.cells), f"{row.label:{room}}{body}"))
    return lines


def _device_list(grid: Grid) -> list[tuple[int, str]]:
    """Return a line for each device, with its whole place on the mesh."""
    places = [
        (", ".join(filter(None, (block.label, row.label, column))), cell)
        for block, row in _rows(grid.blocks)
        for column, cell in zip(grid.columns or ("",), row.cells, strict=True)
    ]
    # Only printed lines need to be aligned.
    fields = _aligned([cell for _, cell in places[:ROWS]])
    lines = columns([[place, fields[cell.key]] for place, cell in places[:ROWS]], gap=3)
    return [(1, line.lstrip()) for line in lines] + [(1, "")] * (len(places) - len(lines))


def _rows(blocks: Sequence[Block]) -> list[tuple[Block, GridRow]]:
    return [(block, row) for block in blocks for row in block.rows]


def _aligned(cells: Sequence[GridCell]) -> dict[str, str]:
    """Return each cell's text by device key: device and part."""
    lines = columns([(cell.device, "lost" if cell.lost else cell.text) for cell in cells])
    return {cell.key: line for cell, line in zip(cells, lines, strict=True)}
