"""Cells as data: the label of each sending, the facts that must agree first, and the history.

Each sending of a cell carries a `CellLabel`. `Facts` are what each process
states about a cell; they must be equal on all processes before the cell runs. The history is a file of the
session's private folder; each line is a `Line` as JSON, for another kernel that attaches to the session later.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Literal

from msgspec import field

from nbdist.contract.snapshot import Array, LayoutRule, Mesh
from nbdist.contract.wire import Data, Tagged, from_json, to_json


class PastCell(Data):
    """A cell that has ended: what ran where, when (Unix seconds), how long, and how it ended."""

    number: int
    code: str
    targets: tuple[int, ...]
    started: float
    seconds: float
    outcome: str


class OpenCell(Data):
    """A cell that the kernel of number `kernel` has begun.

    `requests` are the ids of its messages that may have been sent, by process id. The ids are noted before the
    messages are sent, since the kernel may end between two of them. `in_step` is the program, as generation and
    serial, after which the kernel knew all processes to be in step; None if it knew of none.
    """

    kernel: int
    run: int
    number: int
    code: str
    offset: int
    started: float
    requests: Mapping[int, str] = field(default_factory=dict)
    in_step: tuple[int, int] | None = None


class _Note(Tagged, tag_field="event"):
    """A line of the history."""


class Begun(_Note):
    """A note that a cell is about to be sent; a second note about the same cell has more requests."""

    cell: OpenCell


class Ended(_Note):
    """A note that a cell has ended, with what the session knows afterwards.

    Attributes:
      cell: The cell.
      run: Its number in the session; None if it has none.
      since: As in `nbdist.session.cells.facts.ProcessFacts`.
      stuck: As in `nbdist.session.cells.facts.ProcessFacts`.
    """

    cell: PastCell
    run: int | None
    since: int | None
    stuck: tuple[int, ...]


class Recovered(_Note):
    """A note that all processes are present again and in step."""


class Doubt(Data):
    """Why a name, or a thing beside the names, may have another value than before.

    Attributes:
      kind: `copied` from a process that has lived on; `unlike` that process, and not the same everywhere; `older`,
        as it was when copies were made; `newer` than the copies to which others went back.
      of: The number of that process, or of the cell after which the copies were made.
    """

    kind: Literal["copied", "unlike", "older", "newer"]
    of: int


class Doubted(_Note):
    """A note of all names that may have other values than before, and why; it replaces the one before."""

    unsure: Mapping[str, Doubt]


Line = Begun | Ended | Recovered | Doubted
"""A line of the history."""


PREFIX = "nbdist "
"""The beginning by which a label of nbdist is known."""


class CellLabel(Data):
    """Metadata of one sending of a cell: the label of its execute request, a public field of ipyparallel's.

    Attributes:
      cell: The execution count of the cell in the notebook.
      offset: How many lines of the notebook's cell stand above the code.
      run: The number of this sending; a later one in the same session has a higher number.
      targets: The processes that receive the cell.
      computes: Whether the cell may use a device; a cell that cannot also runs while processes are not in step.
      in_step: The program, as generation and serial, after which the kernel knows all processes to be in step;
        None if it knows of none, or if the cell does not go to all.
      compared: Whether the kernel compares what the processes have sent before it sends another cell.
      widgets: Whether widgets are shown as widgets; else as text.
      door: The interface the person uses (`nbdist.spelling.Door`); messages of the processes use its syntax.
    """

    cell: int
    offset: int
    run: int
    targets: tuple[int, ...]
    computes: bool = True
    in_step: tuple[int, int] | None = None
    compared: bool = False
    widgets: bool = False
    door: Literal["python", "magic"] = "python"

    def text(self) -> str:
        """Return the label as text."""
        return PREFIX + to_json(self)


@lru_cache(maxsize=4)  # an engine reads the label of its cell three times
def label_from(text: str) -> CellLabel | None:
    """Return the label of a request; None if the label is somebody else's.

    Raises:
      WireError: The label is ours, and has another shape.
    """
    if not text.startswith(PREFIX):
        return None
    return from_json(CellLabel, text.removeprefix(PREFIX))


class NameFacts(Data):
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


class LocalArray(Data):
    """An array that no other process has a part of."""

    dtype: str
    shape: tuple[int, ...]


class NamesFacts(Data):
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


class DistributionFacts(Data):
    """The distribution that is set, as in `nbdist.contract.snapshot.Distribution`, with its mesh."""

    kind: str
    batch_axis: str | None
    auto_shard: bool | None
    rules: tuple[LayoutRule, ...]
    mesh: Mesh | None


class Facts(Data):
    """The facts that one process states about a cell, by topic; a topic that was not asked for is None.

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
