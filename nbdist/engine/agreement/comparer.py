"""What an agreement asks of a framework: what of its arrays and settings must be equal on all processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from nbdist.contract.agreement import DistributionFacts, LocalArray
from nbdist.contract.snapshot import Array, Mesh


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Arrays that were met; each part as in `nbdist.contract.agreement.NamesFacts`."""

    arrays: Mapping[str, Array] = field(default_factory=dict)
    meshes: Mapping[str, Mesh] = field(default_factory=dict)
    local: Mapping[str, LocalArray | None] = field(default_factory=dict)
    keys: Mapping[str, str] = field(default_factory=dict)


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

    def found(self) -> Found:
        """What was met since `begin`."""
        return Found()

    def settings(self) -> dict[str, str] | None:
        """Settings that change what a program computes, as text by name; None where there are none."""
        return None

    def mesh(self) -> Mesh | None:
        """The mesh in context; None where there is none."""
        return None

    def distribution(self) -> DistributionFacts | None:
        """What is set to spread arrays; None for nothing."""
        return None
