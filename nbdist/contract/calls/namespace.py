"""Calls by which a new process gets the namespace of one that has lived on, and its arrays."""

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
      key: By which other processes find theirs; see `nbdist.engine.namespace.keys`.
      dtype: The name of its NumPy dtype, or the fields of a structured one.
      shape: Of the whole array.
      spans: Whether parts of it lie on other processes.
      origin: Which program computed it; None where that is not known yet.
      pieces: The parts that this process has, each once; none of an array that has no values any more.
      kept: The parts of which it keeps copies beside those.
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
      digests: A short text for each thing, equal where it is; it says nothing of a secret.
      failed: Why a thing could not be set, by name.
    """

    digests: Mapping[str, str]
    failed: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferThings(Call[Things]):
    """Describe what the process is beside the user's names; one buffer has what can be set on another.

    Attributes:
      key: Of the digests.
      described: Whether only the digests are wanted.
    """

    NAME: ClassVar[str] = "offer_things"
    key: str
    described: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeThings(Call[Things]):
    """Set what the buffer has, and import the modules that are imported there.

    Attributes:
      key: Of the digests.
      own: Things that are not the same on all processes, and are left as they are.
    """

    NAME: ClassVar[str] = "take_things"
    key: str
    own: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceOffer:
    """What a process offers.

    Attributes:
      arrays: In the order of their numbers in the pickles.
      names: All that goes along; in an answer to `OfferArrays`, all that there are.
      left_out: Names that do not.
      digests: A short text for each name, as `nbdist.engine.probe.samples` makes them; of arrays that are divided
        over several processes only the kind counts.
      own: Names with data that each process can have for itself.
      run: Of the newest cell of the process; None before the first.
      changes: What will not be as here, where the devices are others; a sentence each.
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
    """Keeps what the user's names lead to for a kernel that takes it to a new process.

    Two buffers come with the answer: how the arrays lie, and the namespace without them.

    Attributes:
      token: Under which it is kept.
      processes: How many there are where it goes, if they are another number: meshes over all devices are then
        made anew.
      things: Things of modules that are not on the new process as here, and go along.
    """

    NAME: ClassVar[str] = "offer_namespace"
    token: str
    processes: int | None = None
    things: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespacePacked:
    """A namespace that was packed again.

    Attributes:
      left_out: What is not in it, beside what was left out when it was offered.
    """

    left_out: tuple[LeftOut, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PackAgain(Call[NamespacePacked]):
    """Pack an offered namespace again, since something of it could not be made; one buffer has it.

    Attributes:
      token: Under which it is kept.
      without: Why an entry could not be made, by its number: these are left out.
      late: Numbers of entries that come after all others, in this order, since they may need those.
    """

    NAME: ClassVar[str] = "pack_again"
    token: str
    without: Mapping[int, str]
    late: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferArrays(Call[NamespaceOffer]):
    """Keeps those arrays that another process has offered, as far as this process has parts of them.

    Attributes:
      token: Under which they are kept.
      keys: Those of the arrays.
      processes: As in `OfferNamespace`.
    """

    NAME: ClassVar[str] = "offer_arrays"
    token: str
    keys: tuple[str, ...]
    processes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiveNamespace(Call[Room]):
    """Expects a namespace; the one buffer says how its arrays lie.

    Attributes:
      token: Under which it comes.
      arrays: As they were offered.
      generation: The number of the back end, as the other processes have it.
    """

    NAME: ClassVar[str] = "receive_namespace"
    token: str
    arrays: tuple[NamespaceArray, ...]
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CoverNamespace(Call[Room]):
    """Has the parts of arrays that are wanted come in parts as others have them.

    Attributes:
      token: Under which the namespace comes.
      covers: Of each array, for each part that is wanted, those parts of which it is put together.
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
    """What has been made.

    Attributes:
      not_made: What has raised; the process then has none of the names, and nothing else is said.
      names: All that the process has now.
      hooks: What functions of the user's have raised that were to be called then, each as a few words.
      set_again: Names that these functions have set.
      things: Digests of things, as in `Things`, before these functions were called.
      things_set_again: Things that they have set.
    """

    names: tuple[str, ...] = ()
    hooks: tuple[str, ...] = ()
    set_again: tuple[str, ...] = ()
    things: Mapping[str, str] = field(default_factory=dict)
    things_set_again: tuple[str, ...] = ()
    not_made: NotMade | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MakeNamespace(Call[NamespaceMade]):
    """Makes the namespace of what has come; the one buffer of the call has it without its arrays.

    Attributes:
      token: Under which it came.
      lost: The numbers of arrays of which nobody had all parts: using them is an error.
      numbered: Names that have, on each process, the number of that process.
      run: Of the newest cell of the process from which it comes: what both report after it can be compared.
      key: Of the digests of things.
    """

    NAME: ClassVar[str] = "make_namespace"
    token: str
    lost: tuple[int, ...]
    numbered: tuple[str, ...] = ()
    run: int | None = None
    key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsedNames:
    """Names that a cell may read, also through functions of earlier cells; None where that cannot be known."""

    names: tuple[str, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AskUsed(Call[UsedNames]):
    """Which of the user's names a cell would use; nothing of it is run."""

    NAME: ClassVar[str] = "used"
    code: str
