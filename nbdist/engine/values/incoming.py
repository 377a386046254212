"""Values on their way to this process, and the holder of the one value on its way at a time, in or out.

A value moves in many messages. Between these, `Moving` holds the value under a token, whether it comes or goes; a
value that one kernel has left behind is dropped when the next one begins. `Incoming` takes what a kernel pushes;
no name is set before all values are complete.
"""

from __future__ import annotations

import contextlib
import math
import mmap
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from nbdist.contract.calls.values import ArrayType, Box, MemoryAddress, OfferedBox, Room, Spot
from nbdist.engine.values.arrays import ReadablePiece, unpacked, whole_of
from nbdist.errors import SessionError, StaleError
from nbdist.machine import checkup
from nbdist.machine.sealed import Sealed, mapped
from nbdist.notation import dtype_named
from nbdist.pieces import shape_of, slices


class HeldValue:
    """A value on its way, held from a kernel's first message until all is moved or the kernel gives up."""

    def close(self) -> None:
        """Drop everything that is held."""
        raise NotImplementedError


class ArraySource(HeldValue):
    """Arrays that a kernel takes from this process in parts; each piece is read once, with its first part."""

    def __init__(self) -> None:
        self._pieces: dict[str, tuple[Any, Sequence[ReadablePiece]]] = {}
        self._read: dict[tuple[str, int], Any] = {}

    def add(self, path: str, dtype: Any, pieces: Sequence[ReadablePiece]) -> None:
        """Offer the pieces of an array; `dtype` as in `ArrayType`."""
        self._pieces[path] = dtype_named(dtype), pieces

    def take(self, boxes: Iterable[OfferedBox]) -> bytes:
        """Return the bytes of parts of arrays, one behind the other."""
        return b"".join(self.part(one).tobytes() for one in boxes)

    def part(self, one: OfferedBox) -> Any:
        """Return a part of a piece."""
        _, pieces = self._pieces[one.path]
        return self.piece(one.path, one.piece)[slices(one.box, pieces[one.piece].bounds)]

    def piece(self, path: str, number: int) -> Any:
        """Return a piece of the array at a path as a NumPy array."""
        found = self._read.get((path, number))
        if found is None:
            dtype, pieces = self._pieces[path]
            piece = pieces[number]
            found = piece.read().reshape(shape_of(piece.bounds)).view(dtype)
            self._read[path, number] = found
        return found

    def close(self) -> None:
        """Drop all pieces."""
        self._pieces.clear()
        self._read.clear()


class ArraySink(HeldValue):
    """Arrays that a kernel brings to this process."""

    def share(self, sizes: Sequence[int], spots: Sequence[Sequence[Spot]]) -> list[MemoryAddress]:
        """Make memories that messages are to fill.

        Args:
          sizes: The size of each, in bytes.
          spots: Where each piece of each array that is wanted here will lie.

        Returns:
          Their addresses; none if other processes cannot have them.
        """
        raise NotImplementedError

    def put(self, memory: int, at: int, data: Any) -> None:
        """Copy bytes into a memory made here, `at` bytes from its start."""
        raise NotImplementedError


def room(wanted: Iterable[Iterable[Box]]) -> Room:
    """Return these wanted parts of each array, the available memory, and the control groups that limit it."""
    return Room(
        wanted=tuple(map(tuple, wanted)),
        available=checkup.memory()["available"],
        group=checkup.group(),
    )


H = TypeVar("H", bound=HeldValue)


class Moving:
    """Holder of the one value that is on its way to or from this process, if there is one."""

    def __init__(self) -> None:
        self._token = ""
        self._held: HeldValue | None = None

    def begin(self, token: str, held: HeldValue) -> None:
        """Hold a value; first drop an earlier value that was left behind."""
        self.end()
        self._token, self._held = token, held

    def held(self, token: str, kind: type[H]) -> H:
        """Return the value that is held under this token.

        Raises:
          StaleError: The value is not held any more.
        """
        if self._token != token or not isinstance(self._held, kind):
            raise StaleError(
                "The processes were repaired, or another kernel moved values, while these were on their way. "
                "Nothing here was changed; try again."
            )
        return self._held

    def end(self, token: str | None = None) -> None:
        """Drop the value that is held; with `token`, only the value of this token."""
        if token in (None, self._token) and self._held is not None:
            self._held.close()
            self._held = None


Place = Callable[[Any], tuple[list[Box], Callable[[list[Any]], Any]]]
"""A function of an array's dtype and shape; returns which parts belong here, and how to make the array of them."""

COMMON = 0
"""The memory that pieces without one of their own share: they are copied out of it, so that it can be freed."""


