"""Calls that move values: a process offers one, others take it.

The values themselves travel as buffers, or through memory that processes of one machine share.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Self

from msgspec import field, structs

from nbdist.contract.calls import Call, Done
from nbdist.contract.calls.engine import Evaluating, EvaluatingExpression
from nbdist.contract.wire import Data


class MemoryAddress(Data):
    """The address at which a process finds memory of another one on its machine; see `nbdist.machine.sealed`.

    Attributes:
      pid: The process that has made the memory.
      descriptor: The number of the memory's file descriptor in that process.
      name: The name of the memory, which shows whether the process still has this memory under this descriptor.
      nbytes: The size of the memory.
    """

    pid: int
    descriptor: int
    name: str
    nbytes: int


Box = tuple[tuple[int, int], ...]
"""A part of an array: start and stop in each dimension."""


Spot = tuple[int, int]
"""A place in memory: the number of a memory, and how many bytes from its start."""


def box(bounds: Iterable[Iterable[int]]) -> Box:
    """Return a part of an array as it is sent: `[[0, 2], [4, 8]]` becomes `((0, 2), (4, 8))`."""
    return tuple((start, stop) for start, stop in bounds)


class ArrayType(Data):
    """The dtype of an array (the name of its NumPy dtype, or the fields of a structured one) and its shape."""

    dtype: Any
    shape: tuple[int, ...]


class ArrayOffer(Data):
    """An array that is offered.

    Attributes:
      dtype: As in `ArrayType`.
      shape: The shape of the whole array.
      nbytes: The bytes of the whole array.
      whole: Whether the whole array lies on the process.
      pieces: The parts on the process, each once.
    """

    dtype: Any
    shape: tuple[int, ...]
    nbytes: int
    whole: bool
    pieces: tuple[Box, ...]


class ValueOffer(Data):
    """The arrays of a value, by their paths in it, and a digest of the rest; both empty if no offer was wanted."""

    arrays: Mapping[str, ArrayOffer] = field(default_factory=dict)
    digest: str = ""


class Offer(EvaluatingExpression[ValueOffer]):
    """Call to hold the value of an expression for a kernel, and to describe it; neither if it is not `wanted`."""

    token: str
    wanted: bool = True

    def unwanted(self) -> Self:
        """Return this call with `wanted=False`, for a process that holds and describes nothing."""
        return structs.replace(self, wanted=False)


class AskStructure(Call[Done]):
    """Call to pickle an offered value without its arrays: the one buffer of the answer."""

    token: str


class PieceDigests(Data):
    """One digest for each piece, in the order in which they were asked for."""

    digests: tuple[str, ...]


class AskDigests(Call[PieceDigests]):
    """Call to compute digests of pieces of offered arrays, each given by the array's path and its number there."""

    INTERRUPTIBLE: ClassVar[bool] = True
    token: str
    pieces: tuple[tuple[str, int], ...]


class Nodes(Data):
    """All parts of a value: path, digest and text of each."""

    nodes: tuple[tuple[str, str, str], ...]


class AskNodes(Call[Nodes]):
    """Call to list all parts of an offered value."""

    token: str


class Preview(Data):
    """The first elements of a piece, as text."""

    text: str


class AskPreview(Call[Preview]):
    """Call to show the first elements of a piece of an array."""

    token: str
    path: str
    piece: int


class Opened(Data):
    """Whether a process has opened memories of others."""

    opened: bool


class OpenMemories(Call[Opened]):
    """Call to open memories of the kernel, if the process can."""

    token: str
    addresses: tuple[MemoryAddress, ...]


class OfferedBox(Data):
    """A part of a piece of an offered array: the array's path, the piece's number, and which part of the array."""

    path: str
    piece: int
    box: Box


class Take(Call[Done]):
    """Call to return parts of offered arrays, one after the other: the one buffer of the answer."""

    token: str
    boxes: tuple[OfferedBox, ...]


class Write(Call[Done]):
    """Call to write parts of offered arrays into memories of the kernel; `spots` locate their whole arrays."""

    token: str
    boxes: tuple[OfferedBox, ...]
    spots: tuple[Spot, ...]


class Room(Data):
    """The parts of arriving arrays that a process wants, and its memory for them.

    Attributes:
      wanted: For each array, the wanted parts.
      available: Bytes of memory; None if that is not known.
      group: The control groups of the process, as text; processes of a host with equal texts share their limit.
    """

    wanted: tuple[tuple[Box, ...], ...]
    available: int | None
    group: str


class Receive(Evaluating[Room]):
    """Call to prepare for values that a kernel is about to send.

    Attributes:
      token: The token under which the values arrive.
      arrays: Arrays that arrive apart from the values that hold them.
      sharding: An expression that divides the arrays over the processes; None: each process gets them whole.
    """

    token: str
    arrays: tuple[ArrayType, ...]
    sharding: str | None


class Shared(Data):
    """Addresses of memories; empty if this system has no memory that processes share."""

    addresses: tuple[MemoryAddress, ...]


class Share(Call[Shared]):
    """Call to make memories of these sizes for arriving messages, for the process and others of its machine.

    `spots` says where each piece of each array that the process itself wants lies.
    """

    token: str
    sizes: tuple[int, ...]
    spots: tuple[tuple[Spot, ...], ...]


class Joined(Data):
    """Whether a process has taken memories of another."""

    joined: bool


class Join(Call[Joined]):
    """Call to take memories of another process, if this process can; `spots` as in `Share`."""

    token: str
    addresses: tuple[MemoryAddress, ...]
    spots: tuple[tuple[Spot, ...], ...]


class Stretch(Data):
    """A range of bytes in a memory: the memory's number, the offset from its start, and the length."""

    memory: int
    at: int
    nbytes: int


class Put(Call[Done]):
    """Call to write bytes into memories made on the process: the one buffer of the call, stretch by stretch."""

    token: str
    stretches: tuple[Stretch, ...]


class Ready(Call[Done]):
    """Call to make the values from what has arrived, with the pickle in the one buffer; no names are set yet."""

    INTERRUPTIBLE: ClassVar[bool] = True
    token: str


class Named(Data):
    """The names that were set."""

    names: tuple[str, ...]


class SetNames(Call[Named]):
    """Call to put the values into the user's namespace."""

    token: str


class LetGo(Call[Done]):
    """Call to drop everything that was in transfer."""

    token: str
