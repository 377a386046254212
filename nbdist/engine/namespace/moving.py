"""Transfer of all that the user's names lead to, from a surviving process to one that replaces another.

`OutgoingNamespace` holds it on the surviving process until a kernel has taken it; `IncomingNamespace` makes it
anew on the other process. Values travel as one pickle, in which objects that two names share stay shared; arrays
travel beside it as raw bytes. A value that cannot be pickled, or cannot be made on the other side, is left out and
its reason reported.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from nbdist.contract.calls.namespace import LeftOut, NamespaceArray, NamespaceOffer, NotMade
from nbdist.contract.calls.values import Box, Room, Spot
from nbdist.engine.namespace.copies import CopyStore, with_copies
from nbdist.engine.namespace.modules import by_value, taken_along, whole
from nbdist.engine.namespace.packing import (
    Entry,
    EntrySetter,
    Kind,
    is_view,
    packed,
    packed_each,
    unpacked,
    unpacked_each,
)
from nbdist.engine.namespace.things import Objects, Parts, Placements
from nbdist.engine.probe.samples import Sample
from nbdist.engine.values.arrays import is_numpy_array, whole_of
from nbdist.engine.values.arrays import whole as whole_array
from nbdist.engine.values.incoming import ArraySink, ArraySource, room
from nbdist.errors import ArrayError, error_text
from nbdist.notation import dtype_named
from nbdist.pieces import shape_of, slices

APART_BYTES = 1 << 16
"""Smallest array of NumPy, in bytes, that is sent beside the pickle of the object that holds it."""


class OutgoingNamespace(ArraySource):
    """All that the user's names lead to on this process, held until the kernel has it or has given up.

    Args:
      namespace: The user's dictionary.
      placements: Of the framework that the session computes with.
      objects: Those of the frameworks that have been imported, by name.
      look: Returns samples of values by name, for comparison between processes.
      copies: Copies that this process keeps of parts of arrays.
    """

    def __init__(
        self,
        namespace: dict[str, Any],
        placements: Placements,
        objects: Mapping[str, Objects],
        look: Callable[[Mapping[str, Any]], Mapping[str, Sample]],
        copies: CopyStore,
    ) -> None:
        super().__init__()
        self._namespace = namespace
        self._placements = placements
        self._objects = objects
        self._look = look
        self._copies = copies
        self._arrays: list[Any] = []
        self._numbers: dict[int, int] = {}
        self._described: list[NamespaceArray] = []
        self._modules: Collection[str] = ()
        self._entries: dict[int, tuple[Entry, Any]] = {}
        self._offered_already = False

    def offer(
        self, names: Mapping[str, Any], hooks: Mapping[str, Any], things: Collection[str] = ()
    ) -> tuple[NamespaceOffer, bytes, bytes]:
        """Return a description of the namespace, and two pickles: how the arrays lie, and all else.

        Args:
          names: The user's names.
          hooks: Functions that are to be called on the new process, by name.
          things: Things of modules that are sent; see `nbdist.engine.namespace.modules`.

        Raises:
          ArrayError: A value cannot exist on the other process's devices; the error has the value's name.
        """
        self._modules = whole(things)
        with by_value(self._modules):
            modules = taken_along(things, lambda value: self._why_not(value) is None)
            kinds: dict[Kind, Mapping[str, Any]] = {
                Kind.PLACEMENTS: {"the mesh or device that is set": self._placements.settings()},
                Kind.MODULE: modules,
                Kind.NAME: dict(names),
                Kind.HOOK: dict(hooks),
                Kind.FRAMEWORK: {name: one.settings() for name, one in self._objects.items()},
            }
            every = [
                (kind, name, value) for kind, its in kinds.items() for name, value in its.items()
            ]
            for number, (kind, name, value) in enumerate(every):
                self._entries[number] = Entry(number=number, kind=kind, name=name), value
            structure, left_out = self._structure()
        placements = self._packed([self._placement(array) for array in self._arrays])
        self._offered_already = True
        names = {e.name: value for e, value in self._entries.values() if e.kind == Kind.NAME}
        looked = self._look(names)
        offer = NamespaceOffer(
            arrays=tuple(self._described),
            names=tuple(names),
            left_out=left_out,
            digests=_texts(looked),
            own=tuple(name for name, one in looked.items() if one.own),
            changes=tuple(self._placements.changes()),
        )
        return offer, placements, structure

    def again(
        self, *, without: Mapping[int, str], late: Sequence[int]
    ) -> tuple[bytes, tuple[LeftOut, ...]]:
        """Return the pickle of what was offered, without these entries; see `PackAgain`.

        Raises:
          ArrayError: As `offer` does.
        """
        left_out = [_left_out(*self._entries.pop(n), why) for n, why in without.items()]
        last = [n for n in self._entries if self._entries[n][0].kind == Kind.FRAMEWORK]
        for number in (*late, *last):
            if number in self._entries:
                self._entries[number] = self._entries.pop(number)
        with by_value(self._modules):
            structure, more = self._structure()
        return structure, (*left_out, *more)

    def _structure(self) -> tuple[bytes, tuple[LeftOut, ...]]:
        """Return the pickle of all entries, and the entries left out since they cannot be pickled."""
        try:
            return self._entries_packed(), ()
        except Exception:  # noqa: BLE001 - any object's own
            left_out = []
            for number, (entry, value) in list(self._entries.items()):
                error = self._why_not(value)
                if isinstance(error, ArrayError):
                    raise ArrayError(f"{entry.name}: {error}") from error
                if error is not None:
                    left_out.append(_left_out(*self._entries.pop(number), error_text(error)))
            return self._entries_packed(), tuple(left_out)

    def _entries_packed(self) -> bytes:
        entries, values = zip(*self._entries.values(), strict=True)
        return packed_each(
            [entries, *values], self._namespace, self._reference, self._reduce, self._modules
        )

    def offer_arrays(self, keys: Collection[str], names: Mapping[str, Any]) -> NamespaceOffer:
        """Return a description of the arrays that have these keys here, and of all names."""
        for array in self._placements.find(keys).values():
            self._number(array)
        return NamespaceOffer(
            arrays=tuple(self._described), names=tuple(names), digests=_texts(self._look(names))
        )

    def close(self) -> None:
        """Let go of all that is held."""
        super().close()
        self._arrays, self._numbers, self._entries = [], {}, {}

    def _packed(self, value: object) -> bytes:
        return packed(value, self._namespace, self._reference, self._reduce, self._modules)

    def _reduce(self, value: Any) -> Any | None:
        found = (one.reduce(value) for one in self._objects.values())
        return next((one for one in found if one is not None), None)

    def _why_not(self, value: object) -> Exception | None:
        try:
            self._packed(value)
        except Exception as error:  # noqa: BLE001 - any object's own
            return error
        return None

    def _reference(self, value: Any) -> Any:
        apart = self._placements.is_array(value) or (
            is_numpy_array(value) and value.nbytes >= APART_BYTES and not is_view(value)
        )
        # An object may make an array anew each time it is pickled: such an array was not offered.
        if apart and not (self._offered_already and id(value) not in self._numbers):
            return self._number(value)
        return self._placements.reference(value)

    def _number(self, array: Any) -> int:
        if id(array) not in self._numbers:
            number = self._numbers[id(array)] = len(self._arrays)
            self._arrays.append(array)
            if is_numpy_array(array):
                offered = whole_array(array)
                pieces = offered.pieces
                described = NamespaceArray(
                    key=f"numpy {number}",
                    dtype=offered.dtype,
                    shape=array.shape,
                    spans=False,
                    origin=None,
                    pieces=offered.describe().pieces,
                )
            else:
                described = self._placements.describe(array, number)
                kept = self._copies.beside(described)
                pieces = [*self._placements.pieces(array), *kept]
                described = with_copies(described, kept)
            self.add(str(number), described.dtype, pieces)
            self._described.append(described)
        return self._numbers[id(array)]

    def _placement(self, array: Any) -> Any:
        return None if is_numpy_array(array) else self._placements.placement(array)


def _left_out(entry: Entry, value: object, why: str) -> LeftOut:
    kind = type(value).__qualname__ if entry.kind in (Kind.NAME, Kind.HOOK) else entry.kind.value
    return LeftOut(name=entry.name, type=kind, why=why)


def _texts(looked: Mapping[str, Sample]) -> dict[str, str]:
    return {name: one.text for name, one in looked.items()}


class IncomingNamespace(ArraySink):
    """Namespace from a process that has lived on, held until all of it is made here or the kernel has given up.

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
            placements.place(array, placement) if placement is not None else _all_of(array)
            for array, placement in zip(arrays, lying, strict=True)
        ]
        self._memory: Any = b""
        self._spots: Sequence[Sequence[Spot]] = []
        self._made: dict[int, Any] = {}

    def describe(self) -> Room:
        """Return the wanted parts of each array, and the memory that is available for them."""
        return room(bounds for bounds, _ in self._places)

    def cover(self, covers: Sequence[Sequence[Sequence[Box]]]) -> Room:
        """Divide the wanted parts of arrays into parts that other processes have; see `CoverNamespace`."""
        self._places = [
            _covered(bounds, finish, its, dtype_named(array.dtype))
            for array, (bounds, finish), its in zip(self._arrays, self._places, covers, strict=True)
        ]
        return self.describe()

    def share(self, sizes: Sequence[int], spots: Sequence[Sequence[Spot]]) -> list[Any]:
        """Make room for all that comes in messages, in one memory of this process alone.

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
    ) -> EntrySetter | NotMade:
        """Make all values, and give each its name.

        Args:
          structure: The pickle of the values, without arrays.
          lost: Numbers of arrays of which parts are missing.
          objects: Returns the `Objects` of a framework by name, once all values are there.

        Returns:
          What has been set. Or the first entry that raised: then no name is set, and the call may be repeated.

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
        setting = EntrySetter(self._namespace, self._placements, objects)
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


def _all_of(array: NamespaceArray) -> tuple[list[Box], Any]:
    """Return the wanted part of a NumPy array, which is all of it, and a function that makes the array."""

    def finish(parts: Parts) -> Any:
        assert parts is not None
        return parts[0]

    return [whole_of(array.shape)], finish


def _covered(
    wanted: Sequence[Box],
    finish: Callable[[Parts], Any],
    covers: Sequence[Sequence[Box]],
    dtype: Any,
) -> tuple[list[Box], Callable[[Parts], Any]]:
    """Return the parts that come in place of the wanted ones, and a function that makes the array from them."""

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

    return [part for cover in covers for part in cover], whole_parts
