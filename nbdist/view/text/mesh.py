"""A mesh in characters, and on it the part of an array that each device holds."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from nbdist.contract.snapshot import Array, Mesh, Snapshot
from nbdist.notation import (
    ROWS,
    WIDTH,
    array_type_text,
    columns,
    count_text,
    cut,
    mesh_axes_text,
    processes_text,
    spec_text,
)
from nbdist.pieces import sentence
from nbdist.view.grid import Block, Grid, GridCell, GridRow, bytes_note, grids
from nbdist.view.text.status import framework_lines

GAP = 6
"""Spaces between two devices of a row."""


def mesh_text(
    snapshot: Snapshot, *, path: str | None = None, mesh: str | None = None, width: int = WIDTH
) -> str:
    """Return the mesh as rows of devices; with `path`, what each holds of that array.

    Without `path`, lines on the distributions and models follow.

    Args:
      snapshot: The session.
      path: The path of an array, as in `Array.path`.
      mesh: The id of a mesh; see `nbdist.view.grid.grids` for which is shown without.
      width: Characters a line. Meshes that do not fit are listed one device a line; of more than
        40 lines the rest is counted.

    Raises:
      ArrayError: No process has an array under this path.
      OptionError: No mesh has this id.
      SpecError: The array's sharding does not fit its mesh.
    """
    shown = grids(snapshot, path=path, mesh=mesh)
    parts = [_grid_lines(snapshot, grid, width) for grid in shown]
    if not shown:
        parts.append(_devices_by_process(snapshot, width))
    if path is None and (lines := framework_lines(snapshot, width=width)):
        parts.append(lines)
    return "\n\n".join(map("\n".join, parts))


def _devices_by_process(snapshot: Snapshot, width: int) -> list[str]:
    """Return a row of devices for each process, for the time before any mesh."""
    if not snapshot.devices:
        return ["no devices known yet"]
    rows: dict[int, list[str]] = {}
    for device in snapshot.devices:
        rows.setdefault(device.process_id, []).append(f"{device.platform}:{device.id}")
    label = max(len(f"process {p}") for p in rows)
    lines = [f"{f'process {p}':{label}}  {'  '.join(names)}" for p, names in sorted(rows.items())]
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
    meshes = {known.id: known for known in snapshot.meshes}
    about = [*_array_text(grid.array), sentence(grid.array, meshes)]
    one_line = "  ".join(about)
    if mesh and len(mesh) + 10 + len(one_line) <= width:
        return [f"{mesh}          {one_line}"]
    lines = [one_line] if len(one_line) <= width else ["  ".join(about[:-1]), about[-1]]
    wrapped = [
        part for line in lines for part in textwrap.wrap(line, width, break_on_hyphens=False)
    ]
    return [mesh, *wrapped] if mesh else wrapped


def _array_text(array: Array) -> list[str]:
    by = [f"({processes_text(array.processes)})"] if array.processes else []
    return [array.path, array_type_text(array.dtype, array.shape), spec_text(array), *by]


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
    """Return each cell's text by device key: device, process, part."""
    lines = columns(
        [(cell.device, f"p{cell.process_id}", "lost" if cell.lost else cell.text) for cell in cells]
    )
    return {cell.key: line for cell, line in zip(cells, lines, strict=True)}
