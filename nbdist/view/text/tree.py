"""A tree of arrays as text: a model, an optimizer's state, a dict."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from nbdist.contract.limits import LARGE_BYTES
from nbdist.contract.snapshot import Array, Mesh
from nbdist.notation import spec_text
from nbdist.pieces import split
from nbdist.quantities import array_type_text, bytes_text, count_text, not_looked_at
from nbdist.view.branches import Branch, grow
from nbdist.view.text.arrays import array_row
from nbdist.view.text.table import columns

MOST_ROWS = 1000

_SIGN = "!"


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
      expression: What the tree was reached by; the paths of the arrays begin with it.
      arrays: Its leaves.
      meshes: By id; the arrays' must be among them.
      same: By path the path of an earlier one that is the very same array; it is counted once.
      left_out: How many more arrays there are, and how many containers were not looked into.
      by_bytes: The arrays alone, those first of which a device needs the most.

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
    lines = [_about(tree, all_looked_at=left_out == (0, 0)), *columns(shown, right=right)]
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


def _about(tree: Branch, *, all_looked_at: bool) -> str:
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
