"""A namespace that comes to this process from one that has lived on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from nbdist.bounds import shape_of, slices
from nbdist.contract.calls.namespace import NamespaceArray, NotMade
from nbdist.contract.calls.values import Box, Room, Spot, box
from nbdist.dtypes import dtype_named
from nbdist.engine.cell.showable import error_text
from nbdist.engine.namespace.entries import Entry, Setting
from nbdist.engine.namespace.objects import Objects
from nbdist.engine.namespace.packing import unpacked, unpacked_each
from nbdist.engine.namespace.placements import Parts, Placements
from nbdist.engine.values.moving import Sink
from nbdist.machine import checkup


class IncomingNamespace(Sink):
    """State of a transfer, held from the kernel's first message until all is made or the kernel has given up.

    Args:
      namespace: The user's dictionary on this process.
      placements: Of the framework that the session computes with.
      arrays: Arrays that come apart from the values that hold them.
      placements_pickle: How these arrays lie on devices.
    """

    def __init__(
        self,
        namespace: dict[str, Any],
        placements: Placements,
        arrays: Sequence[NamespaceArray],
        placements_pickle: Any,
    ) -> None:
        self._namespace, self._placements, self._arrays = namespace, placements, arrays
        lying = unpacked(placements_pickle, namespace, placements.referent)
        self._places = [
            placements.place(array, placement) if placement is not None else whole(array)
            for array, placement in zip(arrays, lying, strict=True)
        ]
        self._memory: Any = b""
        self._spots: Sequence[Sequence[Spot]] = []
        self._made: dict[int, Any] = {}

    def describe(self) -> Room:
        """Return the wanted parts of each array, and the memory that is available for them."""
        return Room(
            wanted=tuple(tuple(map(box, bounds)) for bounds, _ in self._places),
            available=checkup.memory()["available"],
            group=checkup.group(),
        )

    def cover(self, covers: Sequence[Sequence[Sequence[Box]]]) -> Room:
        """Take the wanted parts of arrays in the parts that other processes have; see `CoverNamespace`."""
        self._places = [
            _covered(bounds, finish, its, dtype_named(array.dtype))
            for array, (bounds, finish), its in zip(self._arrays, self._places, covers, strict=True)
        ]
        return self.describe()

    def share(self, sizes: Sequence[int], spots: Sequence[Sequence[Spot]]) -> list[Any]:
        """Make room for all that comes in messages, in one memory; share it with nobody.

        Args:
          sizes: In bytes; their sum is the size of the memory.
          spots: Where each wanted part will lie in the memory.
        """
        import numpy

        self._memory, self._spots = numpy.empty(sum(sizes), numpy.uint8), spots
        return []

    def put(self, memory: int, at: int, data: Any) -> None:
        """Take bytes, `at` bytes from the start of the memory."""
        self._memory[at : at + len(data)] = memoryview(data)

    def make(
        self, structure: Any, lost: Collection[int], objects: Callable[[str], Objects | None]
    ) -> Setting | NotMade:
        """Make all values, and give each its name.

        Args:
          structure: The pickle of the values, without arrays.
          lost: Numbers of arrays of which parts are missing.
          objects: Returns the `Objects` of a framework by name, once all values are there.

        Returns:
          What has been set; or the first entry that raised: then no name is set, and the call may be repeated.

        Raises:
          Exception: Whatever making arrays raises.
        """
        for number, (described, (bounds, finish)) in enumerate(
            zip(self._arrays, self._places, strict=True)
        ):
            if number in self._made:
                continue
            parts = None if number in lost else [self._piece(number, n) for n in range(len(bounds))]
            array = self._made[number] = finish(parts)
            if described.origin is not None:
                self._placements.came_from(array, described.origin)
        before = dict(self._namespace)
        setting = Setting(self._namespace, self._placements, objects)
        values = unpacked_each(structure, self._namespace, self._referent)
        entries: Sequence[Entry] = next(values)
        for entry in entries:
            try:
                setting.set(entry, next(values))
            except (Exception, SystemExit) as error:  # noqa: BLE001 - any object's own
                self._namespace.clear()
                self._namespace.update(before)
                return NotMade(entry=entry.number, why=error_text(error))
        return setting

    def close(self) -> None:
        """Let go of all that is held."""
        self._made, self._memory, self._spots = {}, b"", []

    def _referent(self, reference: Any) -> Any:
        return (
            self._made[reference]
            if type(reference) is int
            else self._placements.referent(reference)
        )

    def _piece(self, number: int, piece: int) -> Any:
        import numpy

        dtype = dtype_named(self._arrays[number].dtype)
        shape = shape_of(self._places[number][0][piece])
        if 0 in shape or not dtype.itemsize:
            return numpy.empty(shape, dtype)
        _, at = self._spots[number][piece]
        return numpy.ndarray(shape, dtype, self._memory, offset=at).copy()


def whole(array: NamespaceArray) -> tuple[list[list[list[int]]], Any]:
    """Return the wanted part of a NumPy array, which is all of it, and a function that makes the array."""

    def finish(parts: Parts) -> Any:
        assert parts is not None
        return parts[0]

    return [[[0, size] for size in array.shape]], finish


def _covered(
    wanted: list[list[list[int]]],
    finish: Callable[[Parts], Any],
    covers: Sequence[Sequence[Box]],
    dtype: Any,
) -> tuple[list[list[list[int]]], Callable[[Parts], Any]]:
    """Return the parts that come in place of the wanted ones, and a function that makes the array of them."""

    def whole_parts(parts: Parts) -> Any:
        if parts is None:
            return finish(None)
        import numpy

        left, found = iter(parts), []
        for bounds, cover in zip(wanted, covers, strict=True):
            made = numpy.empty(shape_of(bounds), dtype)
            for part in cover:
                made[slices(part, bounds)] = next(left)
            found.append(made)
        return finish(found)

    return [[list(pair) for pair in part] for cover in covers for part in cover], whole_parts
