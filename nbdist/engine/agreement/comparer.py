"""Interface of an agreement to a framework: its arrays and settings that must be equal on all processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from nbdist.contract.agreement import DistributionFacts, LocalArray
from nbdist.contract.snapshot import Array, Mesh


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Arrays that one framework has found; fields as in `nbdist.contract.agreement.NamesFacts`."""

    arrays: Mapping[str, Array] = field(default_factory=dict)
    meshes: Mapping[str, Mesh] = field(default_factory=dict)
    local: Mapping[str, LocalArray | None] = field(default_factory=dict)
    keys: Mapping[str, str] = field(default_factory=dict)


class Comparer:
    """Answers of one framework, given on the main thread between cells; this base class has nothing to compare."""

    def begin(self) -> None:
        """Start to look at the names that a cell reads."""

    def array_classes(self) -> tuple[type, ...]:
        """Return the classes of arrays; instances of their subclasses are arrays, too."""
        return ()

    def mesh_classes(self) -> tuple[type, ...]:
        """Return the classes of meshes; `add_mesh` gets their instances."""
        return ()

    def add(self, path: str, array: Any) -> bool:
        """Note an array under a path; return False where the array does not count, such as a deleted one."""
        return False

    def add_mesh(self, mesh: Any) -> None:
        """Note a mesh that was met outside an array."""

    def found(self) -> Found:
        """Return all that was noted since `begin`."""
        return Found()

    def settings(self) -> dict[str, str] | None:
        """Return settings that change what a program computes, as text by name; None where there are none."""
        return None

    def mesh(self) -> Mesh | None:
        """Return the mesh in context; None where there is none."""
        return None

    def distribution(self) -> DistributionFacts | None:
        """Return the distribution or strategy that is set; None where none is."""
        return None
