"""Facts that each process states about a cell, and that must be equal on all processes before they run it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nbdist.contract.snapshot import Array, LayoutRule, Mesh


@dataclass(frozen=True, slots=True, kw_only=True)
class NameFacts:
    """Facts about one name that a cell reads.

    Attributes:
      type: The type of the name's value; None if there is no such name.
      certain: Whether the cell always reads the name, whichever branches it takes.
      code: A digest of the name's code, if cells have defined that code; else None.
      holds: Whether the value holds arrays.
    """

    type: str | None
    certain: bool
    code: str | None = None
    holds: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalArray:
    """An array that no other process has a part of."""

    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NamesFacts:
    """Facts about all names that a cell reads.

    Attributes:
      names: By dotted path. Each step of a path through modules is an entry of its own.
      arrays: By path, the arrays that span processes.
      meshes: By id, the meshes of those arrays, and the meshes among the values.
      local: By path, the arrays of this process alone; None for a deleted array.
      keys: By path, the values of typed keys, as text.
      omitted: How many arrays were left out because there were too many.
    """

    names: Mapping[str, NameFacts]
    arrays: Mapping[str, Array]
    meshes: Mapping[str, Mesh]
    local: Mapping[str, LocalArray | None]
    keys: Mapping[str, str]
    omitted: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DistributionFacts:
    """The distribution that is set, as in `nbdist.contract.snapshot.Distribution`, with its mesh."""

    kind: str
    batch_axis: str | None
    auto_shard: bool | None
    rules: tuple[LayoutRule, ...]
    mesh: Mesh | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The facts of one process, by topic; a topic that was not asked for is None.

    Attributes:
      cell: A digest of the text that is compiled.
      software: Versions by name.
      modules: Digests of the code of the user's modules, by name.
      variables: The compiler's flags, from environment variables.
      settings: The framework's settings, as text by name; None if it has none.
      mesh: The mesh in context; None if there is none.
      distribution: The distribution that is set; None if there is none.
      names: The names that the cell reads.
    """

    cell: str | None = None
    software: Mapping[str, str] | None = None
    modules: Mapping[str, str] | None = None
    variables: Mapping[str, str] | None = None
    settings: Mapping[str, str] | None = None
    mesh: Mesh | None = None
    distribution: DistributionFacts | None = None
    names: NamesFacts | None = None
