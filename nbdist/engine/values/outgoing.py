"""A value of this process that a kernel is taking: described, compared, and given piece by piece."""

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
"""So many places of a value are listed where two processes differ."""


class Outgoing(Source):
    """Held from the offer of a value until the kernel has it or has given up.

    Args:
      value: Any object of the user.
      expression: How it was named.
      offer_array: That of the session's framework.
      frameworks: All that have been imported, those that build on others first.

    Raises:
      ArrayError: It cannot be sent; the text says why and where.
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
        # Made at once: it finds the arrays inside of objects that say nothing of what they hold.
        self._structure = self._tree.packed(value, expression)
        self._memories: list[Opened] = []
        self._read: dict[tuple[str, int], Any] = {}

    def describe(self) -> ValueOffer:
        """Its arrays by path, and a digest of all else."""
        arrays = {path: array.describe() for path, array in self._tree.arrays.items()}
        return ValueOffer(arrays=arrays, digest=self._tree.digest())

    def structure(self) -> bytes:
        """The value pickled, with the paths of arrays in place of them."""
        return self._structure

    def nodes(self) -> list[tuple[str, str, str]]:
        """Path, digest and text of all that it holds; where processes differ, these say where."""
        return [(n.path, n.digest, n.text) for n in self._tree.nodes[:MOST_NODES]]

    def digests(self, pieces: Sequence[tuple[str, int]]) -> list[str]:
        """A digest of each of these pieces, which are equal where their bytes are."""
        return [digest(self._piece(path, number)) for path, number in pieces]

    def preview(self, path: str, number: int) -> str:
        """The first elements of a piece, as text."""
        piece = self._piece(path, number).reshape(-1)
        shown = ", ".join(str(element) for element in piece[:PREVIEWED])
        return f"[{shown}{', …' if piece.size > PREVIEWED else ''}]"

    def open(self, addresses: Sequence[MemoryAddress]) -> bool:
        """Opens memories of the kernel; whether this process can."""
        try:
            for address in addresses:
                self._memories.append(Opened(address))
        except OSError:
            self._close_memories()
            return False
        return True

    def take(self, boxes: Sequence[OfferedBox]) -> bytes:
        """The bytes of parts of arrays, one behind the other."""
        return b"".join(self._box(box).tobytes() for box in boxes)

    def write(self, boxes: Sequence[OfferedBox], spots: Sequence[Spot]) -> None:
        """Writes parts of arrays into memories of the kernel.

        Args:
          boxes: Which parts.
          spots: For each, in which memory its whole array is to be, and how many bytes from its start.
        """
        for one, (memory, at) in zip(boxes, spots, strict=True):
            shape, part = self._tree.arrays[one.path].shape, self._box(one)
            self._memories[memory].write_box(at, shape, one.box, part)

    def close(self) -> None:
        """Lets go of all it holds."""
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
