"""A value of this process that a kernel is taking: described, compared, and sent piece by piece."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nbdist.bounds import shape_of, slices
from nbdist.contract.calls.values import OfferedBox, Spot, ValueOffer
from nbdist.contract.memory_address import MemoryAddress
from nbdist.dtypes import dtype_named
from nbdist.engine.values.arrays import digest
from nbdist.engine.values.moving import Source
from nbdist.engine.values.parts import OfferArray, Parts
from nbdist.engine.values.tree import Tree
from nbdist.machine.sealed import Opened

PREVIEWED = 3
"""Elements of an array that an error text shows."""

MOST_NODES = 20_000
"""How many places of a value are listed when two processes differ."""


class Outgoing(Source):
    """A value on its way to a kernel, held from its offer until the kernel has it or gives up.

    Args:
      value: Any object of the user.
      expression: How the user named it.
      offer_array: Offers arrays of the session's framework.
      frameworks: All that have been imported, those that build on others first.

    Raises:
      ArrayError: The value cannot be sent; the text says why and where.
    """

    def __init__(
        self,
        value: Any,
        expression: str,
        offer_array: OfferArray,
        frameworks: Sequence[Parts],
    ) -> None:
        # A variable by itself comes as its array; within a tree it stays what it is.
        for framework in frameworks:
            value = framework.unwrapped(value)
        self._tree = Tree(value, expression, offer_array, frameworks)
        # Made at once: pickling finds the arrays inside of objects that do not list their contents.
        self._structure = self._tree.packed(value, expression)
        self._memories: list[Opened] = []
        self._read: dict[tuple[str, int], Any] = {}

    def describe(self) -> ValueOffer:
        """Return the value's arrays by path, and a digest of all else."""
        arrays = {path: array.describe() for path, array in self._tree.arrays.items()}
        return ValueOffer(arrays=arrays, digest=self._tree.digest())

    def structure(self) -> bytes:
        """Return the value pickled, with the paths of arrays in place of them."""
        return self._structure

    def nodes(self) -> list[tuple[str, str, str]]:
        """Return path, digest and text of all that the value holds, to find where processes differ."""
        return [(n.path, n.digest, n.text) for n in self._tree.nodes[:MOST_NODES]]

    def digests(self, pieces: Sequence[tuple[str, int]]) -> list[str]:
        """Return a digest of each of these pieces; digests are equal where the bytes are."""
        return [digest(self._piece(path, number)) for path, number in pieces]

    def preview(self, path: str, number: int) -> str:
        """Return the first elements of a piece, as text."""
        piece = self._piece(path, number).reshape(-1)
        shown = ", ".join(str(element) for element in piece[:PREVIEWED])
        return f"[{shown}{', …' if piece.size > PREVIEWED else ''}]"

    def open(self, addresses: Sequence[MemoryAddress]) -> bool:
        """Open memories of the kernel; return whether this process can."""
        try:
            for address in addresses:
                self._memories.append(Opened(address))
        except OSError:
            self._close_memories()
            return False
        return True

    def take(self, boxes: Sequence[OfferedBox]) -> bytes:
        """Return the bytes of parts of arrays, one behind the other."""
        return b"".join(self._box(box).tobytes() for box in boxes)

    def write(self, boxes: Sequence[OfferedBox], spots: Sequence[Spot]) -> None:
        """Write parts of arrays into memories of the kernel.

        Args:
          boxes: Which parts.
          spots: For each part, the memory that its whole array goes to, and how many bytes from its start.
        """
        for one, (memory, at) in zip(boxes, spots, strict=True):
            shape, part = self._tree.arrays[one.path].shape, self._box(one)
            self._memories[memory].write_box(at, shape, one.box, part)

    def close(self) -> None:
        """Drop the pieces that were read, and close the memories."""
        self._read.clear()
        self._close_memories()

    def _close_memories(self) -> None:
        for memory in self._memories:
            memory.close()
        self._memories = []

    def _box(self, one: OfferedBox) -> Any:
        origin = self._tree.arrays[one.path].pieces[one.piece].bounds
        return self._piece(one.path, one.piece)[slices(one.box, origin)]

    def _piece(self, path: str, number: int) -> Any:
        found = self._read.get((path, number))
        if found is None:
            array = self._tree.arrays[path]
            piece = array.pieces[number]
            found = piece.read().reshape(shape_of(piece.bounds)).view(dtype_named(array.dtype))
            self._read[path, number] = found
        return found
