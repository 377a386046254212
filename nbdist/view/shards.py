"""`%dist_shards`: one array's pieces, device by device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nbdist.snapshot import Array, Mesh, Snapshot
from nbdist.view.text import shards_text
from nbdist.wire import decode


@dataclass(frozen=True, slots=True)
class Shards:
    """An array as a process described it, with the meshes it refers to."""

    array: Array
    meshes: Mapping[str, Mesh]
    snapshot: Snapshot

    @classmethod
    def decode(cls, answer: Mapping[str, Any], snapshot: Snapshot) -> Shards:
        """Reads the answer of the call `shards`.

        Raises:
          WireError: It cannot be read.
        """
        meshes = {mesh["id"]: decode(Mesh, mesh) for mesh in answer["meshes"]}
        return cls(decode(Array, answer["array"]), meshes, snapshot)

    def text(self) -> str:
        """As `%dist_shards` prints it."""
        return shards_text(self.array, self.meshes, self.snapshot)

    def __repr__(self) -> str:
        return self.text()
