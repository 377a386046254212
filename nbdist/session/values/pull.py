"""Pulls of values, which are put together here from the parts on each process.

`Pull` has processes fill the arrays in this notebook, which `Arriving` holds: processes on the same machine write
into them directly, others send messages.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nbdist.contract.calls import Done
from nbdist.contract.calls.values import (
    ArrayOffer,
    AskStructure,
    Box,
    OfferedBox,
    OpenMemories,
    Take,
    Write,
    box,
)
from nbdist.engine.values.arrays import unpacked
from nbdist.engine.values.incoming import COMMON
from nbdist.errors import ArrayError
from nbdist.launch.start.pending import Pending
from nbdist.machine.sealed import Sealed, mapped
from nbdist.notation import bytes_text, dtype_named
from nbdist.pieces import Bounds, boxes, elements, shape_of, slices
from nbdist.session.values.flow import (
    PART_BYTES,
    SHARED_BYTES,
    Answer,
    Flow,
    PartsMessage,
    Progress,
    Spots,
    WantedPiece,
    refuse_too_large_here,
    silent,
)
from nbdist.session.values.offers import Offers
from nbdist.spelling import option

Array = np.ndarray[Any, Any]

LEAST_SHARED_BYTES = 1 << 20
"""The total size in bytes from which processes write into arrays directly; smaller ones arrive faster in
messages."""


class Arriving:
    """Memory for arrays that are to arrive.

    Args:
      arrays: The dtype and shape of each array.

    Attributes:
      addresses: The addresses of memories that processes on this machine can write to; none if this system has no
        such memory, or the arrays are too small to be worth it.
    """

    def __init__(self, arrays: Sequence[tuple[np.dtype[Any], tuple[int, ...]]]) -> None:
        self._arrays = arrays
        self._pieces = [
            WantedPiece(
                array=n, bounds=tuple((0, size) for size in shape), nbytes=_nbytes(dtype, shape)
            )
            for n, (dtype, shape) in enumerate(arrays)
        ]
        self._spots = Spots(self._pieces)
        self._filled: dict[int, Array] = {}
        self._memories: list[Sealed] = []
        if sum(self._spots.sizes) >= LEAST_SHARED_BYTES:
            try:
                for size in self._spots.sizes:
                    self._memories.append(Sealed(size))
            except OSError:
                self.close()
        self.addresses = [memory.address for memory in self._memories]

    def dtype(self, number: int) -> np.dtype[Any]:
        """Return the dtype of an array."""
        return self._arrays[number][0]

    def spot(self, number: int) -> tuple[int, int]:
        """Return the memory in which an array lies, and how many bytes from its start."""
        return self._spots.of(self._pieces[number])

    def put(self, number: int, box: Bounds, part: Array) -> None:
        """Take a part of an array that has arrived in a message."""
        if self._memories:
            memory, at = self.spot(number)
            self._memories[memory].write_box(at, self._arrays[number][1], box, part)
        else:
            self._empty(number)[slices(box)] = part

    def arrays(self) -> list[Array]:
        """Return all arrays; call this when they are filled."""
        if not self._memories:
            return [self._empty(number) for number in range(len(self._arrays))]
        for memory in self._memories:
            memory.seal()
        maps = [mapped(its) if its.nbytes else b"" for its in self.addresses]
        return [self._mapped(number, maps) for number in range(len(self._arrays))]

    def close(self) -> None:
        """Release the memories; arrays keep theirs."""
        for memory in self._memories:
            memory.close()
        self._memories = []

    def _empty(self, number: int) -> Array:
        if number not in self._filled:
            dtype, shape = self._arrays[number]
            self._filled[number] = np.empty(shape, dtype)
        return self._filled[number]

    def _mapped(self, number: int, maps: Sequence[Any]) -> Array:
        dtype, shape = self._arrays[number]
        if not _nbytes(dtype, shape):
            return np.empty(shape, dtype)
        memory, at = self.spot(number)
        found: Array = np.ndarray(shape, dtype, maps[memory], offset=at)
        return found.copy() if memory == COMMON else found


def _nbytes(dtype: np.dtype[Any], shape: Sequence[int]) -> int:
    return int(dtype.itemsize) * math.prod(shape)


LARGE_BYTES = 1 << 30
"""The size in bytes above which a value is pulled only if the person agrees: 1 GiB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrivingPart:
    """A part of an array that arrives here, and its source.

    Attributes:
      array: The number of the array.
      box: The bounds of the part.
      path: The path of the array in the value on its process.
      piece: The number of the piece there.
    """

    array: int
    box: Bounds
    path: str
    piece: int


