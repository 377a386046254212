"""Values sent to processes: by this notebook (`Push`), or by other processes through this kernel (`Transfer`).

Pushed values get their names once all have arrived everywhere. `cover`, a pure function, chooses existing parts
from which a wanted part of an array can be put together.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from nbdist.contract.calls import Call, Done
from nbdist.contract.calls.values import (
    ArrayType,
    Box,
    Join,
    MemoryAddress,
    OfferedBox,
    Put,
    Ready,
    Room,
    SetNames,
    Share,
    Spot,
    Stretch,
    Take,
    box,
)
from nbdist.engine import frameworks
from nbdist.engine.values.arrays import is_numpy_array, packed, stand_in
from nbdist.errors import ArrayError, error_text
from nbdist.launch.start.pending import Pending
from nbdist.machine.sealed import Sealed
from nbdist.notation import dtype_name
from nbdist.pieces import Bounds, boxes, contains, elements, intersection, slices
from nbdist.session.values.flow import (
    PART_BYTES,
    Answer,
    Answers,
    Flow,
    Need,
    PartsMessage,
    Processes,
    Progress,
    Spots,
    WantedPiece,
    ask_each,
    pieces_of,
    refuse_gone,
    send,
    silent,
)
from nbdist.session.values.pull import batches
from nbdist.spelling import command

A = TypeVar("A")

APART_BYTES = 1 << 16
"""Arrays of this size in bytes and more are sent beside the pickle of the object that holds them."""


class Packed:
    """Values of the notebook, ready to be sent.

    Args:
      values: The values, by name.
      all_apart: Whether each value is an array to be divided over the processes.

    Attributes:
      structure: The pickle, with numbers in place of arrays.
      arrays: These arrays.

    Raises:
      ArrayError: A value cannot be pickled, or is no array although one is needed; nothing has been sent.
    """

    def __init__(self, values: Mapping[str, Any], *, all_apart: bool) -> None:
        self.arrays: list[np.ndarray[Any, Any]] = []
        self._numbers: dict[int, int] = {}
        self._stand_in = functools.partial(stand_in, frameworks.parts())
        self._least = 0 if all_apart else APART_BYTES
        if all_apart:
            values = {name: _array(name, value) for name, value in values.items()}
        try:
            self.structure = packed(
                dict(values), self._number, code_by_value=True, stand_in=self._stand_in
            )
        except Exception:
            for name, value in values.items():
                self._refuse_unfit(name, value)
            raise

    def _refuse_unfit(self, name: str, value: object) -> None:
        try:
            packed(value, self._number, code_by_value=True, stand_in=self._stand_in)
        except Exception as error:
            raise ArrayError(
                f"{name!r} (of type {type(value).__name__}) cannot be sent to the processes "
                f"({error_text(error)}). Make it in a {command('cell')} instead."
            ) from error

    def _number(self, value: Any) -> int | None:
        if not is_numpy_array(value) or value.nbytes < self._least:
            return None
        if id(value) not in self._numbers:
            self._numbers[id(value)] = len(self.arrays)
            self.arrays.append(value)
        return self._numbers[id(value)]


def _array(name: str, value: Any) -> np.ndarray[Any, Any]:
    if is_numpy_array(value):
        return value  # type: ignore[no-any-return]
    raise ArrayError(
        f"{name!r} is of type {type(value).__name__}: a sharding divides NumPy arrays of numbers. Nothing "
        "was sent."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineGroup:
    """Processes of one machine that read their pieces from the same memories.

    Attributes:
      owner: The process that writes the memories, and gets the bytes in messages; None: this notebook writes.
      process_ids: The processes that share them, including the owner.
      spots: Where each piece lies.
    """

    owner: int | None
    process_ids: tuple[int, ...]
    spots: Spots


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryStretch:
    """A part of an array that is contiguous in a memory."""

    array: int
    box: Bounds
    memory: int
    at: int
    nbytes: int


class Push:
    """The push of arrays to processes; each has answered which pieces it wants.

    A piece that several processes of a machine want is sent there once, into memory that they share: on this
    machine this notebook writes it, on any other machine one of the processes.

    Args:
      processes: The processes that get them.
      arrays: The arrays to send.
      rooms: Each process's answer.
      token: The push's token.
      hosts: Host names by process id.
      timeout_s: Seconds after which it is given up if nothing moves.
    """

    def __init__(
        self,
        processes: Processes,
        arrays: Sequence[np.ndarray[Any, Any]],
        rooms: Mapping[int, Room],
        token: str,
        *,
        hosts: Mapping[int, str],
        timeout_s: float,
    ) -> None:
        self._processes = processes
        self._arrays = arrays
        self._token = token
        self._hosts = hosts
        self._timeout_s = timeout_s
        itemsizes = [int(array.dtype.itemsize) for array in arrays]
        self._wanted = {p: pieces_of(room.wanted, itemsizes) for p, room in rooms.items()}
        self._mine: list[Sealed] = []
        self._groups: list[MachineGroup] = []

    def share(self) -> None:
        """Have memory allocated, once on each machine if its processes can share it; write nothing yet.

        Raises:
          NbdistError: A process has ended, or did not answer.
        """
        if not self._arrays:
            return
        near = self._join_mine()
        left = [p for p in self._wanted if p not in near]
        by_host: dict[str, list[int]] = {}
        for process_id in left:
            by_host.setdefault(self._hosts[process_id], []).append(process_id)
        left = self._join_owners({ids[0]: ids for ids in by_host.values()})
        self._join_owners({p: [p] for p in left})

    def needs(self) -> list[Need]:
        """Return how much memory will be needed, and where."""
        found = []
        for group in self._groups:
            host = self._hosts[group.process_ids[0]]
            written = sum(piece.nbytes for piece in self._pieces(group))
            found.append(Need(host=host, process_id=group.owner, nbytes=written))
            for p in group.process_ids:
                copied = sum(map(group.spots.copied_bytes, self._wanted[p]))
                found.append(Need(host=host, process_id=p, nbytes=copied))
        return found

    def send(self, structure: bytes, *, progress: Progress = silent) -> None:
        """Send everything, and have the processes make the values, still without names.

        Raises:
          NbdistError: A process has ended, or could not make the values.
        """
        total = sum(piece.nbytes for group in self._groups for piece in self._pieces(group))
        done = 0
        for group in self._groups:
            if group.owner is None:
                done = self._write(group, lambda moved: progress(moved, total))
        flow = Flow(
            self._processes,
            timeout_s=self._timeout_s,
            progress=lambda moved, _: progress(done + moved, total),
        )
        flow.run(job for group in self._groups for job in self._jobs(group))
        self._ask(dict.fromkeys(self._wanted, Ready(token=self._token)), structure)

    def name(self) -> None:
        """Give the values their names on all processes."""
        self._ask(dict.fromkeys(self._wanted, SetNames(token=self._token)))

    def close(self) -> None:
        """Release this notebook's memories; the processes keep them."""
        for memory in self._mine:
            memory.close()
        self._mine = []

    def _join_mine(self) -> tuple[int, ...]:
        """Have processes open this notebook's memories; return the processes that could."""
        spots = self._spots(self._wanted)
        try:
            for size in spots.sizes:
                self._mine.append(Sealed(size))
        except OSError:
            self.close()
            return ()
        addresses = tuple(memory.address for memory in self._mine)
        joined = self._joined(
            dict.fromkeys(self._wanted, addresses), dict.fromkeys(self._wanted, spots)
        )
        if joined:
            self._groups.append(MachineGroup(owner=None, process_ids=joined, spots=spots))
        return joined

    def _join_owners(self, owners: Mapping[int, Sequence[int]]) -> list[int]:
        """Have owners allocate memories, and others open them; return the processes that could not.

        Args:
          owners: For each owner, the processes that are to share its memories.
        """
        spots = {owner: self._spots(ids) for owner, ids in owners.items()}
        answers = self._ask(
            {
                p: Share(
                    token=self._token,
                    sizes=tuple(spots[p].sizes),
                    spots=self._spots_of(p, spots[p]),
                )
                for p in owners
            }
        )
        addresses = {owner: answer.addresses for owner, (answer, _) in answers.items()}
        others = {p: owner for owner, ids in owners.items() for p in ids if p != owner}
        joined = self._joined(
            {p: addresses[owner] for p, owner in others.items() if addresses[owner]},
            {p: spots[owner] for p, owner in others.items()},
        )
        for owner, ids in owners.items():
            having = tuple(p for p in ids if p == owner or p in joined)
            self._groups.append(MachineGroup(owner=owner, process_ids=having, spots=spots[owner]))
        return [p for p in others if p not in joined]

    def _joined(
        self, addresses: Mapping[int, tuple[MemoryAddress, ...]], spots: Mapping[int, Spots]
    ) -> tuple[int, ...]:
        answers = self._ask(
            {
                p: Join(token=self._token, addresses=its, spots=self._spots_of(p, spots[p]))
                for p, its in addresses.items()
            }
        )
        return tuple(p for p, (answer, _) in answers.items() if answer.joined)

    def _ask(self, calls: Mapping[int, Call[A]], *buffers: Any) -> Answers[A]:
        asked = {p: send(self._processes, p, call, *buffers) for p, call in calls.items()}
        return ask_each(self._processes, asked, timeout_s=self._timeout_s)

    def _spots(self, process_ids: Iterable[int]) -> Spots:
        return Spots(piece for p in process_ids for its in self._wanted[p] for piece in its)

    def _spots_of(self, process_id: int, spots: Spots) -> tuple[tuple[Spot, ...], ...]:
        return tuple(tuple(map(spots.of, its)) for its in self._wanted[process_id])

    def _pieces(self, group: MachineGroup) -> list[WantedPiece]:
        """Return the pieces that the processes of a group want, each once."""
        wanted = {piece.key for p in group.process_ids for its in self._wanted[p] for piece in its}
        return [piece for piece in group.spots.pieces if piece.key in wanted]

    def _stretches(self, group: MachineGroup) -> Iterable[MemoryStretch]:
        for piece in self._pieces(group):
            memory, at = group.spots.of(piece)
            itemsize = int(self._arrays[piece.array].dtype.itemsize)
            for part in boxes(piece.bounds, itemsize, PART_BYTES):
                nbytes = elements(part) * itemsize
                yield MemoryStretch(
                    array=piece.array, box=part, memory=memory, at=at, nbytes=nbytes
                )
                at += nbytes

    def _bytes(self, stretch: MemoryStretch) -> memoryview:
        source = np.ascontiguousarray(self._arrays[stretch.array][slices(stretch.box)])
        return memoryview(source.reshape(-1).view(np.uint8))

    def _write(self, group: MachineGroup, moved: Callable[[int], None]) -> int:
        """Write the pieces that processes on this machine want; return how many bytes."""
        done = 0
        for stretch in self._stretches(group):
            refuse_gone(self._processes, group.process_ids)
            self._mine[stretch.memory].write(stretch.at, self._bytes(stretch))
            done += stretch.nbytes
            moved(done)
        for memory in self._mine:
            memory.seal()
        return done

    def _jobs(self, group: MachineGroup) -> Iterable[PartsMessage]:
        """Yield the messages to a group's owner; none if this notebook is the owner."""
        owner = group.owner
        if owner is None:
            return
        for batch in batches(self._stretches(group), lambda stretch: stretch.nbytes, PART_BYTES):
            yield PartsMessage(
                process_id=owner,
                nbytes=sum(stretch.nbytes for stretch in batch),
                begin=functools.partial(self._put, owner, batch),
                end=_taken,
            )

    def _put(self, owner: int, batch: Sequence[MemoryStretch]) -> Pending[Done]:
        stretches = tuple(Stretch(memory=one.memory, at=one.at, nbytes=one.nbytes) for one in batch)
        data = b"".join(map(self._bytes, batch))
        return send(self._processes, owner, Put(token=self._token, stretches=stretches), data)


def described(arrays: Iterable[np.ndarray[Any, Any]]) -> tuple[ArrayType, ...]:
    """Return dtypes and shapes, from which processes know the room they need."""
    return tuple(ArrayType(dtype=dtype_name(a.dtype), shape=a.shape) for a in arrays)


def _taken(answer: Answer[Done]) -> None:
    """Do nothing: the answer holds nothing."""


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
