"""Calls by which processes are kept in step: what they have sent, proofs, and the parts of a repair."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from nbdist.contract.calls.call import Call, Done
from nbdist.contract.sent import Sent

Origin = tuple[int, int, str]
"""Which program computed an array: the back end (how many came before it), the serial of the program, and which of
its outputs. Of an array that no program computed the serial is 0, and the last says in which cell it was first
seen, and under which path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Meet(Call[Done]):
    """Learns on which ports the others take the connections of collectives."""

    NAME: ClassVar[str] = "meet"
    ports: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trail:
    """What was sent, and which programs these were.

    Attributes:
      sent: The counts.
      trail: The newest programs by their checksums.
      earliest: The serial of the first program that is not computed yet; None where all are.
      parts: Of programs of the newest cell that ran on some devices alone: by these and their processes, as
        `0,2/0,1`, how many, and a checksum over their names in order.
      run: The number of that cell.
    """

    sent: Sent
    trail: tuple[int, ...]
    earliest: int | None
    parts: Mapping[str, tuple[int, int]]
    run: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AskSent(Call[Trail]):
    """What was sent to devices of other processes since all were last in step, and which programs these were."""

    NAME: ClassVar[str] = "step"


@dataclass(frozen=True, slots=True, kw_only=True)
class RefuseEarlier(Call[Done]):
    """Refuses cells and expressions with a lower number from now on: another kernel has the turn."""

    NAME: ClassVar[str] = "refuse_earlier"
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels:
    """The newest programs since all were in step, in order.

    Attributes:
      labels: What they are called.
      kinds: The collectives of those that ran for the first time; None for others.
      given: Of the arrays that a cell has made without a program, those that each was the first to get, such as
        `RUN: 10 float32[16]`: the cell, the numbers of the arrays in it, their shapes; empty for none.
    """

    labels: tuple[str, ...]
    kinds: tuple[str | None, ...]
    given: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AskLabels(Call[Labels]):
    """What the programs that were sent since all were last in step are called, and their collectives."""

    NAME: ClassVar[str] = "labels"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnderWay:
    """What is being computed.

    Attributes:
      arrays: How many are not there yet.
      progress: Stays the same while nothing is computed or moved: tens of milliseconds of XLA's threads, and
        bytes of collectives.
    """

    arrays: int
    progress: tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class AskUnderWay(Call[UnderWay]):
    """What is not computed yet of the programs up to the serial `common`, which all processes have sent."""

    NAME: ClassVar[str] = "under_way"
    common: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Proven:
    """How a proof ended.

    Attributes:
      passed: None where it was not there in time.
      alike: Whether all had sent the same programs before.
      error: What it raised.
    """

    passed: bool | None
    alike: bool
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Prove(Call[Proven]):
    """Takes part in the proof that all processes are in step.

    Attributes:
      number: The same on all.
      timeout_s: How long is waited for the others.
      compared: Whether the kernel has compared by their names what the processes have sent.
    """

    NAME: ClassVar[str] = "prove"
    number: int
    timeout_s: float
    compared: bool = False


NOT_SENT = "it waits for what other processes have not sent"
"""Why most arrays that are lost have no values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """Where the arrays come from that lie on several processes.

    Attributes:
      versions: Origins by path; None for an array whose values could not be read.
      reasons: Why not, by path.
      unnamed: How many arrays there are of an origin that no path leads to.
      generation: The number of the back end.
    """

    versions: Mapping[str, Origin | None]
    reasons: Mapping[str, str]
    unnamed: tuple[tuple[Origin, int], ...]
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AskVersions(Call[Versions]):
    """Which program computed each array on several processes."""

    NAME: ClassVar[str] = "versions"


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgotten:
    """The paths of other arrays that could not be kept; and what holds arrays that no path leads to."""

    lost: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Forget(Call[Forgotten]):
    """Takes arrays whose pieces do not belong together.

    Attributes:
      paths: What these lead to.
      unnamed: The origins of those that no path leads to.
      whole: Whether no process has all of them any more: then no other path leads to them either. Else an array
        that another path leads to as well, which is right, stays there.
    """

    NAME: ClassVar[str] = "forget"
    paths: tuple[str, ...]
    unnamed: tuple[Origin, ...]
    whole: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """What was copied.

    Attributes:
      arrays: How many.
      nbytes: Of them.
      on_disk: How many of these bytes found no room in memory.
      free: Bytes of memory before.
      versions: Where they come from.
    """

    arrays: int
    nbytes: int
    on_disk: int
    free: int
    versions: Versions


@dataclass(frozen=True, slots=True, kw_only=True)
class Save(Call[Saved]):
    """The first part of a repair: copies what the back end holds; changes nothing."""

    NAME: ClassVar[str] = "save"
    common: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Leave(Call[Done]):
    """The second part of a repair: takes the back end down."""

    NAME: ClassVar[str] = "leave"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejoin(Call[Done]):
    """The third part of a repair: joins the others at a new service, with these arguments of the framework's."""

    NAME: ClassVar[str] = "rejoin"
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """What was made anew.

    Attributes:
      references: How many were re-pointed.
      arrays: How many were made.
      lost: Paths of those that have no values any more; of one that no path leads to what holds it.
      stale: What still refers to an old object, each by a name.
      seconds: How long it took.
      ports: On which the process takes the connections of collectives now.
    """

    references: int
    arrays: int
    lost: tuple[str, ...]
    stale: tuple[str, ...]
    seconds: float
    ports: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Restore(Call[Restored]):
    """The last part of a repair: all is made anew, but for what is lost; see `Forget`."""

    NAME: ClassVar[str] = "restore"
    lost: tuple[str, ...]
    unnamed: tuple[Origin, ...]
    generation: int
