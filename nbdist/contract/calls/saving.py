"""Calls that keep variables beyond the processes that hold them: saves in a folder, and copies on other processes.

All workers together save variables shard by shard, and restore them. Processes keep copies of array parts that
only other processes have, and go back to them. All copies that are made at one moment are a round, which has the
same number on all processes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from nbdist.contract.calls.call import Call, Done
from nbdist.contract.calls.engine import Evaluating
from nbdist.contract.calls.namespace import NamespaceArray
from nbdist.contract.calls.stepping import Origin
from nbdist.contract.calls.values import Box, Named, Room


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedName:
    """A variable of a save.

    Attributes:
      name: Its name.
      arrays: How many arrays it has.
      nbytes: The bytes of these arrays as wholes.
      how: How it lies after a restore, in words; empty after a save.
    """

    name: str
    arrays: int
    nbytes: int
    how: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Saving:
    """Variables that were saved, or that were read and have no names yet.

    Attributes:
      path: The folder, as the processes have it.
      names: The variables.
      left_out: Names that were not asked for and cannot be saved, each with the reason in words.
    """

    path: str
    names: tuple[SavedName, ...]
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveArrays(Evaluating[Saving]):
    """Call to write variables into a folder, together with all other workers.

    Attributes:
      path: The folder, as the person has written it.
      names: The variables; empty: all that hold arrays on several processes.
      token: The token of this save, part of the names of its folders and of the processes' messages.
      timeout_s: How many seconds it may take.
    """

    NAME: ClassVar[str] = "save_arrays"
    path: str
    names: tuple[str, ...]
    token: str
    timeout_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadArrays(Evaluating[Saving]):
    """Call to read variables of a save, together with all other workers; sets no name yet.

    Attributes:
      path: The folder, as the person has written it.
      names: The variables; empty: all of the save.
      token: The token of this restore; `SetRestored` has it too.
      timeout_s: How many seconds it may take.
    """

    NAME: ClassVar[str] = "read_arrays"
    path: str
    names: tuple[str, ...]
    token: str
    timeout_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SetRestored(Call[Named]):
    """Call to set the names of the variables that were read."""

    NAME: ClassVar[str] = "set_restored"
    token: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiesOffer:
    """The arrays a process has, and its copies of other processes' arrays, by path.

    An array on several processes is listed with this process's parts. An array of this process alone is listed
    whole, with an origin that is equal wherever the values are equal.
    """

    arrays: tuple[NamespaceArray, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferCopies(Call[CopiesOffer]):
    """Call to begin a round: hold the arrays for a kernel that takes parts of them to other processes.

    Attributes:
      token: The token of the round's messages.
      run: A number that names, alike on all processes, the arrays that no program computed.
      processes: The processes that take part: all that compute.
      in_step: The program after which the kernel knows all processes to be in step; see `CellLabel`.
    """

    NAME: ClassVar[str] = "offer_copies"
    token: str
    run: int
    processes: tuple[int, ...]
    in_step: tuple[int, int] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedPiece:
    """A part of an array that is to be kept: the program that computed the array, its dtype, and the part."""

    origin: Origin
    dtype: Any
    box: Box


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiveCopies(Call[Done]):
    """Call to make room for copies; piece number n goes into memory number n.

    Attributes:
      token: The token of the round.
      pieces: The pieces that will arrive.
      left_out: Paths of arrays that each process has for itself and that differ: they are no part of the round.
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
    """Call to keep what has arrived, which is complete, as the round of this number; earlier rounds stay."""

    NAME: ClassVar[str] = "keep_copies"
    token: str
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UseCopies(Call[CopiesKept]):
    """Call to drop all rounds but the one of this number, which all processes have."""

    NAME: ClassVar[str] = "use_copies"
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundOffer:
    """The copies of a round that a process keeps.

    Attributes:
      arrays: The arrays as they were then, with the parts that are kept here.
      now: By path, the program that computed the array there now, even if that array has no values any more.
      whole: The paths whose arrays this process can restore from its own copies alone.
    """

    arrays: tuple[NamespaceArray, ...]
    now: Mapping[str, Origin]
    whole: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferRound(Call[RoundOffer]):
    """Call to hold the copies of a round for a kernel that takes parts of them to a new process."""

    NAME: ClassVar[str] = "offer_round"
    token: str
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiveRound(Call[Room]):
    """Call to prepare to receive parts of arrays of a round; wanted parts go into memories of consecutive numbers.

    Attributes:
      token: As for `OfferRound`.
      number: The number of the round.
      arrays: The arrays as they were then.
    """

    NAME: ClassVar[str] = "receive_round"
    token: str
    number: int
    arrays: tuple[NamespaceArray, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WentBack:
    """The arrays that were restored from a round.

    Attributes:
      paths: All paths that lead to restored arrays, including paths that were not asked for.
      newer: Arrays on several processes that are newer than the round: their paths, or the objects that hold them
        where no path leads to them.
    """

    paths: tuple[str, ...]
    newer: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GoBack(Call[WentBack]):
    """Call to restore the arrays at these paths from a round, and to redirect all references to them."""

    NAME: ClassVar[str] = "go_back"
    token: str
    number: int
    paths: tuple[str, ...]
