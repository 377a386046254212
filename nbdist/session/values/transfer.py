"""Transfer of parts of arrays between processes, through this kernel.

`cover`, a pure function, chooses existing parts from which a wanted part of an array can be put together.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from nbdist.contract.calls import Done
from nbdist.contract.calls.values import Box, OfferedBox, Put, Spot, Stretch, Take, box
from nbdist.launch.start.pending import Pending
from nbdist.pieces import Bounds, boxes, contains, elements, intersection
from nbdist.session.values.flow import (
    PART_BYTES,
    Answer,
    Flow,
    PartsMessage,
    Processes,
    Progress,
    ask_each,
    send,
    silent,
)
from nbdist.session.values.pull import batches

MOST_ON_THE_WAY = 4
"""The most messages that are on their way to processes at the same time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MovingPart:
    """A part of an array that moves from one process to another.

    Attributes:
      holder: The process that has it.
      number: The number of the array there.
      piece: The number of the piece there.
      box: The bounds of the part.
      to: The process that gets it.
      memory: The number of that process's memory for it.
      at: The offset in that memory, in bytes.
      nbytes: Its size in bytes.
    """

    holder: int
    number: int
    piece: int
    box: Box
    to: int
    memory: int
    at: int
    nbytes: int


def split(
    bounds: Bounds, itemsize: int, *, holder: int, number: int, piece: int, to: int, spot: Spot
) -> Iterator[MovingPart]:
    """Yield the parts of a piece, each small enough for a message; `spot` is the place of the whole piece."""
    memory, at = spot
    for part in boxes(bounds, itemsize, PART_BYTES):
        nbytes = elements(part) * itemsize
        yield MovingPart(
            holder=holder,
            number=number,
            piece=piece,
            box=box(part),
            to=to,
            memory=memory,
            at=at,
            nbytes=nbytes,
        )
        at += nbytes


class Transfer:
    """The move of parts, from all holders at the same time.

    Args:
      processes: All processes.
      token: The token of this move.
      timeout_s: Seconds after which it is given up if nothing moves.
    """

    def __init__(self, processes: Processes, *, token: str, timeout_s: float) -> None:
        self._processes = processes
        self._token = token
        self._timeout_s = timeout_s
        self._puts: list[tuple[int, Pending[Done]]] = []

    def run(self, parts: Iterable[MovingPart], *, progress: Progress = silent) -> None:
        """Move all parts.

        Raises:
          NbdistError: A process has ended, or did not answer.
        """
        flow = Flow(self._processes, timeout_s=self._timeout_s, progress=progress)
        flow.run(self._jobs(parts))
        self._until_put(0)

    def _jobs(self, parts: Iterable[MovingPart]) -> Iterator[PartsMessage]:
        routes: dict[tuple[int, int], list[MovingPart]] = {}
        for part in parts:
            routes.setdefault((part.holder, part.to), []).append(part)
        for (holder, to), its in routes.items():
            for batch in batches(its, lambda part: part.nbytes, PART_BYTES):
                yield PartsMessage(
                    process_id=holder,
                    nbytes=sum(part.nbytes for part in batch),
                    begin=functools.partial(self._take, holder, batch),
                    end=functools.partial(self._put, to, batch),
                )

    def _take(self, holder: int, batch: Sequence[MovingPart]) -> Pending[Done]:
        wanted = tuple(
            OfferedBox(path=str(part.number), piece=part.piece, box=part.box) for part in batch
        )
        return send(self._processes, holder, Take(token=self._token, boxes=wanted))

    def _put(self, to: int, batch: Sequence[MovingPart], answer: Answer[Done]) -> None:
        stretches = tuple(
            Stretch(memory=part.memory, at=part.at, nbytes=part.nbytes) for part in batch
        )
        put = Put(token=self._token, stretches=stretches)
        self._puts.append((to, send(self._processes, to, put, answer[1][0])))
        self._until_put(MOST_ON_THE_WAY)

    def _until_put(self, most: int) -> None:
        """Wait until at most `most` messages are on their way to receiving processes."""
        while len(self._puts) > most:
            to, request = self._puts.pop(0)
            ask_each(self._processes, {to: request}, timeout_s=self._timeout_s)


def cover(wanted: Bounds, pieces: Iterable[Box]) -> tuple[Box, ...]:
    """Return parts that together are `wanted`, do not overlap, and each lie in one of the pieces.

    Args:
      wanted: A part of an array.
      pieces: The parts of it that processes have, in any order, possibly repeated.

    Returns:
      The parts; `wanted` itself if it lies in one piece, has no elements, or cannot be put together from pieces
      that do not overlap.
    """
    every = list(dict.fromkeys(pieces))
    itself = (box(wanted),)
    if not elements(wanted) or any(contains(piece, wanted) for piece in every):
        return itself
    parts = [box(intersection(wanted, piece)) for piece in every]
    found = list(dict.fromkeys(part for part in parts if elements(part)))
    if sum(map(elements, found)) != elements(wanted):
        return itself
    if any(elements(intersection(a, b)) for a, b in itertools.combinations(found, 2)):
        return itself
    return tuple(found)