class Pull:
    """The pull of a value that processes offer.

    Args:
      offers: The processes' offers of one value.
    """

    def __init__(self, offers: Offers) -> None:
        self._offers = offers

    def refuse_large(
        self, wanted: int, limit_bytes: int, confirm: Callable[[str], bool] | None
    ) -> None:
        """Refuse a large value, unless there is room for it and a person agrees.

        Args:
          wanted: How many such values are wanted; their sizes are added.
          limit_bytes: The size above which a person is asked.
          confirm: Asked with a sentence; None if nobody can be asked.

        Raises:
          ArrayError: The value is too large.
        """
        expression = self._offers.expression
        arrays = next(iter(self._offers.by_process.values())).arrays.values()
        nbytes = wanted * sum(array.nbytes for array in arrays)
        refuse_too_large_here(expression, nbytes)
        if nbytes <= limit_bytes:
            return
        size = bytes_text(nbytes)
        question = f"{expression!r} is {size} in whole. Bring it into this notebook?"
        if confirm is None or not confirm(question):
            raise ArrayError(
                f"{expression!r} is {size} in whole, more than {bytes_text(limit_bytes)}: not pulled. Say "
                f"{option('limit_bytes', True)} to pull it all the same, or pull a part of it."
            )

    def values(
        self,
        *,
        of: Sequence[int],
        besides: Sequence[PartsMessage] = (),
        progress: Progress = silent,
    ) -> dict[int, Any]:
        """Return the values of some processes, by process id.

        An array in pieces on several processes is taken from all that offer it; one that is whole on a process,
        from that process. With one process in `of`, each part is taken from the process that has least to send.

        Args:
          of: The processes.
          besides: Further jobs. Half of them are done first and half last, so that some processes compute while
            others move bytes.
          progress: Called as bytes come.

        Raises:
          ArrayError: Pieces are missing, or a class is not here.
          NbdistError: What `besides` has raised.
        """
        offered = self._offers.by_process
        answers = self._offers.ask(AskStructure(token=self._offers.token), of)
        numbers = {
            (p, path): (nth, described)
            for nth, (p, path, described) in enumerate(
                (p, path, its) for p in of for path, its in offered[p].arrays.items()
            )
        }
        arriving = Arriving([_type(described) for _, described in numbers.values()])
        with contextlib.closing(arriving):
            near = self._near(arriving)
            most_bytes = SHARED_BYTES if near.issuperset(offered) else PART_BYTES
            parts: dict[int, list[ArrivingPart]] = {p: [] for p in offered}
            for (p, path), (number, described) in numbers.items():
                sources = offered if len(of) == 1 or not described.whole else (p,)
                self._divide(number, path, described, sources, parts, most_bytes)
            jobs = (
                job for p, its in parts.items() for job in self._jobs(p, its, arriving, p in near)
            )
            flow = Flow(self._offers.processes, timeout_s=self._offers.timeout_s, progress=progress)
            flow.run(itertools.chain(besides[::2], jobs, besides[1::2]))
            arrays = arriving.arrays()
        made = {p: {path: arrays[n] for (q, path), (n, _) in numbers.items() if q == p} for p in of}
        return {p: unpacked(answers[p][1][0], made[p].__getitem__) for p in of}

    def _divide(
        self,
        number: int,
        path: str,
        described: ArrayOffer,
        sources: Iterable[int],
        parts: dict[int, list[ArrivingPart]],
        most_bytes: int,
    ) -> None:
        """Add to `parts` what is to be taken from each process for an array."""
        dtype, shape = _type(described)
        holders: dict[Box, dict[int, int]] = {}
        for source in sources:
            offered = self._offers.by_process[source].arrays.get(path)
            for piece, bounds in enumerate(offered.pieces if offered else ()):
                holders.setdefault(bounds, {})[source] = piece
        whole = math.prod(shape)
        here = sum(map(elements, holders))
        if here != whole:
            raise ArrayError(
                f"{path!r}: only {here} of {whole} elements are on the processes that were asked; the rest is on "
                "processes that are gone or not targets."
            )
        for bounds, held in holders.items():
            for part in boxes(bounds, dtype.itemsize, most_bytes):
                source = min(held, key=lambda p: len(parts[p]))
                parts[source].append(
                    ArrivingPart(array=number, box=part, path=path, piece=held[source])
                )

    def _near(self, arriving: Arriving) -> set[int]:
        """Have processes open memory of this notebook; return those that could."""
        if not arriving.addresses:
            return set()
        answers = self._offers.ask(
            OpenMemories(token=self._offers.token, addresses=tuple(arriving.addresses)),
            self._offers.by_process,
        )
        return {p for p, (answer, _) in answers.items() if answer.opened}

    def _jobs(
        self, process_id: int, parts: Iterable[ArrivingPart], arriving: Arriving, near: bool
    ) -> Iterable[PartsMessage]:
        def nbytes(part: ArrivingPart) -> int:
            return elements(part.box) * arriving.dtype(part.array).itemsize

        token = self._offers.token

        def begin(batch: Sequence[ArrivingPart]) -> Pending[Done]:
            wanted = tuple(
                OfferedBox(path=part.path, piece=part.piece, box=box(part.box)) for part in batch
            )
            if not near:
                return self._offers.send(process_id, Take(token=token, boxes=wanted))
            spots = tuple(arriving.spot(part.array) for part in batch)
            return self._offers.send(process_id, Write(token=token, boxes=wanted, spots=spots))

        def end(batch: Sequence[ArrivingPart], answer: Answer[Done]) -> None:
            offset = 0
            for part in () if near else batch:
                shape, dtype = shape_of(part.box), arriving.dtype(part.array)
                source: Array = np.ndarray(shape, dtype, answer[1][0], offset=offset)
                arriving.put(part.array, part.box, source)
                offset += source.nbytes

        for batch in batches(parts, nbytes, SHARED_BYTES if near else PART_BYTES):
            yield PartsMessage(
                process_id=process_id,
                nbytes=sum(map(nbytes, batch)),
                begin=functools.partial(begin, batch),
                end=functools.partial(end, batch),
            )


def _type(described: ArrayOffer) -> tuple[np.dtype[Any], tuple[int, ...]]:
    return dtype_named(described.dtype), described.shape


def batches(
    parts: Iterable[Any], nbytes: Callable[[Any], int], most_bytes: int
) -> Iterable[list[Any]]:
    """Yield groups of parts in order, each of at most `most_bytes`, or of a single part."""
    batch: list[Any] = []
    filled = 0
    for part in itertools.chain(parts, [None]):
        size = 0 if part is None else nbytes(part)
        if batch and (part is None or filled + size > most_bytes):
            yield batch
            batch, filled = [], 0
        if part is not None:
            batch.append(part)
            filled += size
