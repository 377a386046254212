"""Copies of arrays that processes keep in memory, for themselves and for each other, and the rollback to them.

With copies, an array is lost neither with a process that had a part of it, nor by a step that not all have taken.
`make_copies` makes a round of copies, and `go_back` restores lost arrays from one. `Copies` is the kernel's
record: the last round, and when the next is due.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from nbdist.contract.calls import Call
from nbdist.contract.calls.namespace import (
    CopiedPiece,
    CopiesOffer,
    GoBack,
    KeepCopies,
    NamespaceArray,
    OfferCopies,
    OfferRound,
    ReceiveCopies,
    ReceiveRound,
    RoundOffer,
    UseCopies,
)
from nbdist.contract.calls.stepping import Origin
from nbdist.contract.calls.values import Box, LetGo
from nbdist.errors import NbdistError
from nbdist.notation import bytes_text, count_text, dtype_named, seconds_text
from nbdist.pieces import contains
from nbdist.session.values.flow import Processes, Progress, ask_each, send, silent
from nbdist.session.values.push import MovingPart, Transfer, split

A = TypeVar("A")


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyRound:
    """The result of a round of copies.

    Attributes:
      number: The number of the round.
      arrays: The number of arrays it covers.
      sent: Bytes that went to other processes.
      kept: Bytes of copies on each process.
    """

    number: int
    arrays: int
    sent: int
    kept: Mapping[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedPart:
    """A part to be copied: the process that has it, its numbers there, the process to keep it, and its type."""

    holder: int
    number: int
    piece: int
    to: int
    copied: CopiedPiece


def make_copies(
    processes: Processes,
    hosts: Mapping[int, str],
    *,
    number: int,
    in_step: tuple[int, int] | None,
    timeout_s: float,
    progress: Progress = silent,
) -> CopyRound:
    """Have each part of an array that exists only once kept by another process, if possible on another host.

    All processes also keep their own parts of all arrays, so that all can go back together: an array that each
    process has whole is not lost with a process, but by a step that not all have taken.

    Args:
      processes: The processes; none is in a cell.
      hosts: The host names of the processes that compute, by process id.
      number: The round's number.
      in_step: As in `OfferCopies`.
      timeout_s: Seconds after which it is given up if nothing moves.
      progress: Called as bytes are moved.

    Raises:
      NbdistError: A process has ended, did not answer, or has no room; all keep their earlier copies.
    """
    token, asking = str(number), _Asking(processes, timeout_s)
    try:
        offers = asking.all(
            hosts,
            OfferCopies(token=token, run=number, processes=tuple(sorted(hosts)), in_step=in_step),
        )
        wanted = missing(offers, hosts)
        left_out = not_alike(offers)
        coming = {p: [w for w in wanted if w.to == p] for p in hosts}
        asking.each(
            {
                p: ReceiveCopies(
                    token=token, pieces=tuple(w.copied for w in its), left_out=tuple(left_out)
                )
                for p, its in coming.items()
            }
        )
        parts = [
            part
            for its in coming.values()
            for nth, one in enumerate(its)
            for part in _way(one, nth)
        ]
        Transfer(processes, token=token, timeout_s=timeout_s).run(parts, progress=progress)
        kept = asking.all(hosts, KeepCopies(token=token, number=number))
    except BaseException:
        for process_id in hosts:
            if processes.gone(process_id) is None:
                send(processes, process_id, LetGo(token=token))
        raise
    # All have this round now, so it stays common even if a process ends while others drop the earlier round.
    with contextlib.suppress(NbdistError):
        kept = asking.all(hosts, UseCopies(number=number))
    return CopyRound(
        number=number,
        arrays=len({a.key for offer in offers.values() for a in offer.arrays} - {*left_out}),
        sent=sum(part.nbytes for part in parts),
        kept={p: answer.nbytes for p, answer in kept.items()},
    )


def missing(offers: Mapping[int, CopiesOffer], hosts: Mapping[int, str]) -> list[WantedPart]:
    """Return the parts of arrays that exist only once, and of which no process keeps a copy yet.

    Arrays on several processes are the same if path, origin and type are equal.
    """
    owners: dict[tuple[str, Origin | None, Box], dict[int, tuple[int, int]]] = {}
    keepers: set[tuple[Origin | None, Box]] = set()
    described: dict[str, NamespaceArray] = {}
    for process_id, offer in offers.items():
        for number, array in enumerate(offer.arrays):
            if not array.spans:
                continue
            described[array.key] = array
            for piece, one in enumerate(array.pieces):
                # An array with several names is listed under the path of the first.
                owners.setdefault((array.key, array.origin, one), {})[process_id] = number, piece
            keepers.update((array.origin, one) for one in array.kept)
    wanted = []
    for (path, origin, one), found in owners.items():
        if len(found) > 1 or (origin, one) in keepers or origin is None:
            continue
        keepers.add((origin, one))  # another path may lead to it as well
        ((holder, (number, piece)),) = found.items()
        copied = CopiedPiece(origin=origin, dtype=described[path].dtype, box=one)
        to = keeper_of(holder, hosts)
        wanted.append(WantedPart(holder=holder, number=number, piece=piece, to=to, copied=copied))
    return wanted


def not_alike(offers: Mapping[int, CopiesOffer]) -> list[str]:
    """Return the paths of arrays that each process has for itself, and that differ or are missing on some."""
    found: dict[str, set[Any]] = {}
    count: dict[str, int] = {}
    for offer in offers.values():
        for array in offer.arrays:
            found.setdefault(array.key, set()).add(
                (array.spans, array.origin, array.dtype, array.shape)
            )
            count[array.key] = count.get(array.key, 0) + 1
    own = {a.key for offer in offers.values() for a in offer.arrays if not a.spans}
    return sorted(p for p in own if len(found[p]) > 1 or count[p] < len(offers))


def keeper_of(process_id: int, hosts: Mapping[int, str]) -> int:
    """Return the next process on another host; the next process if all are on the same host.

    Raises:
      ValueError: There is no other process.
    """
    others = sorted(p for p in hosts if p != process_id)
    far = [p for p in others if hosts[p] != hosts[process_id]] or others
    if not far:
        raise ValueError("one process has nobody to keep copies")
    return next((p for p in far if p > process_id), far[0])


def _way(one: WantedPart, nth: int) -> list[MovingPart]:
    return [
        *split(
            [[*bounds] for bounds in one.copied.box],
            int(dtype_named(one.copied.dtype).itemsize),
            holder=one.holder,
            number=one.number,
            piece=one.piece,
            to=one.to,
            spot=(nth, 0),
        )
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Back:
    """The result of a rollback to a round of copies.

    Attributes:
      paths: The paths of the arrays that were rolled back.
      older: Whether some of these had changed since the round.
      newer: If `older`, paths and texts that lead to other arrays which have changed since, and stay; see
        `nbdist.contract.calls.namespace.WentBack`.
      why_not: Why no array was rolled back.
    """

    paths: tuple[str, ...] = ()
    older: bool = False
    newer: tuple[str, ...] = ()
    why_not: str | None = None


def go_back(
    processes: Processes,
    living: Collection[int],
    new: Collection[int],
    *,
    number: int,
    token: str,
    lost: Collection[str],
    timeout_s: float,
) -> Back:
    """Set lost arrays, and all that have changed since, back to a round of copies.

    Args:
      processes: All processes, joined; none is in a cell.
      living: Processes that have run since the round.
      new: Processes that were started after it.
      number: The round's number.
      token: The token of this move.
      lost: The paths of arrays that have no values any more.
      timeout_s: Seconds after which it is given up if nothing moves.

    Raises:
      NbdistError: A process has ended in the meantime, or did not answer.
    """
    asking = _Asking(processes, timeout_s)
    try:
        offers = asking.all(living, OfferRound(token=token, number=number))
        group, older, why = together(offers, lost)
        if why is not None or not group:
            return Back(why_not=why)
        for process_id in new:
            parts = _parts(asking, process_id, offers, group, number, token)
            if isinstance(parts, str):
                return Back(why_not=f"nobody has a copy of a part of {parts}")
            Transfer(processes, token=token, timeout_s=timeout_s).run(parts)
        went = asking.all(
            sorted({*living, *new}), GoBack(token=token, number=number, paths=tuple(sorted(group)))
        )
        paths = {p for one in went.values() for p in one.paths}
        newer = {text for one in went.values() for text in one.newer} if older else ()
        return Back(paths=tuple(sorted(paths)), older=older, newer=tuple(sorted(newer)))
    finally:
        for process_id in {*living, *new}:
            if processes.gone(process_id) is None:
                send(processes, process_id, LetGo(token=token))


def together(
    offers: Mapping[int, RoundOffer], lost: Collection[str]
) -> tuple[dict[str, NamespaceArray], bool, str | None]:
    """Return the arrays that must go back to restore lost ones: all changed ones, if a lost one has changed.

    Returns:
      The arrays in the round, by path, empty if none of the lost ones was copied; whether they have changed since;
      and why a rollback is impossible, or None.
    """
    first = next(iter(offers.values()))
    there = {a.key: a for a in first.arrays if all(a.key in offer.now for offer in offers.values())}
    missing = there.keys() & set(lost)
    if not missing:
        return {}, False, None
    changed = {p for p, a in there.items() if any(o.now[p] != a.origin for o in offers.values())}
    older = not missing.isdisjoint(changed)
    group = {path: there[path] for path in (missing | changed if older else missing)}
    broken = sorted(p for p in group if any(p not in offer.whole for offer in offers.values()))
    if broken:
        return {}, False, f"of {broken[0]} there is no copy on every process"
    return group, older, None


def _parts(
    asking: _Asking,
    process_id: int,
    offers: Mapping[int, RoundOffer],
    group: Mapping[str, NamespaceArray],
    number: int,
    token: str,
) -> list[MovingPart] | str:
    """Return the parts of these arrays that a new process needs; or the path of an array with a part missing."""
    arrays = tuple(group.values())
    call = ReceiveRound(token=token, number=number, arrays=arrays)
    room = asking.all([process_id], call)[process_id]
    parts: list[MovingPart] = []
    memory = 0
    for array, boxes in zip(arrays, room.wanted, strict=True):
        for one in boxes:
            found = _holder(offers, array.key, one)
            if found is None:
                return array.key
            holder, its, piece = found
            parts += split(
                [[*bounds] for bounds in one],
                int(dtype_named(array.dtype).itemsize),
                holder=holder,
                number=its,
                piece=piece,
                to=process_id,
                spot=(memory, 0),
            )
            memory += 1
    return parts


def _holder(offers: Mapping[int, RoundOffer], path: str, one: Box) -> tuple[int, int, int] | None:
    """Return a process that has a part of an array, its number of the array, and of the piece with that part."""
    for process_id, offer in offers.items():
        for number, array in enumerate(offer.arrays):
            larger = (nth for nth, its in enumerate(array.pieces) if contains(its, one))
            if array.key == path and (piece := next(larger, None)) is not None:
                return process_id, number, piece
    return None


class _Asking:
    """Calls to several processes that wait for all answers."""

    def __init__(self, processes: Processes, timeout_s: float) -> None:
        self._processes = processes
        self.timeout_s = timeout_s

    def all(self, process_ids: Collection[int], call: Call[A]) -> dict[int, A]:
        """Ask all these processes the same."""
        return self.each(dict.fromkeys(process_ids, call))

    def each(self, calls: Mapping[int, Call[A]]) -> dict[int, A]:
        """Ask each process its own question."""
        asked = {p: send(self._processes, p, call) for p, call in calls.items()}
        answers = ask_each(self._processes, asked, timeout_s=self.timeout_s)
        return {p: answer for p, (answer, _) in answers.items()}


@dataclass(frozen=True, kw_only=True)
class KeptCopies:
    """The copies that all processes have, as the kernel knows them.

    Attributes:
      copied: The arrays and bytes copied.
      cell: The number of the cell after which they were made.
      at: The moment whose state they hold (`time.monotonic`).
      seconds: How long making them took.
    """

    copied: CopyRound
    cell: int
    at: float
    seconds: float

    @property
    def age(self) -> str:
        """When the copies were made: `after cell 12, 34.0 s ago`."""
        return f"after cell {self.cell}, {seconds_text(time.monotonic() - self.at)} ago"

    def text(self) -> str:
        """Return `copies of 12 arrays, made after cell 12, 34.0 s ago, in 0.1 s: 6 MB on each process`."""
        most, least = max(self.copied.kept.values()), min(self.copied.kept.values())
        size = bytes_text(most) if most == least else f"{bytes_text(least)} to {bytes_text(most)}"
        return (
            f"copies of {count_text(self.copied.arrays, 'array')}, made {self.age}, "
            f"in {seconds_text(self.seconds)}: {size} on each process"
        )


class Copies:
    """The copies of one session, and when the next are due.

    Attributes:
      every_s: The least time between two rounds, in seconds; None if no copies are made.
      kept: The last copies that were made; None before the first.
    """

    def __init__(self, every_s: float | None = None) -> None:
        self.every_s = every_s
        self.kept: KeptCopies | None = None
        self._next = time.monotonic() + (every_s or 0.0)

    @property
    def due(self) -> bool:
        """Whether copies are to be made after this cell."""
        return self.every_s is not None and time.monotonic() >= self._next

    def tried(self) -> None:
        """Note that copies have been made, or could not be."""
        self._next = time.monotonic() + (self.every_s or 0.0)

    def text(self) -> str | None:
        """Return a line for a person; None if no copies are to be made."""
        if self.every_s is None:
            return None
        return "no copies were made yet" if self.kept is None else self.kept.text()
