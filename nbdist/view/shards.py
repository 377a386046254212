"""`%dist_shards`: one array's pieces, device by device, or the arrays of a tree."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from nbdist.contract.calls.arrays import ArraysFound
from nbdist.contract.snapshot import Array, Mesh, Snapshot
from nbdist.quantities import count_text
from nbdist.view.branches import within
from nbdist.view.reported import Reported
from nbdist.view.text import shards_text, tree_text


@dataclass(frozen=True, slots=True)
class Shards(Reported):
    """The arrays of an expression as a process described them, with the meshes they refer to.

    Attributes:
      expression: The expression with which the paths of the arrays begin.
      arrays: The arrays of a tree in its order; a value that is itself an array is the only one.
      meshes: By id.
      same: By path the path of an earlier one that is the very same array.
      left_out: How many more arrays the tree has, and how many containers were not looked into.
      snapshot: The snapshot with the devices' platforms.
      remark: A remark that must be shown with it; empty where there is none.
    """

    expression: str
    arrays: tuple[Array, ...]
    meshes: Mapping[str, Mesh]
    same: Mapping[str, str]
    left_out: tuple[int, int]
    snapshot: Snapshot
    remark: str = ""

    @classmethod
    def of(cls, found: ArraysFound, snapshot: Snapshot) -> Shards:
        """Return the arrays of a process's answer.

        :meta private:
        """
        return cls(
            found.expression,
            found.arrays,
            {mesh.id: mesh for mesh in found.meshes},
            found.same,
            (found.omitted, found.closed),
            snapshot,
        )

    @classmethod
    def _found(
        cls, path: str, snapshot: Snapshot, meshes: Mapping[str, Mesh], remark: str
    ) -> Self | None:
        """Return the array under the path, or the arrays below it."""
        arrays = tuple(array for array in snapshot.arrays if within(array.path, path))
        if not arrays:
            return None
        omitted = snapshot.arrays_omitted
        if omitted:
            remark += f"; of {count_text(omitted, 'more array')} nothing is reported"
        return cls(path, arrays, meshes, {}, (0, 0), snapshot, remark)

    def text(self, *, by_bytes: bool = False) -> str:
        """Return the text that `%dist_shards` prints.

        Args:
          by_bytes: The arrays of a tree in the order of what a device needs of them, the largest first.
        """
        return self._remarked(self._text(by_bytes=by_bytes))

    def _text(self, *, by_bytes: bool) -> str:
        if all(array.path == self.expression for array in self.arrays):
            # One, or one for each version that processes have.
            versions = (shards_text(one, self.meshes, self.snapshot) for one in self.arrays)
            return "\n".join(versions)
        return tree_text(
            self.expression,
            self.arrays,
            self.meshes,
            same=self.same,
            left_out=self.left_out,
            by_bytes=by_bytes,
        )

    def __repr__(self) -> str:
        return self.text()
