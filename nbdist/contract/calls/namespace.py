"""Calls by which a new process gets the namespace, and the arrays, of a process that has lived on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from nbdist.contract.calls.call import Call
from nbdist.contract.calls.stepping import Origin
from nbdist.contract.calls.values import Box, Room


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceArray:
    """An array that a namespace leads to, and the parts of it that its process has.

    Attributes:
      key: The key by which other processes find their parts of it; see `nbdist.engine.namespace.keys`.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A name that cannot go to another process: the type of its value, and why."""

    name: str
    type: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Things:
    """Settings, modules and registered functions of a process, each under the name that a person reads.

    Attributes:
      digests: A short text for each thing, equal if the things are equal; it reveals nothing of a secret.
      failed: Why a thing could not be set, by name.
    """

    digests: Mapping[str, str]
    failed: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferThings(Call[Things]):
    """Call to describe a process's things, beside the user's names; one buffer holds those that another can take.

    Attributes:
      key: The key of the digests.
      described: Whether only the digests are wanted.
    """

    NAME: ClassVar[str] = "offer_things"
    key: str
    described: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeThings(Call[Things]):
    """Call to set the things in the buffer, and to import the modules that the other process has imported.

    Attributes:
      key: The key of the digests.
      own: Things that differ between processes and are left as they are.
    """

    NAME: ClassVar[str] = "take_things"
    key: str
    own: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceOffer:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferNamespace(Call[NamespaceOffer]):
    """Call to hold the user's namespace for a kernel that takes it to a new process.

    Two buffers come with the answer: how the arrays lie, and the namespace without them.

    Attributes:
      token: The token under which the namespace is held.
      processes: The number of processes at the destination, if it differs: meshes over all devices are then made
        anew.
      things: Things of modules that the new process has in another form, and that are transferred too.
    """

    NAME: ClassVar[str] = "offer_namespace"
    token: str
    processes: int | None = None
    things: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespacePacked:
    """A namespace that was packed again.

    Attributes:
      left_out: Names missing from it, beside those left out when it was offered.
    """

    left_out: tuple[LeftOut, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PackAgain(Call[NamespacePacked]):
    """Call to pack an offered namespace again, since an entry could not be made; one buffer holds it.

    Attributes:
      token: The token under which the namespace is held.
      without: Why an entry could not be made, by its number: these entries are left out.
      late: Numbers of entries that come after all others, in this order, since they may need the others.
    """

    NAME: ClassVar[str] = "pack_again"
    token: str
    without: Mapping[int, str]
    late: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferArrays(Call[NamespaceOffer]):
    """Call to hold the arrays that another process has offered, as far as this process has parts of them.

    Attributes:
      token: The token under which the arrays are held.
      keys: The keys of the arrays.
      processes: As in `OfferNamespace`.
    """

    NAME: ClassVar[str] = "offer_arrays"
    token: str
    keys: tuple[str, ...]
    processes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiveNamespace(Call[Room]):
    """Call to prepare to receive a namespace; the one buffer says how its arrays lie.

    Attributes:
      token: The token under which the namespace arrives.
      arrays: The arrays as they were offered.
      generation: The number of the back end on the other processes.
    """

    NAME: ClassVar[str] = "receive_namespace"
    token: str
    arrays: tuple[NamespaceArray, ...]
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CoverNamespace(Call[Room]):
    """Call to receive each wanted part of an array in the pieces that other processes have.

    Attributes:
      token: The token under which the namespace arrives.
      covers: For each array, for each wanted part, the pieces of which it is put together.
    """

    NAME: ClassVar[str] = "cover_namespace"
    token: str
    covers: tuple[tuple[tuple[Box, ...], ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NotMade:
    """An entry of a namespace that could not be made, by its number, and why."""

    entry: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceMade:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class MakeNamespace(Call[NamespaceMade]):
    """Call to make the namespace that has arrived; the one buffer of the call holds it without its arrays.

    Attributes:
      token: The token under which it arrived.
      lost: The numbers of arrays of which nobody had all parts: using them is an error.
      numbered: Names whose value, on each process, is the number of that process.
      run: The run of the newest cell on the source process, so that later reports of both can be compared.
      key: The key of the digests of things.
    """

    NAME: ClassVar[str] = "make_namespace"
    token: str
    lost: tuple[int, ...]
    numbered: tuple[str, ...] = ()
    run: int | None = None
    key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsedNames:
    """Names that a cell may read, also through functions of earlier cells; None if that cannot be known."""

    names: tuple[str, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AskUsed(Call[UsedNames]):
    """Call to find the user's names that a cell would use; runs nothing of the cell."""

    NAME: ClassVar[str] = "used"
    code: str
