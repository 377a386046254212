"""Arrays as the tree that their paths make, each branch with its bytes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from nbdist.contract.page import DEEPEST
from nbdist.contract.snapshot import Array, DeviceKey, Mesh
from nbdist.pieces import piece_bytes, split

_STEP = re.compile(r"""\.[^.\[]+|\[(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^\]'"])*\]|[^.\[]+""")
_NUMBER = re.compile(r"\[(\d+)\]")


@dataclass(eq=False)
class Branch:
    """A part of the tree.

    Attributes:
      name: The text behind the path of the branch above.
      path: The whole expression.
      arrays: The arrays under exactly this path: one, or one for each version that processes have.
      same: The path of an earlier array that is this very one, which is counted there.
      branches: The branches below.
      alike: How many there are like this one, itself included; the others are left out.
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
        """Equal for branches of which one can stand for the other."""
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

    A branch with only one branch below is merged with it. Of neighbours in a list that are alike, such as the
    layers of a transformer, only the first is shown.
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
