"""Calls about what users have made: where arrays lie, which values they hold, which program a call would run.

One call passes on what a person does with a widget.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from msgspec import field

from nbdist.contract.calls import Call, Done
from nbdist.contract.calls.engine import Evaluating, EvaluatingExpression
from nbdist.contract.program import Program
from nbdist.contract.snapshot import Array, Distribution, Mesh, Model
from nbdist.contract.wire import Data, Tagged

MIME = "application/vnd.nbdist.summary+json"
"""The MIME type of an `ArraySummary`, which goes beside the text that JAX gives the array."""


class Numbers(Data):
    """A few numbers about the values of a piece.

    Attributes:
      nan: How many values are NaN.
      counted: How many values are not NaN.
      whole: Whether the values are whole numbers.
      min: The smallest, as text, since JSON has no infinity; None if there is no value, or no order.
      max: The largest, likewise.
      sum: Their sum, likewise.
    """

    nan: int
    counted: int
    whole: bool
    min: str | None = None
    max: str | None = None
    sum: str | None = None


class PieceSummary(Data):
    """One piece of the array.

    Attributes:
      size: How many values it has.
      numbers: None if the values were not looked at.
      places: The part of the grid that lies in the piece; None if there is no grid, or it was not read.
      values: The values at those places, in Base64.
    """

    size: int
    numbers: Numbers | None = None
    places: tuple[tuple[int, int], ...] | None = None
    values: str | None = None


class ArraySummary(Data):
    """One process's part of the summary of an array: of the corners, of a picture, and of a few numbers.

    A process answers it to a kernel that asks; a cell displays it as the MIME type `MIME`.

    Attributes:
      shape: The shape of the whole array.
      dtype: The name of its dtype.
      about: Type, spec and mesh as text.
      grid: The places along each axis whose values are shown; None if there are too many axes.
      pieces: The pieces on this process.
    """

    shape: tuple[int, ...]
    dtype: str
    about: str
    grid: tuple[tuple[int, ...], ...] | None
    pieces: tuple[PieceSummary, ...]


class ArraysFound(Tagged):
    """The arrays of an expression, as a report describes them.

    Attributes:
      expression: The expression; the paths begin with it.
      arrays: In the order of the tree. If the value itself is an array, it is the only entry.
      meshes: The meshes to which the arrays refer.
      same: By path, the path of an earlier array that is this very object.
      omitted: How many more arrays there are.
      closed: How many containers were not looked into.
    """

    expression: str
    arrays: tuple[Array, ...]
    meshes: tuple[Mesh, ...]
    same: Mapping[str, str] = field(default_factory=dict)
    omitted: int = 0
    closed: int = 0
    kind: ClassVar[Literal["arrays"]] = "arrays"


class FindShards(EvaluatingExpression[ArraysFound]):
    """Call to find where the pieces of one array lie, or of all arrays of a tree."""

    NAME: ClassVar[str] = "shards"


class PieceNan(Data):
    """A piece that has NaN or infinite values.

    Attributes:
      device: The number of the device that holds it among those of the process.
      index: Which part of the array it is, as text.
      first: Whether no earlier device has this piece.
      nan: How many values are NaN.
      inf: How many values are infinite.
    """

    device: int
    index: str
    first: bool
    nan: int
    inf: int


class ArrayNan(Data):
    """An array that has NaN or infinite values, or an array that has no values any more: then `pieces` is None."""

    path: str
    dtype: str
    shape: tuple[int, ...]
    pieces: tuple[PieceNan, ...] | None


class NanCounts(Data):
    """Counts of NaN and infinite values in one process's own pieces.

    Attributes:
      arrays: The arrays with NaN or infinite values, or without values.
      looked: How many arrays were counted.
      omitted: How many more arrays there are.
      closed: How many containers were not looked into.
    """

    arrays: tuple[ArrayNan, ...]
    looked: int
    omitted: int
    closed: int


class CountNan(EvaluatingExpression[NanCounts]):
    """Call to count NaN and infinite values in the process's pieces of a tree."""

    NAME: ClassVar[str] = "nan"


class ProgramFound(Data):
    """The program that a call would run.

    Attributes:
      program: The program as this process compiled it.
      digest: A digest of the compiler's input, which must be equal on all processes.
    """

    program: Program
    digest: str


class CompileCall(EvaluatingExpression[ProgramFound]):
    """Call to compile, and not to run, the program of a call; `expression` is that call."""

    NAME: ClassVar[str] = "program"


class Summary(Data):
    """The answer to `Summarize`: what a process can say about its part of an array.

    Attributes:
      state: `missing` if there is no array at the path.
      whole: Whether the process has the whole array.
      part: The values for a text; None if they are no numbers.
      places: The values for a picture; None if there is nothing to draw.
    """

    state: Literal["missing", "computing", "shown"]
    whole: bool = False
    part: ArraySummary | None = None
    places: ArraySummary | None = None


class Summarize(Call[Summary]):
    """Call to summarize the process's part of the array at a path, as reports name it; evaluates nothing."""

    NAME: ClassVar[str] = "summary"
    INTERRUPTIBLE: ClassVar[bool] = True
    path: str


class UseWidget(Evaluating[Done]):
    """Call to pass on a person's action on a widget in the notebook.

    Attributes:
      models: The id of the widget on each process that has it, by process id as text.
      data: The data of the front end's message.
      binary: The buffers of that message, in Base64.
    """

    NAME: ClassVar[str] = "widget"
    models: Mapping[str, str]
    data: Mapping[str, Any]
    binary: tuple[str, ...]


class ModelFound(Tagged):
    """A model, the meshes of its variables, and the distributions that are set."""

    model: Model
    meshes: tuple[Mesh, ...]
    distributions: tuple[Distribution, ...]
    kind: ClassVar[Literal["model"]] = "model"


class FindLayout(EvaluatingExpression[ModelFound | ArraysFound]):
    """Call to find the layout of one model or layer; for other values that hold arrays, as `FindShards`."""

    NAME: ClassVar[str] = "layout"
    GLANCES: ClassVar[bool] = True
