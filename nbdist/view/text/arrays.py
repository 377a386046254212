"""Arrays as text: a session's arrays as a table, one array's pieces, trees of arrays, and NaN and infinite values.

A tree of arrays is a model, an optimizer's state or a dict.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from nbdist.contract.calls.arrays import ArrayNan, NanCounts
from nbdist.contract.page import LARGE_BYTES
from nbdist.contract.snapshot import Array, Device, Mesh, Snapshot
from nbdist.notation import (
    ROWS,
    SMALLEST_WIDTH,
    WIDTH,
    array_type_text,
    bytes_text,
    columns,
    count_text,
    mesh_axes_text,
    names_text,
    not_looked_at,
    processes_text,
    shorten,
    spec_text,
)
from nbdist.pieces import Part, meshes_of, piece_bytes, pieces, sentence, split
from nbdist.view.branches import Branch, grow
from nbdist.view.grid import device_text, part_text

_DEVICES = 4
"""The most devices named for each piece; copies on more are counted."""


def arrays_text(snapshot: Snapshot, *, find: str = "", width: int = WIDTH) -> str:
    """Return one row for each array: path, type, spec, bytes that a device needs, copies.

    Args:
      snapshot: The session.
      find: A part of the paths that are shown; upper and lower case are alike.
      width: The characters in a line; longer paths are shortened in the middle.

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
    """Return how one array lies, then a row for each piece with the devices that hold it.

    Args:
      array: Any array, even one that the snapshot does not name.
      meshes: Meshes by id, among them that of the array.
      snapshot: The snapshot with the devices' platforms.

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
    """Return type, spec, bytes that a device needs, copies, and the array's processes if these are not all."""
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


MOST_ROWS = 1000
"""The most rows of a tree; the rest is counted."""

_SIGN = "!"
"""The sign of a large array that is whole on every device."""


def tree_text(
    expression: str,
    arrays: Sequence[Array],
    meshes: Mapping[str, Mesh],
    *,
    same: Mapping[str, str] | None = None,
    left_out: tuple[int, int] = (0, 0),
    by_bytes: bool = False,
) -> str:
    """Return a row for each array and each branch, with the bytes that the fullest device needs.

    Args:
      expression: The expression of the tree, with which the paths of the arrays begin.
      arrays: The leaves of the tree.
      meshes: Meshes by id, among them those of the arrays.
      same: By path, the path of an earlier array that is this very object, which is counted once.
      left_out: How many more arrays there are, and how many containers were not looked into.
      by_bytes: Whether to list the arrays alone, those first of which a device needs the most bytes.

    Raises:
      SpecError: A sharding does not fit its mesh.
    """
    same = same or {}
    tree = grow(expression, arrays, meshes, same)
    rows = [["", "array", "type", "spec", "per device", "copies", ""]]
    if by_bytes:
        once = [array for array in arrays if array.path not in same]
        leaves = sorted(once, key=lambda one: split(one, meshes).piece_bytes, reverse=True)
        rows += [_leaf(array.path, array, meshes) for array in leaves[:MOST_ROWS]]
        more = len(leaves) - MOST_ROWS
    else:
        found = list(_rows(tree, 0))
        rows += found[:MOST_ROWS]
        more = len(found) - MOST_ROWS
    signs = any(row[0] for row in rows)
    shown = rows if signs else [row[1:] for row in rows]
    right = (4, 5) if signs else (3, 4)
    lines = [_about_tree(tree, all_looked_at=left_out == (0, 0)), *columns(shown, right=right)]
    if more > 0:
        lines.append(f"… and {count_text(more, 'more row')}")
    if rest := not_looked_at(*left_out):
        lines.append(rest)
    return "\n".join([*lines, *_reasons(arrays, meshes)])


def whole_why(array: Array, meshes: Mapping[str, Mesh]) -> str | None:
    """Return why a large array is whole on each of several devices; None if it is not whole, or small."""
    cut = split(array, meshes)
    if (
        array.nbytes < LARGE_BYTES
        or cut.own
        or cut.addends > 1
        or cut.pieces > 1
        or cut.devices < 2
    ):
        return None
    if array.sharding.kind == "named":
        return f"its spec is {spec_text(array)}, which splits nothing"
    return "JAX chose that: no sharding with a mesh was given"


