"""What an agreement asks of a framework: what of its arrays and settings must be equal on all processes."""

from __future__ import annotations

from typing import Any

from nbdist.contract.snapshot import Mesh


class Comparer:
    """Answers for one framework, on the main thread, between cells; this one has nothing to compare."""

    def begin(self) -> None:
        """Starts to look at the names that a cell reads."""

    def array_classes(self) -> tuple[type, ...]:
        """What counts as an array: these classes and those derived from them."""
        return ()

    def mesh_classes(self) -> tuple[type, ...]:
        """What counts as a mesh; `add_mesh` gets those."""
        return ()

    def add(self, path: str, array: Any) -> bool:
        """Notes an array under a path; False for one that is not to be counted (deleted)."""
        return False

    def add_mesh(self, mesh: Any) -> None:
        """Notes a mesh that was met by itself."""

    def found(self) -> dict[str, dict[str, Any]]:
        """What was met since `begin`.

        Returns:
          `arrays`: by path, what spans processes, as `nbdist.contract.snapshot.Array`; `meshes`: by id.
          `local`: by path, `[dtype, shape]` of what lies on this process alone, `[]` of what is deleted.
          `keys`: by path, the values of typed keys.
        """
        return {"arrays": {}, "meshes": {}, "local": {}, "keys": {}}

    def settings(self) -> dict[str, str] | None:
        """Settings that change what a program computes, as text by name; None where there are none."""
        return None

    def mesh(self) -> Mesh | None:
        """The mesh in context; None where there is none."""
        return None

    def distribution(self) -> dict[str, Any] | None:
        """What is set to spread arrays (`kind`, `batch_axis`, `auto_shard`, `rules`, `mesh`); None for nothing."""
        return None
