"""A compiled program as the view shows it: its numbers, and the words of its text form.

Source: imports nothing outside the standard library, as `nbdist.contract.snapshot` does.
"""

from __future__ import annotations

from dataclasses import dataclass

from nbdist.contract.program import Direction, Grouping


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownMemory:
    """Bytes on each device; see `nbdist.contract.program.Memory`.

    `needed` is the total, with aliased bytes counted once.
    """

    arguments: int
    outputs: int
    temporaries: int
    aliased: int
    code: int
    needed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownCollective:
    """One operation in which devices exchange data; see `nbdist.contract.program.Collective`.

    `along` names the axes of the user's mesh, or the devices if they are no axes of it; `arrays` the arrays that
    make up the `bytes`; `times` how often it runs; `line` the user's line, empty if it is not known; `grouping`
    its index in the program's groupings, None if that is not kept.
    """

    kind: str
    along: str
    bytes: int
    arrays: str
    times: str
    direction: Direction
    line: str
    resharding: bool
    grouping: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownValue:
    """A large value that the program computes; `line` as in `ShownCollective`."""

    bytes: int
    array: str
    line: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownProgram:
    """A compiled program.

    `title` says in words whether it fits. `needed` and `limit` are bytes on each device (for a refused program, as
    the compiler names them); None if they are not known. `refusal` is the compiler's message about a program that
    it refused. `mesh` is the id of the mesh in whose order of devices the `groupings` count; None if it is not
    known. `totals` are sentences about the data that move along each set of axes; `unread` names what is not
    counted. `text` is its text form.
    """

    name: str
    title: str
    fits: bool
    needed: int | None
    limit: int | None
    refusal: str | None
    mesh: str | None
    memory: ShownMemory | None
    collectives: tuple[ShownCollective, ...]
    groupings: tuple[Grouping, ...]
    totals: tuple[str, ...]
    largest: tuple[ShownValue, ...]
    unread: tuple[str, ...]
    text: str
