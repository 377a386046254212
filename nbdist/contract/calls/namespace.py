"""Calls that take names and arrays to another process, or keep them beyond it: namespaces, saves, copies.

A new process gets the namespace of a process that has lived on. All workers together save variables shard by shard
into a folder, and restore them. Processes keep copies of array parts that only other processes have, and go back
to them. All copies that are made at one moment are a round, which has the same number on all processes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import field

from nbdist.contract.calls import Call, Done
from nbdist.contract.calls.engine import Evaluating
from nbdist.contract.calls.stepping import Origin
from nbdist.contract.calls.values import Box, Named, Room
from nbdist.contract.wire import Data


class NamespaceArray(Data):
    """An array that a namespace leads to, and the parts of it that its process has.

    Attributes:
      key: The key by which other processes find their parts of it.
      dtype: The name of its NumPy dtype, or the fields of a structured one.
      shape: The shape of the whole array.
      spans: Whether parts of it lie on other processes.
      origin: The program that computed it; None if that is not known yet.
      pieces: The parts that this process has, each once; empty for an array that has no values any more.
      kept: Further parts of which this process keeps copies.
    """

    key: str
    dtype: Any
    shape: tuple[int, ...]
    spans: bool
    origin: Origin | None
    pieces: tuple[Box, ...]
    kept: tuple[Box, ...] = ()

    @property
    def every(self) -> tuple[Box, ...]:
        """All parts that can be taken from the process, in the order of their numbers."""
        return *self.pieces, *self.kept


class LeftOut(Data):
    """A name that cannot go to another process: the type of its value, and why."""

    name: str
    type: str
    why: str


class Things(Data):
    """Settings, modules and registered functions of a process, each under the name that a person reads.

    Attributes:
      digests: A short text for each thing, equal if the things are equal; it reveals nothing of a secret.
      failed: Why a thing could not be set, by name.
    """

    digests: Mapping[str, str]
    failed: Mapping[str, str] = field(default_factory=dict)


class OfferThings(Call[Things]):
    """Call to describe a process's things, beside the user's names; one buffer holds those that another can take.

    Attributes:
      key: The key of the digests.
      described: Whether only the digests are wanted.
    """

    key: str
    described: bool = False


class TakeThings(Call[Things]):
    """Call to set the things in the buffer, and to import the modules that the other process has imported.

    Attributes:
      key: The key of the digests.
      own: Things that differ between processes and are left as they are.
    """

    key: str
    own: tuple[str, ...]


class NamespaceOffer(Data):
    """The namespace that a process offers.

    Attributes:
      arrays: In the order of their numbers in the pickles.
      names: All names that are transferred; in an answer to `OfferArrays`, all names of the process.
      left_out: Names that are not transferred.
      digests: A short text for each name, as `nbdist.engine.probe.samples` makes them; for arrays that are divided
        over several processes, only the kind counts.
      own: Names with data that each process can have for itself.
      run: The run of the newest cell of the process; None before the first.
      changes: Differences after the transfer, if the devices there are others; a sentence each.
    """

    arrays: tuple[NamespaceArray, ...]
    names: tuple[str, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    digests: Mapping[str, str] = field(default_factory=dict)
    own: tuple[str, ...] = ()
    run: int | None = None
    changes: tuple[str, ...] = ()


class OfferNamespace(Call[NamespaceOffer]):
    """Call to hold the user's namespace for a kernel that takes it to a new process.

    Two buffers come with the answer: how the arrays lie, and the namespace without them.

    Attributes:
      token: The token under which the namespace is held.
      processes: The number of processes at the destination, if it differs: meshes over all devices are then made
        anew.
      things: Things of modules that the new process has in another form, and that are transferred too.
    """

    token: str
    processes: int | None = None
    things: tuple[str, ...] = ()


class NamespacePacked(Data):
    """A namespace that was packed again.

    Attributes:
      left_out: Names missing from it, beside those left out when it was offered.
    """

    left_out: tuple[LeftOut, ...]


class PackAgain(Call[NamespacePacked]):
    """Call to pack an offered namespace again, since an entry could not be made; one buffer holds it.

    Attributes:
      token: The token under which the namespace is held.
      without: Why an entry could not be made, by its number: these entries are left out.
      late: Numbers of entries that come after all others, in this order, since they may need the others.
    """

    token: str
    without: Mapping[int, str]
    late: tuple[int, ...]


class OfferArrays(Call[NamespaceOffer]):
    """Call to hold the arrays that another process has offered, as far as this process has parts of them.

    Attributes:
      token: The token under which the arrays are held.
      keys: The keys of the arrays.
      processes: As in `OfferNamespace`.
    """

    token: str
    keys: tuple[str, ...]
    processes: int | None = None


class ReceiveNamespace(Call[Room]):
    """Call to prepare to receive a namespace; the one buffer says how its arrays lie.

    Attributes:
      token: The token under which the namespace arrives.
      arrays: The arrays as they were offered.
      generation: The number of the back end on the other processes.
    """

    token: str
    arrays: tuple[NamespaceArray, ...]
    generation: int


class CoverNamespace(Call[Room]):
    """Call to receive each wanted part of an array in the pieces that other processes have.

    Attributes:
      token: The token under which the namespace arrives.
      covers: For each array, for each wanted part, the pieces of which it is put together.
    """

    token: str
    covers: tuple[tuple[tuple[Box, ...], ...], ...]


class NotMade(Data):
    """An entry of a namespace that could not be made, by its number, and why."""

    entry: int
    why: str


class NamespaceMade(Data):
    """The namespace that has been made.

    Attributes:
      not_made: The entry that raised; the process then has none of the names, and all other fields are empty.
      names: All names that the process has now.
      hooks: Exceptions of the user's functions that were called then, each as a few words.
      set_again: Names that these functions have set.
      things: Digests of things, as in `Things`, before these functions were called.
      things_set_again: Things that these functions have set.
    """

    names: tuple[str, ...] = ()
    hooks: tuple[str, ...] = ()
    set_again: tuple[str, ...] = ()
    things: Mapping[str, str] = field(default_factory=dict)
    things_set_again: tuple[str, ...] = ()
    not_made: NotMade | None = None


class MakeNamespace(Call[NamespaceMade]):
    """Call to make the namespace that has arrived; the one buffer of the call holds it without its arrays.

    Attributes:
      token: The token under which it arrived.
      lost: The numbers of arrays of which nobody had all parts: using them is an error.
      numbered: Names whose value, on each process, is the number of that process.
      run: The run of the newest cell on the source process, so that later reports of both can be compared.
      key: The key of the digests of things.
    """

    token: str
    lost: tuple[int, ...]
    numbered: tuple[str, ...] = ()
    run: int | None = None
    key: str = ""


class UsedNames(Data):
    """Names that a cell may read, also through functions of earlier cells; None if that cannot be known."""

    names: tuple[str, ...] | None


class AskUsed(Call[UsedNames]):
    """Call to find the user's names that a cell would use; runs nothing of the cell."""

    code: str


