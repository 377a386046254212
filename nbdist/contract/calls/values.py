"""Calls that move values: what a process offers of one, and what it takes. The values themselves are buffers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

from nbdist.contract.calls.call import Call, Done
from nbdist.contract.calls.evaluating import Evaluating, EvaluatingExpression
from nbdist.contract.memory_address import MemoryAddress

Box = tuple[tuple[int, int], ...]
"""A part of an array: start and stop in each dimension."""


Spot = tuple[int, int]
"""Where something lies: the number of a memory, and how many bytes from its start."""


def box(bounds: Iterable[Iterable[int]]) -> Box:
    """A part of an array as it is sent: `[[0, 2], [4, 8]]` → `((0, 2), (4, 8))`."""
    return tuple((start, stop) for start, stop in bounds)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayType:
    """What an array is: the name of its NumPy dtype, or the fields of a structured one; and its shape."""

    dtype: Any
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayOffer:
    """An array that is offered.

    Attributes:
      dtype: As in `ArrayType`.
      shape: Of the whole array.
      nbytes: Of the whole array.
      whole: Whether it lies on the process whole.
      pieces: The parts that do, each once.
    """

    dtype: Any
    shape: tuple[int, ...]
    nbytes: int
    whole: bool
    pieces: tuple[Box, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueOffer:
    """The arrays of a value, by their paths in it, and a digest of all else; neither where no offer was wanted."""

    arrays: Mapping[str, ArrayOffer] = field(default_factory=dict)
    digest: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer(EvaluatingExpression[ValueOffer]):
    """Holds the value of an expression for a kernel, and describes it; does neither where it is not `wanted`."""

    NAME: ClassVar[str] = "offer"
    token: str
    wanted: bool = True

    def unwanted(self) -> Self:
        """Holds and describes nothing."""
        return replace(self, wanted=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AskStructure(Call[Done]):
    """An offered value, pickled without its arrays: the one buffer of the answer."""

    NAME: ClassVar[str] = "structure"
    token: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PieceDigests:
    """One digest a piece, in the order in which they were asked for."""

    digests: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AskDigests(Call[PieceDigests]):
    """Digests of pieces of arrays that are offered, each given by the array's path and its number there."""

    NAME: ClassVar[str] = "digests"
    token: str
    pieces: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Nodes:
    """All that a value holds: path, digest and text of each."""

    nodes: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AskNodes(Call[Nodes]):
    """All that an offered value holds."""

    NAME: ClassVar[str] = "nodes"
    token: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """The first elements of something, as text."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AskPreview(Call[Preview]):
    """The first elements of a piece of an array."""

    NAME: ClassVar[str] = "preview"
    token: str
    path: str
    piece: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """Whether a process has opened memories of others."""

    opened: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenMemories(Call[Opened]):
    """Opens memories of the kernel, where the process can."""

    NAME: ClassVar[str] = "open_memories"
    token: str
    addresses: tuple[MemoryAddress, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedBox:
    """A part of a piece of an offered array: the array's path, the piece's number, and which part of the array."""

    path: str
    piece: int
    box: Box


@dataclass(frozen=True, slots=True, kw_only=True)
class Take(Call[Done]):
    """Parts of arrays that are offered, one behind the other: the one buffer of the answer."""

    NAME: ClassVar[str] = "take"
    token: str
    boxes: tuple[OfferedBox, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Write(Call[Done]):
    """Writes parts of arrays that are offered into memories of the kernel; `spots` of their whole arrays."""

    NAME: ClassVar[str] = "write"
    token: str
    boxes: tuple[OfferedBox, ...]
    spots: tuple[Spot, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """What a process wants of arrays that come, and how much memory it has for them.

    Attributes:
      wanted: Of each array which parts.
      available: Bytes of memory; None where that is not known.
      group: What has one limit of memory in common, by name.
    """

    wanted: tuple[tuple[Box, ...], ...]
    available: int | None
    group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Receive(Evaluating[Room]):
    """Expects what a kernel is about to send.

    Attributes:
      token: Under which it comes.
      arrays: That come apart from the values that hold them.
      sharding: An expression that divides them over the processes; None: each gets them whole.
    """

    NAME: ClassVar[str] = "receive"
    token: str
    arrays: tuple[ArrayType, ...]
    sharding: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """Where memories are found; none where this system has no memory that processes share."""

    addresses: tuple[MemoryAddress, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Share(Call[Shared]):
    """Makes memories of these sizes for what is to come in messages, for the process and others of its machine.

    `spots` are those of each piece of each array that it wants itself.
    """

    NAME: ClassVar[str] = "share"
    token: str
    sizes: tuple[int, ...]
    spots: tuple[tuple[Spot, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """Whether a process has taken memories of another."""

    joined: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Join(Call[Joined]):
    """Takes memories of another process, where this one can; `spots` as in `Share`."""

    NAME: ClassVar[str] = "join"
    token: str
    addresses: tuple[MemoryAddress, ...]
    spots: tuple[tuple[Spot, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Bytes for a memory: which one, how many bytes from its start, and how many."""

    memory: int
    at: int
    nbytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Put(Call[Done]):
    """Takes bytes into memories made on the process: the one buffer of the call, stretch by stretch."""

    NAME: ClassVar[str] = "put"
    token: str
    stretches: tuple[Stretch, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready(Call[Done]):
    """Makes the values of what has come, with the pickle in the one buffer of the call; they have no names yet."""

    NAME: ClassVar[str] = "ready"
    token: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """The names that were set."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SetNames(Call[Named]):
    """Puts the values into the user's namespace."""

    NAME: ClassVar[str] = "set_names"
    token: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LetGo(Call[Done]):
    """Keeps nothing of what was on its way."""

    NAME: ClassVar[str] = "let_go"
    token: str