def _about_tree(tree: Branch, *, all_looked_at: bool) -> str:
    arrays = count_text(len(tree.leaves), "array") + ("" if all_looked_at else " looked at")
    fullest = bytes_text(tree.device_bytes)
    return f"{tree.name}  {arrays}, {bytes_text(tree.nbytes)}; a device needs up to {fullest}"


def _rows(branch: Branch, depth: int) -> Iterator[list[str]]:
    for below in branch.branches:
        name = "  " * depth + below.name
        for array in below.arrays:
            yield _leaf(name, array, below.meshes, same=below.same)
        if below.branches:
            each = len(below.leaves) // below.alike
            arrays = count_text(each, "array")
            said = f"{below.alike} alike, {arrays} each" if below.alike > 1 else arrays
            yield ["", name, said, "", bytes_text(below.device_bytes), "", ""]
            yield from _rows(below, depth + 1)


def _leaf(
    name: str, array: Array, meshes: Mapping[str, Mesh], *, same: str | None = None
) -> list[str]:
    if same:
        return ["", name, array_type_text(array.dtype, array.shape), f"is {same}", "", "", ""]
    return [_SIGN if whole_why(array, meshes) else "", name, *array_row(array, meshes)]


def _reasons(arrays: Sequence[Array], meshes: Mapping[str, Mesh]) -> list[str]:
    """Return the meaning of the sign, one line for each reason."""
    why = dict.fromkeys(whole_why(array, meshes) for array in arrays)
    return [f"{_SIGN} whole on every device of its mesh: {reason}" for reason in why if reason]


def nan_text(expression: str, answers: Mapping[int, NanCounts]) -> str:
    """Return a table of the arrays that have NaN or infinite values, each followed by the pieces that have them.

    Args:
      expression: The expression of the tree.
      answers: The counts of each process in its own pieces.
    """
    arrays: dict[str, list[tuple[int, ArrayNan]]] = {}
    for process_id, answer in sorted(answers.items()):
        for array in answer.arrays:
            arrays.setdefault(array.path, []).append((process_id, array))
    counted = max(answer.looked for answer in answers.values())
    omitted = max(answer.omitted for answer in answers.values())
    closed = max(answer.closed for answer in answers.values())
    rest = not_looked_at(omitted, closed)
    if not arrays and not counted:
        return (
            f"{expression} has no array that can be counted; {rest}"
            if rest
            else f"{expression} holds no arrays"
        )
    rows, unknown = [], []
    for path, everywhere in arrays.items():
        if any(array.pieces is None for _, array in everywhere):
            unknown.append(path)
            continue
        rows += _nan_rows(path, everywhere)
    looked = count_text(counted, "array")
    lines = (
        columns([("array", "type", "NaN", "Inf"), *rows], right=(2, 3))
        if rows
        else [f"no NaN or Inf in {looked} of {expression}"]
    )
    if unknown:
        lines.append(f"without values, and not counted: {names_text(unknown)}")
    if rest:
        lines.append(rest)
    return "\n".join(lines)


def _nan_rows(
    path: str, everywhere: Sequence[tuple[int, ArrayNan]]
) -> list[tuple[str, str, str, str]]:
    """Return a row for the array and one for each piece with NaN or infinite values; none if there are no such."""
    pieces = [
        (process_id, piece) for process_id, array in everywhere for piece in array.pieces or ()
    ]
    touched = [(p, piece) for p, piece in pieces if piece.nan or piece.inf]
    if not touched:
        return []
    first = everywhere[0][1]
    nan = sum(piece.nan for _, piece in pieces if piece.first)
    inf = sum(piece.inf for _, piece in pieces if piece.first)
    return [
        (path, array_type_text(first.dtype, first.shape), str(nan), str(inf)),
        *(
            (
                f"  process {process_id}, device {piece.device}",
                piece.index,
                str(piece.nan),
                str(piece.inf),
            )
            for process_id, piece in touched
        ),
    ]
