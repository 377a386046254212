"""`%dist_layout`: one model's variables, each with the rule that placed it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from nbdist.contract.calls.arrays import ModelFound
from nbdist.contract.snapshot import Distribution, Mesh, Model, Snapshot
from nbdist.quantities import processes_text
from nbdist.view.reported import Reported
from nbdist.view.text import layout_text


@dataclass(frozen=True, slots=True)
class Layout(Reported):
    """A model as a process described it, with the distributions set there and the meshes of both.

    `remark` is a remark that must be shown with it; empty where there is none.
    """

    model: Model
    distributions: tuple[Distribution, ...]
    meshes: Mapping[str, Mesh]
    snapshot: Snapshot
    remark: str = ""

    @classmethod
    def of(cls, found: ModelFound, snapshot: Snapshot) -> Layout:
        """Return the layout from a process's answer.

        :meta private:
        """
        meshes = {mesh.id: mesh for mesh in found.meshes}
        return cls(found.model, found.distributions, meshes, snapshot)

    @classmethod
    def _found(
        cls, path: str, snapshot: Snapshot, meshes: Mapping[str, Mesh], remark: str
    ) -> Self | None:
        """Return the layout of a model; that of the first processes, where it differs."""
        models = [model for model in snapshot.models if model.path == path]
        if not models:
            return None
        if len(models) > 1:
            remark += f"; this is that of {processes_text(models[0].processes)}, others differ"
        return cls(models[0], snapshot.distributions, meshes, snapshot, remark)

    def text(self) -> str:
        """Return the text that `%dist_layout` prints."""
        return self._remarked(layout_text(self.model, self.distributions, self.meshes))

    def __repr__(self) -> str:
        return self.text()
