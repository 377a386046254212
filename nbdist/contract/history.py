"""The cells of a session as a file of its private folder has them, each line one of these as JSON.

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
    """A cell of the kernel of this number.

    `requests` are the numbers of its messages that may have been sent, by process id: noted before they are on
    their way, since the kernel may end between two of them. `in_step` is after which program, as
    generation and serial, the kernel knew all processes to be in step; None where it did not.
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
    """A cell is about to be sent; one that was begun before, with more requests."""

    cell: OpenCell
    event: Literal["begun"] = "begun"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A cell has ended, and what the session knows afterwards.

    Attributes:
      cell: The cell.
      run: Its number in the session; None where it has none.
      since: As in `nbdist.cells.facts.Facts`.
      stuck: As there.
    """

    cell: PastCell
    run: int | None
    since: int | None
    stuck: tuple[int, ...]
    event: Literal["ended"] = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """All processes are there again and in step."""

    event: Literal["recovered"] = "recovered"


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """Why a name, or a thing beside the names, may not be what it was.

    Attributes:
      kind: `copied` from a process that has lived on; `unlike` that process, and not the same everywhere; `older`,
        as it was when copies were made; `newer` than that, where others went back.
      of: The number of that process; of the cell after which copies were made.
    """

    kind: Literal["copied", "unlike", "older", "newer"]
    of: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubted:
    """Names that may not be what they were, and why, in place of those noted before."""

    unsure: Mapping[str, Doubt]
    event: Literal["doubted"] = "doubted"


Line = Begun | Ended | Recovered | Doubted
