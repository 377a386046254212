"""The cells of a session, as a file of its private folder holds them: each line is one of these types as JSON.

Another kernel, which attaches to the session later, reads them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class PastCell:
    """One entry of the history: what ran where, when (Unix seconds), how long, and how it ended."""

    number: int
    code: str
    targets: tuple[int, ...]
    started: float
    seconds: float
    outcome: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenCell:
    """A cell that the kernel of number `kernel` has begun.

    `requests` are the ids of its messages that may have been sent, by process id. They are noted before they are
    sent, since the kernel may end between two of them. `in_step` is the program, as generation and serial, after
    which the kernel knew all processes to be in step; None if it knew of none.
    """

    kernel: int
    run: int
    number: int
    code: str
    offset: int
    started: float
    requests: Mapping[int, str] = field(default_factory=dict)
    in_step: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """A cell is about to be sent; a second entry of the same cell has more requests."""

    cell: OpenCell
    event: Literal["begun"] = "begun"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A cell has ended, and what the session knows afterwards.

    Attributes:
      cell: The cell.
      run: Its number in the session; None if it has none.
      since: As in `nbdist.cells.facts.Facts`.
      stuck: As in `nbdist.cells.facts.Facts`.
    """

    cell: PastCell
    run: int | None
    since: int | None
    stuck: tuple[int, ...]
    event: Literal["ended"] = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """All processes are present again and in step."""

    event: Literal["recovered"] = "recovered"


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """Why a name, or a thing beside the names, may have another value than before.

    Attributes:
      kind: `copied` from a process that has lived on; `unlike` that process, and not the same everywhere; `older`,
        as it was when copies were made; `newer` than the copies to which others went back.
      of: The number of that process, or of the cell after which the copies were made.
    """

    kind: Literal["copied", "unlike", "older", "newer"]
    of: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubted:
    """All names that may have other values than before, and why. Replaces the names noted before."""

    unsure: Mapping[str, Doubt]
    event: Literal["doubted"] = "doubted"


Line = Begun | Ended | Recovered | Doubted
