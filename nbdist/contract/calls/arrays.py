"""Calls about arrays of the user: where their pieces lie, what is in them; and what is done to a widget."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from nbdist.contract.array_summary import ArraySummary
from nbdist.contract.calls.call import Call, Done
from nbdist.contract.calls.evaluating import Evaluating, EvaluatingExpression
from nbdist.contract.program import Program
from nbdist.contract.snapshot import Array, Distribution, Mesh, Model


@dataclass(frozen=True, slots=True, kw_only=True)
class ArraysFound:
    """The arrays of an expression, as a report describes them.

    Attributes:
      expression: With which their paths begin.
      arrays: In the order of the tree; one that is the value itself is alone here.
      meshes: To which they refer.
      same: By path the path of an earlier one that is this very array.
      omitted: How many more arrays there are.
      closed: How many containers were not looked into.
    """

    expression: str
    arrays: tuple[Array, ...]
    meshes: tuple[Mesh, ...]
    same: Mapping[str, str] = field(default_factory=dict)
    omitted: int = 0
    closed: int = 0
    kind: Literal["arrays"] = "arrays"


@dataclass(frozen=True, slots=True, kw_only=True)
class FindShards(EvaluatingExpression[ArraysFound]):
    """Where the pieces of one array lie, or of all arrays of a tree."""

    NAME: ClassVar[str] = "shards"


@dataclass(frozen=True, slots=True, kw_only=True)
class PieceNan:
    """A piece that has NaN or infinite values.

    Attributes:
      device: The id of the device that it is on.
      index: Which part of the array it is, as text.
      first: Whether no other device with this piece comes before it.
      nan: How many values are NaN.
      inf: How many are infinite.
    """

    device: int
    index: str
    first: bool
    nan: int
    inf: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayNan:
    """An array that has NaN or infinite values, or none at all: then `pieces` is None."""

    path: str
    dtype: str
    shape: tuple[int, ...]
    pieces: tuple[PieceNan, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NanCounts:
    """What a process has counted in its own pieces.

    Attributes:
      arrays: Those with something in them, or without values.
      looked: How many arrays were counted.
      omitted: How many more arrays there are.
      closed: How many containers were not looked into.
    """

    arrays: tuple[ArrayNan, ...]
    looked: int
    omitted: int
    closed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CountNan(EvaluatingExpression[NanCounts]):
    """NaN and infinite values in the process's pieces of a tree."""

    NAME: ClassVar[str] = "nan"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramFound:
    """What a call would run.

    Attributes:
      program: As this process has compiled it.
      digest: Of what the compiler was given, which must be equal on all processes.
    """

    program: Program
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileCall(EvaluatingExpression[ProgramFound]):
    """What a call would run, compiled and not run; `expression` is the call."""

    NAME: ClassVar[str] = "program"


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What a process has of an array.

    Attributes:
      state: `missing`: no array is there.
      whole: Whether the process has all of it.
      part: For a text; None for what has no numbers.
      places: For a picture; None where there is nothing to draw.
    """

    state: Literal["missing", "computing", "shown"]
    whole: bool = False
    part: ArraySummary | None = None
    places: ArraySummary | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Summarize(Call[Summary]):
    """What the process has of the array under a path, as a report names it; nothing is evaluated."""

    NAME: ClassVar[str] = "summary"
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UseWidget(Evaluating[Done]):
    """What a person did to a widget in the notebook.

    Attributes:
      models: The id of the widget on each process that has it, by process id as text.
      data: As the front end has sent it.
      binary: The buffers of that, in Base64.
    """

    NAME: ClassVar[str] = "widget"
    models: Mapping[str, str]
    data: Mapping[str, Any]
    binary: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFound:
    """A model, the meshes of its variables, and the distributions that are set."""

    model: Model
    meshes: tuple[Mesh, ...]
    distributions: tuple[Distribution, ...]
    kind: Literal["model"] = "model"


@dataclass(frozen=True, slots=True, kw_only=True)
class FindLayout(EvaluatingExpression[ModelFound | ArraysFound]):
    """The layout of one model or layer; of anything else that holds arrays what `FindShards` answers."""

    NAME: ClassVar[str] = "layout"
