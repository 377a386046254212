"""Calls by which processes keep copies of parts of arrays that only others have, and go back to them.

The copies that are made at one moment are a round. Rounds have numbers, the same on all processes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from nbdist.contract.calls.call import Call, Done
from nbdist.contract.calls.namespace import NamespaceArray
from nbdist.contract.calls.stepping import Origin
from nbdist.contract.calls.values import Box, Room


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiesOffer:
    """What a process has, and keeps of others, by the paths that lead to it.

    Of an array on several processes these are its parts; of one of its own it is the whole, with an origin that is
    equal where the values are.
    """

    arrays: tuple[NamespaceArray, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferCopies(Call[CopiesOffer]):
    """Begins a round: keeps what is there for a kernel that takes parts of it to other processes.

    Attributes:
      token: Of the round's messages.
      run: Names, on all processes alike, arrays that no program has computed.
      processes: Those that take part: all that compute.
      in_step: After which program the kernel knows all to be in step; see `CellLabel`.
    """

    NAME: ClassVar[str] = "offer_copies"
    token: str
    run: int
    processes: tuple[int, ...]
    in_step: tuple[int, int] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedPiece:
    """A part of an array that is to be kept: which program computed the array, its dtype, and the part."""

    origin: Origin
    dtype: Any
    box: Box


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiveCopies(Call[Done]):
    """Makes room for copies; the piece of number n comes into the memory of number n.

    Attributes:
      token: Of the round.
      pieces: What comes.
      left_out: Paths of arrays that are each process's own and not the same on all: they are no part of the round.
    """

    NAME: ClassVar[str] = "receive_copies"
    token: str
    pieces: tuple[CopiedPiece, ...]
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiesKept:
    """How many bytes of copies a process keeps."""

    nbytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepCopies(Call[CopiesKept]):
    """All has come: keeps it under this number, beside what was kept before."""

    NAME: ClassVar[str] = "keep_copies"
    token: str
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UseCopies(Call[CopiesKept]):
    """All processes have the round of this number: keeps no other any longer."""

    NAME: ClassVar[str] = "use_copies"
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundOffer:
    """What a process keeps of a round.

    Attributes:
      arrays: As they were then, with the parts that are kept here.
      now: Which program computed what is at their paths now, also where that has no values any more.
      whole: The paths at which this process can make what was there then of what it keeps.
    """

    arrays: tuple[NamespaceArray, ...]
    now: Mapping[str, Origin]
    whole: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferRound(Call[RoundOffer]):
    """Keeps the copies of a round for a kernel that takes parts of them to a new process."""

    NAME: ClassVar[str] = "offer_round"
    token: str
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiveRound(Call[Room]):
    """Expects its parts of arrays of a round; those wanted come into memories of consecutive numbers.

    Attributes:
      token: As for `OfferRound`.
      number: Of the round.
      arrays: As they were then.
    """

    NAME: ClassVar[str] = "receive_round"
    token: str
    number: int
    arrays: tuple[NamespaceArray, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WentBack:
    """What was made again.

    Attributes:
      paths: All that lead to it, also those that were not asked for.
      newer: What leads to arrays on several processes that are newer than the round: paths, and what holds those
        that no path leads to.
    """

    paths: tuple[str, ...]
    newer: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GoBack(Call[WentBack]):
    """Makes what was at these paths in a round, and has every reference to what is there now lead to it."""

    NAME: ClassVar[str] = "go_back"
    token: str
    number: int
    paths: tuple[str, ...]
