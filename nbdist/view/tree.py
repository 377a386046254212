"""Arrays as a tree built from their paths, with the bytes of each branch, and the tree as text.

A tree is a model, an optimizer's state or a dict.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from nbdist.contract.page import DEEPEST, LARGE_BYTES
from nbdist.contract.snapshot import Array, DeviceKey, Mesh
from nbdist.notation import (
    array_type_text,
    bytes_text,
    columns,
    count_text,
    not_looked_at,
    processes_text,
    spec_text,
)
from nbdist.pieces import Split, piece_bytes, split

_STEP = re.compile(r"""\.[^.\[]+|\[(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^\]'"])*\]|[^.\[]+""")
_NUMBER = re.compile(r"\[(\d+)\]")


@dataclass(eq=False)
class Branch:
    """A part of the tree.

    Attributes:
      name: The part of the path after the parent branch's path.
      path: The whole expression.
      arrays: The arrays under exactly this path: one, or one for each version that processes have.
      same: The path of an earlier entry that is the same array, and is counted there.
      branches: The branches below.
      alike: The number of similar branches, including this one; the others are left out.
    """

    name: str
    path: str
    meshes: Mapping[str, Mesh]
    arrays: list[Array] = field(default_factory=list)
    branches: list[Branch] = field(default_factory=list)
    same: str | None = None
    alike: int = 1

    @cached_property
    def leaves(self) -> list[Array]:
        """All arrays here and below, each once."""
        below = [array for branch in self.branches for array in branch.leaves]
        return [*(() if self.same else self.arrays), *below] * self.alike

    @cached_property
    def nbytes(self) -> int:
        """Bytes of one whole copy of each array."""
        return sum(array.nbytes for array in self.leaves)

    @cached_property
    def device_bytes(self) -> int:
        """Bytes that the fullest device needs."""
        groups: Counter[tuple[DeviceKey, ...]] = Counter()
        for array in self.leaves:
            for keys, nbytes in _held(array, self.meshes):
                groups[keys] += nbytes
        if len(groups) == 1:
            return next(iter(groups.values()))
        devices: Counter[DeviceKey] = Counter()
        for keys, nbytes in groups.items():
            for key in keys:
                devices[key] += nbytes
        return max(devices.values(), default=0)

    @cached_property
    def look(self) -> tuple[object, ...]:
        """Value that is equal for branches of which one can represent the other."""
        arrays = ((a.shape, a.dtype, a.nbytes, a.sharding, a.processes) for a in self.arrays)
        return (
            self.same,
            *arrays,
            *((branch.name, branch.alike, branch.look) for branch in self.branches),
        )


def grow(
    root: str, arrays: Iterable[Array], meshes: Mapping[str, Mesh], same: Mapping[str, str]
) -> Branch:
    """Return the tree of arrays whose paths begin with `root`.

    A branch with only one branch below is merged with it. Of similar neighbours in a list, such as the layers of a
    transformer, only the first is shown.
    """
    top = Branch(root, root, meshes)
    known: dict[str, Branch] = {root: top}
    for array in arrays:
        branch = top
        found = steps(array.path.removeprefix(root))
        for step in [*found[:DEEPEST], *filter(None, ["".join(found[DEEPEST:])])]:
            path = branch.path + step
            if path not in known:
                known[path] = Branch(step, path, meshes)
                branch.branches.append(known[path])
            branch = known[path]
        branch.arrays.append(array)
        branch.same = same.get(array.path)
    _fold(top)
    return top


def steps(path: str) -> list[str]:
    """Return the steps of a path: `model.blocks[0]` → `model`, `.blocks`, `[0]`."""
    return _STEP.findall(path)


def within(path: str, root: str) -> bool:
    """Return whether a path is `root`, or leads on from it."""
    return path == root or (path.startswith(root) and path[len(root)] in ".[")


def _fold(branch: Branch) -> None:
    for below in branch.branches:
        _fold(below)
    branch.branches = _alike([_joined(below) for below in branch.branches])


def _joined(branch: Branch) -> Branch:
    """Return the branch and the only one below it as one."""
    if branch.arrays or len(branch.branches) != 1 or branch.branches[0].alike > 1:
        return branch
    below = branch.branches[0]
    return replace(below, name=branch.name + below.name)


def _alike(branches: list[Branch]) -> list[Branch]:
    """Return the branches; of similar neighbours `[3]`, `[4]`, … only the first."""
    found: list[Branch] = []
    first = last = -1
    for branch in branches:
        written = _NUMBER.fullmatch(branch.name)
        number = int(written[1]) if written else -1
        if last >= 0 and number == last + 1 and branch.branches and found[-1].look == branch.look:
            last = number
            found[-1].alike += 1
            found[-1].name = f"[{first}–{last}]"
            continue
        first = last = number
        found.append(branch)
    return found


def _held(array: Array, meshes: Mapping[str, Mesh]) -> list[tuple[tuple[DeviceKey, ...], int]]:
    """Return the bytes that groups of devices need of an array."""
    sharding = array.sharding
    if sharding.kind == "named":
        return [(meshes[sharding.mesh].devices, split(array, meshes).piece_bytes)]
    if sharding.kind == "indexed":
        return [(piece.devices, piece_bytes(array, piece.slices)) for piece in sharding.pieces]
    devices = sharding.devices if sharding.kind == "per_process" else (sharding.device,)
    return [(devices, array.nbytes)]


MOST_ROWS = 1000
"""The most rows of a tree; the rest is counted."""


def tree_text(
    expression: str,
    arrays: Sequence[Array],
    meshes: Mapping[str, Mesh],
    *,
    same: Mapping[str, str] | None = None,
    left_out: tuple[int, int] = (0, 0),
    by_bytes: bool = False,
) -> str:
    """Return a row for each array and each branch, with the bytes on the fullest device.

    Args:
      expression: The expression of the tree, with which the paths of the arrays begin.
      arrays: The leaves of the tree.
      meshes: Meshes by id, among them those of the arrays.
      same: For the path of an array listed twice, the path of the earlier entry; the array is counted once.
      left_out: How many more arrays there are, and how many containers were not looked into.
      by_bytes: Whether to list only the arrays, sorted by the bytes that a device needs, largest first.

    Raises:
      SpecError: A sharding does not fit its mesh.
    """
    same = same or {}
    tree = grow(expression, arrays, meshes, same)
    rows = [["array", "type", "spec", "per device", "replicas", ""]]
    if by_bytes:
        once = [array for array in arrays if array.path not in same]
        leaves = sorted(once, key=lambda one: split(one, meshes).piece_bytes, reverse=True)
        rows += [_leaf(array.path, array, meshes) for array in leaves[:MOST_ROWS]]
        more = len(leaves) - MOST_ROWS
    else:
        found = list(_rows(tree, 0))
        rows += found[:MOST_ROWS]
        more = len(found) - MOST_ROWS
    lines = [_about_tree(tree, all_looked_at=left_out == (0, 0)), *columns(rows, right=(3, 4))]
    if more > 0:
        lines.append(f"… and {count_text(more, 'more row')}")
    if rest := not_looked_at(*left_out):
        lines.append(rest)
    return "\n".join([*lines, *_reasons(arrays, meshes)])


def array_row(array: Array, meshes: Mapping[str, Mesh]) -> list[str]:
    """Return type, spec, bytes per device, replicas, and remarks.

    The remarks name the processes if not all have the array, and say of a large array that it is replicated.
    """
    cut = split(array, meshes)
    remarks = [f"({processes_text(array.processes)})"] if array.processes else []
    if whole_why(array, meshes):
        remarks.append(f"replicated ({bytes_text(array.nbytes)})")
    return [
        array_type_text(array.dtype, array.shape),
        spec_text(array),
        bytes_text(cut.piece_bytes),
        replicas_text(cut),
        "  ".join(remarks),
    ]


def replicas_text(cut: Split) -> str:
    """Return how many devices hold each shard: `—` for one alone, `2×`, `own` where each process has its own.

    Partial sums, which are no replicas, are counted as `Σ4`; `varies` says that shards differ in their replicas.
    """
    if cut.own:
        return "own"
    if cut.copies is None:
        return "varies"
    sums = [f"Σ{cut.addends}"] if cut.addends > 1 else []
    replicas = [f"{cut.copies}×"] if cut.copies > 1 else []
    return " ".join([*sums, *replicas]) or "—"


def whole_why(array: Array, meshes: Mapping[str, Mesh]) -> str | None:
    """Return why a large array is replicated on several devices; None if it is not, or is small."""
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
    return f"{tree.name}  {arrays}, {bytes_text(tree.nbytes)}; up to {fullest} per device"


def _rows(branch: Branch, depth: int) -> Iterator[list[str]]:
    for below in branch.branches:
        name = "  " * depth + below.name
        for array in below.arrays:
            yield _leaf(name, array, below.meshes, same=below.same)
        if below.branches:
            each = len(below.leaves) // below.alike
            arrays = count_text(each, "array")
            said = f"×{below.alike} identical, {arrays} each" if below.alike > 1 else arrays
            yield [name, said, "", bytes_text(below.device_bytes), "", ""]
            yield from _rows(below, depth + 1)


def _leaf(
    name: str, array: Array, meshes: Mapping[str, Mesh], *, same: str | None = None
) -> list[str]:
    if same:
        return [name, array_type_text(array.dtype, array.shape), f"is {same}", "", "", ""]
    return [name, *array_row(array, meshes)]


def _reasons(arrays: Sequence[Array], meshes: Mapping[str, Mesh]) -> list[str]:
    """Return why large arrays are replicated on every device, one line for each reason."""
    why = dict.fromkeys(whole_why(array, meshes) for array in arrays)
    return [f"replicated: {reason}" for reason in why if reason]
