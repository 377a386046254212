"""`%dist_layout`: one model's variables, each with the rule that placed it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nbdist.snapshot import Distribution, Mesh, Model, Snapshot
from nbdist.view.text import layout_text
from nbdist.wire import decode


@dataclass(frozen=True, slots=True)
class Layout:
    """A model as a process described it, with the distributions set there and the meshes of both."""

    model: Model
    distributions: tuple[Distribution, ...]
    meshes: Mapping[str, Mesh]
    snapshot: Snapshot

    @classmethod
    def decode(cls, answer: Mapping[str, Any], snapshot: Snapshot) -> Layout:
        """Reads the answer of the call `layout`.

        Raises:
          WireError: It cannot be read.
        """
        meshes = {mesh["id"]: decode(Mesh, mesh) for mesh in answer["meshes"]}
        distributions = tuple(decode(Distribution, one) for one in answer["distributions"])
        return cls(decode(Model, answer["model"]), distributions, meshes, snapshot)

    def text(self) -> str:
        """As `%dist_layout` prints it."""
        return layout_text(self.model, self.distributions, self.meshes)

    def __repr__(self) -> str:
        return self.text()