class SavedName(Data):
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


class Saving(Data):
    """Variables that were saved, or that were read and have no names yet.

    Attributes:
      path: The folder, as the processes have it.
      names: The variables.
      left_out: Names that were not asked for and cannot be saved, each with the reason in words.
    """

    path: str
    names: tuple[SavedName, ...]
    left_out: tuple[str, ...] = ()


class SaveArrays(Evaluating[Saving]):
    """Call to write variables into a folder, together with all other workers.

    Attributes:
      path: The folder, as the person has written it.
      names: The variables; empty: all that hold arrays on several processes.
      token: The token of this save, part of the names of its folders and of the processes' messages.
      timeout_s: How many seconds it may take.
    """

    path: str
    names: tuple[str, ...]
    token: str
    timeout_s: float


class ReadArrays(Evaluating[Saving]):
    """Call to read variables of a save, together with all other workers; sets no name yet.

    Attributes:
      path: The folder, as the person has written it.
      names: The variables; empty: all of the save.
      token: The token of this restore; `SetRestored` has it too.
      timeout_s: How many seconds it may take.
    """

    path: str
    names: tuple[str, ...]
    token: str
    timeout_s: float


class SetRestored(Call[Named]):
    """Call to set the names of the variables that were read."""

    token: str


class CopiesOffer(Data):
    """The arrays a process has, and its copies of other processes' arrays, by path.

    An array on several processes is listed with this process's parts. An array of this process alone is listed
    whole, with an origin that is equal wherever the values are equal.
    """

    arrays: tuple[NamespaceArray, ...]


class OfferCopies(Call[CopiesOffer]):
    """Call to begin a round: hold the arrays for a kernel that takes parts of them to other processes.

    Attributes:
      token: The token of the round's messages.
      run: A number that names, alike on all processes, the arrays that no program computed.
      processes: The processes that take part: all that compute.
      in_step: The program after which the kernel knows all processes to be in step; see `CellLabel`.
    """

    token: str
    run: int
    processes: tuple[int, ...]
    in_step: tuple[int, int] | None


class CopiedPiece(Data):
    """A part of an array that is to be kept: the program that computed the array, its dtype, and the part."""

    origin: Origin
    dtype: Any
    box: Box


class ReceiveCopies(Call[Done]):
    """Call to make room for copies; piece number n goes into memory number n.

    Attributes:
      token: The token of the round.
      pieces: The pieces that will arrive.
      left_out: Paths of arrays that each process has for itself and that differ: they are no part of the round.
    """

    token: str
    pieces: tuple[CopiedPiece, ...]
    left_out: tuple[str, ...] = ()


class CopiesKept(Data):
    """How many bytes of copies a process keeps."""

    nbytes: int


class KeepCopies(Call[CopiesKept]):
    """Call to keep what has arrived, which is complete, as the round of this number; earlier rounds stay."""

    token: str
    number: int


class UseCopies(Call[CopiesKept]):
    """Call to drop all rounds but the one of this number, which all processes have."""

    number: int


class RoundOffer(Data):
    """The copies of a round that a process keeps.

    Attributes:
      arrays: The arrays as they were then, with the parts that are kept here.
      now: By path, the program that computed the array there now, even if that array has no values any more.
      whole: The paths whose arrays this process can restore from its own copies alone.
    """

    arrays: tuple[NamespaceArray, ...]
    now: Mapping[str, Origin]
    whole: tuple[str, ...]


class OfferRound(Call[RoundOffer]):
    """Call to hold the copies of a round for a kernel that takes parts of them to a new process."""

    token: str
    number: int


class ReceiveRound(Call[Room]):
    """Call to prepare to receive parts of arrays of a round; wanted parts go into memories of consecutive numbers.

    Attributes:
      token: As for `OfferRound`.
      number: The number of the round.
      arrays: The arrays as they were then.
    """

    token: str
    number: int
    arrays: tuple[NamespaceArray, ...]


class WentBack(Data):
    """The arrays that were restored from a round.

    Attributes:
      paths: All paths that lead to restored arrays, including paths that were not asked for.
      newer: Arrays on several processes that are newer than the round: their paths, or the objects that hold them
        where no path leads to them.
    """

    paths: tuple[str, ...]
    newer: tuple[str, ...]


class GoBack(Call[WentBack]):
    """Call to restore the arrays at these paths from a round, and to redirect all references to them."""

    token: str
    number: int
    paths: tuple[str, ...]
