"""What must be equal on all processes before they run a cell: the facts that each of them states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nbdist.contract.snapshot import Array, LayoutRule, Mesh


@dataclass(frozen=True, slots=True, kw_only=True)
class NameFacts:
    """What a name stands for.

    Attributes:
      type: Of its value; None: there is no such name.
      certain: Whether the cell reads it whatever happens.
      code: The digest of the code that it stands for; None where it stands for none that cells have defined.
      holds: Whether arrays are in it.
    """

    type: str | None
    certain: bool
    code: str | None = None
    holds: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalArray:
    """An array that lies on one process alone."""

    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NamesFacts:
    """What the names that a cell reads stand for.

    Attributes:
      names: By dotted path. Of a path through modules each step is one.
      arrays: By path, those that span processes.
      meshes: By id, those of the arrays, and those that were met by themselves.
      local: By path, what lies on this process alone; None of one that is deleted.
      keys: By path, the values of typed keys, as text.
      omitted: How many arrays were too many.
    """

    names: Mapping[str, NameFacts]
    arrays: Mapping[str, Array]
    meshes: Mapping[str, Mesh]
    local: Mapping[str, LocalArray | None]
    keys: Mapping[str, str]
    omitted: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DistributionFacts:
    """What is set to spread arrays, as in `nbdist.contract.snapshot.Distribution`, with its mesh."""

    kind: str
    batch_axis: str | None
    auto_shard: bool | None
    rules: tuple[LayoutRule, ...]
    mesh: Mesh | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The facts of one process, by topic; None of a topic that was not asked for.

    Attributes:
      cell: A digest of the text that is compiled.
      software: Versions by name.
      modules: Digests of the code of the user's modules, by name.
      variables: The compiler's flags, from environment variables.
      settings: Of the framework, as text by name; None where it has none.
      mesh: That in context; None where there is none.
      distribution: The one that is set; None where there is none.
      names: Those that the cell reads.
    """

    cell: str | None = None
    software: Mapping[str, str] | None = None
    modules: Mapping[str, str] | None = None
    variables: Mapping[str, str] | None = None
    settings: Mapping[str, str] | None = None
    mesh: Mesh | None = None
    distribution: DistributionFacts | None = None
    names: NamesFacts | None = None