class Incoming(ArraySink):
    """Values on their way here, held from a kernel's first message until they have names or the kernel gives up.

    The bytes come through shared memories. On each machine one process, the owner, makes and fills them: the
    kernel, or a process that gets the bytes in messages.

    Args:
      arrays: Each array that is sent apart from the values that hold it.
      place: How an array is divided over the processes; None: each process gets it whole, as a NumPy array.
    """

    def __init__(self, arrays: Sequence[ArrayType], *, place: Place | None) -> None:
        self._dtypes: list[Any] = []
        self._bounds: list[list[Box]] = []
        self._finish: list[Callable[[list[Any]], Any]] = []
        self._spots: Sequence[Sequence[Spot]] = []
        self._own: list[Sealed] = []
        self._memories: list[Any] = []
        self._ready: dict[str, Any] | None = None
        for array in arrays:
            dtype, shape = dtype_named(array.dtype), array.shape
            bounds, finish = _whole(shape) if place is None else place((dtype, shape))
            self._dtypes.append(dtype)
            self._bounds.append(bounds)
            self._finish.append(finish)

    def describe(self) -> Room:
        """Return the wanted pieces of each array, the available memory, and the control groups that limit it."""
        return room(self._bounds)

    def share(self, sizes: Sequence[int], spots: Sequence[Sequence[Spot]]) -> list[MemoryAddress]:
        """Make memories that messages are to fill.

        Args:
          sizes: The size of each, in bytes.
          spots: Where each piece of each array that is wanted here will lie.

        Returns:
          Their addresses; none if this system has no memory that processes share.
        """
        import numpy

        self._spots = spots
        try:
            for size in sizes:
                self._own.append(Sealed(size))
            addresses = [memory.address for memory in self._own]
            self._memories = [mapped(address) if address.nbytes else b"" for address in addresses]
        except (OSError, ValueError):
            self._close_own()
            self._memories = [numpy.empty(size, numpy.uint8) for size in sizes]
            return []
        return addresses

    def join(self, addresses: Sequence[MemoryAddress], spots: Sequence[Sequence[Spot]]) -> bool:
        """Take the memories of another process; return whether that succeeded.

        Args:
          addresses: The address of each memory.
          spots: Where each piece of each array that is wanted here will lie.
        """
        try:
            memories = [mapped(one) if one.nbytes else b"" for one in addresses]
        except (OSError, ValueError):
            return False
        self._memories, self._spots = memories, spots
        return True

    def put(self, memory: int, at: int, data: Any) -> None:
        """Copy bytes into a memory made here, `at` bytes from its start."""
        if self._own:
            self._own[memory].write(at, data)
        else:
            self._memories[memory][at : at + len(data)] = memoryview(data)

    def make(self, structure: Any) -> None:
        """Make the values; they have no names yet.

        Args:
          structure: The values by name, pickled, with numbers in place of arrays.

        Raises:
          Exception: Whatever unpickling raises, such as for a module that is not installed here.
        """
        for memory in self._own:
            memory.seal()
        made = [
            finish([self._piece(number, piece) for piece in range(len(self._bounds[number]))])
            for number, finish in enumerate(self._finish)
        ]
        self._let_go()
        self._ready = unpacked(structure, made.__getitem__)

    def values(self) -> dict[str, Any]:
        """Return the values by name.

        Raises:
          SessionError: Not all values have come.
        """
        if self._ready is None:
            raise SessionError("What was pushed did not arrive completely; nothing was changed.")
        return self._ready

    def close(self) -> None:
        """Drop the values and the memories."""
        self._ready = None
        self._let_go()

    def _piece(self, number: int, piece: int) -> Any:
        import numpy

        dtype, shape = self._dtypes[number], shape_of(self._bounds[number][piece])
        if not dtype.itemsize * math.prod(shape):
            return numpy.empty(shape, dtype)
        memory, at = self._spots[number][piece]
        found = numpy.ndarray(shape, dtype, self._memories[memory], offset=at)
        return found.copy() if memory == COMMON else found

    def _let_go(self) -> None:
        self._close_own()
        for memory in self._memories[: COMMON + 1]:
            if isinstance(memory, mmap.mmap):
                with contextlib.suppress(BufferError):  # an error's traceback may still refer to it
                    memory.close()
        self._memories, self._spots = [], []

    def _close_own(self) -> None:
        for memory in self._own:
            memory.close()
        self._own = []


def _whole(shape: tuple[int, ...]) -> tuple[list[Box], Callable[[list[Any]], Any]]:
    return [whole_of(shape)], lambda parts: parts[0]
