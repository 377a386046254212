"""Copy of a living process's namespace, and of its state beside the names, to a process that has no names yet."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from nbdist.contract.calls import Call
from nbdist.contract.calls.namespace import (
    CoverNamespace,
    LeftOut,
    MakeNamespace,
    NamespaceArray,
    NamespaceMade,
    NamespaceOffer,
    OfferArrays,
    OfferNamespace,
    OfferThings,
    PackAgain,
    ReceiveNamespace,
    TakeThings,
    Things,
)
from nbdist.contract.calls.values import (
    LetGo,
    Room,
    Share,
    box,
)
from nbdist.engine.probe.samples import OPEN, digest_of
from nbdist.launch.start.pending import Pending
from nbdist.monitor.disagreements import ComparedNames
from nbdist.notation import dtype_named
from nbdist.pieces import contains, elements
from nbdist.session.values.flow import (
    Answers,
    Processes,
    Progress,
    Spots,
    WantedPiece,
    ask_each,
    pieces_of,
    send,
    silent,
)
from nbdist.session.values.push import MovingPart, Transfer, cover, split

A = TypeVar("A")

TRIES_LATE = 2
"""How often values that raised when they were made are tried again, after all others: they may need later
values."""

NOTHING = ComparedNames(had={}, same=frozenset())

DRAWN = ("Python's random state", "NumPy's random state")
"""Streams that programs seed per process as often as equally on all; they are reported with the names."""

COUNTS = ("code of ", "patched ", "pytree ", "jax_", *DRAWN)
"""Prefixes of the names of things that change computed numbers, as values of modules do as well."""


@dataclass
class CarriedThings:
    """Things on their way from the source to a new process.

    Attributes:
      there: The digests on the source, by name.
      others: The digests on each other living process.
      unlike: Things that differ between the new process and the source, each with the reason, empty if unknown.
    """

    there: Mapping[str, str]
    others: Sequence[Mapping[str, str]]
    unlike: Mapping[str, str] = field(default_factory=dict)
    _failed: Mapping[str, str] = field(default_factory=dict)
    _again: frozenset[str] = frozenset()

    @property
    def own(self) -> tuple[str, ...]:
        """Things that differ between living processes: a new process takes none of them."""
        names = {name for one in (self.there, *self.others) for name in one}
        return tuple(
            sorted(n for n in names if any(one.get(n) != self.there.get(n) for one in self.others))
        )

    @property
    def each_own(self) -> tuple[str, ...]:
        """Things in `own`, except those that were set again and are therefore right."""
        return tuple(name for name in self.own if name not in self._again)

    @property
    def streams(self) -> tuple[str, ...]:
        """Streams that the new process has from the source, like the names."""
        apart = {*self.own, *self._again}
        return tuple(name for name in DRAWN if name in self.there and name not in apart)

    def set(
        self,
        now: Mapping[str, str],
        *,
        failed: Mapping[str, str] | None = None,
        again: Collection[str] = (),
    ) -> None:
        """Take the things of the new process as they are now.

        Args:
          now: Its digests.
          failed: Why things could not be set, by name.
          again: Things that the user's functions have set.
        """
        self._failed = {**self._failed, **(failed or {})}
        self._again = frozenset(again)
        left = self.there.keys() | now.keys() - self._again - set(self.own)
        self.unlike = {
            name: self._failed.get(name, "")
            for name in sorted(left - self._again - set(self.own))
            if now.get(name) != self.there.get(name)
        }


def changes_numbers(thing: str) -> bool:
    """Return whether a cell may compute other numbers if this thing differs."""
    return thing.startswith(COUNTS) or (" " not in thing and "." in thing and "'" not in thing)


@dataclass(frozen=True, slots=True, kw_only=True)
class Brought:
    """The namespace that a new process has got.

    Attributes:
      source: The process whose names it has.
      names: The names.
      left_out: Names, and things beside names, that could not be brought from that process.
      lost: Arrays of which some part was on no process.
      empty: Paths of arrays without values on any process, since they were lost before, or donated.
      differing: Names with values that were not the same on all processes. `differing`, `unproven` and `changed`
        may also hold streams of random numbers, which are no names.
      numbered: Names that hold each process's own number; the new process has its own, too.
      unproven: Names for which it is unknown whether the ended process had the same value.
      changed: Names with equal values on all before the cell in which the process ended, and changed by that cell.
      elsewhere: Names that only other living processes have, by process.
      nbytes: Bytes of the arrays that were sent.
      hooks: The errors that the user's functions have raised.
      set_again: Names that these functions have set on the new process.
      unlike: Things beside the names that differ from the source, each with the reason, empty if unknown.
      each_own: Things beside the names that were not the same on all living processes.
    """

    source: int
    names: tuple[str, ...]
    left_out: tuple[LeftOut, ...] = ()
    lost: tuple[NamespaceArray, ...] = ()
    empty: tuple[str, ...] = ()
    differing: tuple[str, ...] = ()
    numbered: tuple[str, ...] = ()
    unproven: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    elsewhere: Mapping[str, int] = field(default_factory=dict)
    nbytes: int = 0
    hooks: tuple[str, ...] = ()
    set_again: tuple[str, ...] = ()
    unlike: Mapping[str, str] = field(default_factory=dict)
    each_own: tuple[str, ...] = ()

    @property
    def not_carried(self) -> frozenset[str]:
        """Things beside the names that are not, or may not be, what the ended process had."""
        return frozenset({*self.unlike, *self.each_own})

    @property
    def unsure(self) -> frozenset[str]:
        """Names that may not be what the ended process had, or would have had."""
        return frozenset({*self.differing, *self.unproven}) - set(self.set_again)

    @property
    def whole(self) -> bool:
        """Whether all names except those of lost arrays, and all things beside names, are as before."""
        less = self.empty or self.unsure or self.left_out or self.changed or self.elsewhere
        return not (less or self.not_carried)


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedThings:
    """The requests for what living processes have beside their names, sent once for all new processes.

    Attributes:
      key: The key of the digests.
      requests: The requests by process id; the first process is the source, and only it sends values.
    """

    key: str
    requests: Mapping[int, Pending[Things]]


def ask_things(processes: Processes, sources: Sequence[int], *, key: str) -> AskedThings:
    """Ask for what processes have beside their names; do not wait.

    Raises:
      GoneError: A process has ended.
    """
    asked = {
        p: send(processes, p, OfferThings(key=key, described=p != sources[0])) for p in sources
    }
    return AskedThings(key=key, requests=asked)


@dataclass
class Bringing:
    """The copy of one namespace.

    Args:
      processes: All processes.
      newcomer: The process that gets it.
      sources: The living processes; the first is the one whose names are copied.
      things: The requests for their things beside their names.
      token: The token of this move.
      generation: The number of the back end of all.
      timeout_s: Seconds after which it is given up if nothing moves.
      before: The ended process's names, compared with the first source.
      alone: Whether the source was the only process, so that its names were those of all.
      resized_to: The new number of processes, if it changes.
    """

    processes: Processes
    newcomer: int
    sources: Sequence[int]
    things: AskedThings
    token: str
    generation: int
    timeout_s: float
    before: ComparedNames = NOTHING
    alone: bool = False
    resized_to: int | None = None

    def run(self, *, progress: Progress = silent) -> Brought:
        """Bring everything that can be brought.

        Raises:
          NbdistError: A process has ended, did not answer, or could not make the values that came.
        """
        try:
            return self._run(progress)
        finally:
            for process_id in self.sources:
                self._send(process_id, LetGo(token=self.token))

    def _run(self, progress: Progress) -> Brought:
        first, *others = self.sources
        carried = self._things()
        call = OfferNamespace(
            token=self.token, processes=self.resized_to, things=tuple(carried.unlike)
        )
        offer, (placements, structure) = self._ask({first: self._send(first, call)})[first]
        spanning = tuple(array.key for array in offer.arrays if array.spans)
        asked = {
            p: self._send(
                p, OfferArrays(token=self.token, keys=spanning, processes=self.resized_to)
            )
            for p in others
        }
        offers = {first: offer, **{p: answer for p, (answer, _) in self._ask(asked).items()}}
        room, _ = self._ask(
            {
                self.newcomer: self._send(
                    self.newcomer,
                    ReceiveNamespace(
                        token=self.token, arrays=offer.arrays, generation=self.generation
                    ),
                    placements,
                )
            }
        )[self.newcomer]
        lost, parts = self._parts(offers, self._covered(offers, room))
        Transfer(self.processes, token=self.token, timeout_s=self.timeout_s).run(
            parts, progress=progress
        )
        make = MakeNamespace(
            token=self.token,
            lost=tuple(lost),
            numbered=self._numbered(offers),
            run=offer.run,
            key=self.things.key,
        )
        made, left_out = self._made(make, structure)
        carried.set(made.things, again=made.things_set_again)
        brought = self._brought(offers, lost, parts, made, carried)
        return replace(brought, left_out=(*brought.left_out, *left_out))

    def _made(self, make: MakeNamespace, structure: Any) -> tuple[NamespaceMade, list[LeftOut]]:
        """Have the namespace made; values that raise are tried again last, and left out if they still raise."""
        tried: Counter[int] = Counter()
        left_out: list[LeftOut] = []
        while True:
            sent = {self.newcomer: self._send(self.newcomer, make, structure)}
            made, _ = self._ask(sent)[self.newcomer]
            if made.not_made is None:
                return made, left_out
            entry, why = made.not_made.entry, made.not_made.why
            times = tried.pop(entry, 0)
            without = {entry: why} if times == TRIES_LATE else {}
            if not without:
                tried[entry] = times + 1  # moves it behind all others
            again = PackAgain(token=self.token, without=without, late=tuple(tried))
            first = self.sources[0]
            packed, (structure,) = self._ask({first: self._send(first, again)})[first]
            left_out += packed.left_out

    def _things(self) -> CarriedThings:
        """Set the first source's things beside its names on the new process, and compare them there."""
        first, *others = self.sources
        answers = self._ask(self.things.requests)
        carried = CarriedThings(
            there=answers[first][0].digests, others=[answers[p][0].digests for p in others]
        )
        call = TakeThings(key=self.things.key, own=carried.own)
        sent = {self.newcomer: self._send(self.newcomer, call, answers[first][1][0])}
        taken, _ = self._ask(sent)[self.newcomer]
        carried.set(taken.digests, failed=taken.failed)
        return carried

    def _covered(self, offers: Mapping[int, NamespaceOffer], room: Room) -> Room:
        """Wish for parts as they exist on processes, if no process has them as wanted."""
        arrays = offers[self.sources[0]].arrays
        covers = []
        for array, wanted in zip(arrays, room.wanted, strict=True):
            there = [
                other
                for offer in offers.values()
                for other in offer.arrays
                if other.key == array.key
            ]
            pieces = [piece for other in there if _same(other, array) for piece in other.every]
            covers.append(tuple(cover(part, pieces) for part in wanted))
        if all(len(parts) == 1 for its in covers for parts in its):
            return room
        asked = self._send(self.newcomer, CoverNamespace(token=self.token, covers=tuple(covers)))
        return self._ask({self.newcomer: asked})[self.newcomer][0]

    def _brought(
        self,
        offers: Mapping[int, NamespaceOffer],
        lost: Sequence[int],
        parts: Sequence[MovingPart],
        made: NamespaceMade,
        carried: CarriedThings,
    ) -> Brought:
        first = self.sources[0]
        offer = offers[first]
        own, before, streams = self._numbered(offers), self.before, carried.streams
        names, its = {*made.names, *streams}, (*offer.own, *streams)
        differ = {*differing(offers), *before.other}.intersection(names) - {*own}
        unproven = (
            name
            for name in (*(() if self.alone else its), *equal_to_number(offers))
            if not (len(offers) > 1 and (name in streams or is_proven(offers, name)))
            and name not in {*own, *differ, *before.same, *before.changed}
        )
        filled = {array.key for one in offers.values() for array in one.arrays if array.every}
        filled |= {offer.arrays[number].key for number in lost}
        return Brought(
            source=first,
            names=made.names,
            left_out=offer.left_out,
            lost=tuple(offer.arrays[number] for number in lost),
            empty=tuple(a.key for a in offer.arrays if a.spans and a.key not in filled),
            differing=tuple(sorted(differ)),
            numbered=own,
            unproven=tuple(sorted({*unproven} & names)),
            changed=tuple(sorted(before.changed.intersection(its, names) - differ - {*own}))
            if len(offers) == 1
            else (),
            elsewhere={
                name: p
                for p, other in sorted(offers.items(), reverse=True)
                for name in other.names
                if name not in offer.digests and name not in {one.name for one in offer.left_out}
            },
            set_again=made.set_again,
            nbytes=sum(part.nbytes for part in parts),
            hooks=made.hooks,
            unlike=carried.unlike,
            each_own=carried.each_own,
        )

    def _numbered(self, offers: Mapping[int, NamespaceOffer]) -> tuple[str, ...]:
        return numbered(offers, self.before.had, self.newcomer)

    def _parts(
        self, offers: Mapping[int, NamespaceOffer], room: Room
    ) -> tuple[list[int], list[MovingPart]]:
        """Make room on the new process; return the numbers of lost arrays, and the parts to move of the others."""
        arrays = offers[self.sources[0]].arrays
        itemsizes = [int(dtype_named(array.dtype).itemsize) for array in arrays]
        wanted = pieces_of(room.wanted, itemsizes)
        spots = Spots(piece for its in wanted for piece in its)
        # One memory, since no other process shares it, and all is copied out of it.
        starts, total = [], 0
        for size in spots.sizes:
            starts.append(total)
            total += size
        held = {
            p: {array.key: (number, array) for number, array in enumerate(offer.arrays)}
            for p, offer in offers.items()
        }
        place = {
            piece.key: (0, starts[spots.of(piece)[0]] + spots.of(piece)[1])
            for piece in spots.pieces
        }
        self._ask(
            {
                self.newcomer: self._send(
                    self.newcomer,
                    Share(
                        token=self.token,
                        sizes=(total,),
                        spots=tuple(tuple(place[piece.key] for piece in its) for its in wanted),
                    ),
                )
            }
        )
        lost: list[int] = []
        parts: list[MovingPart] = []
        load = dict.fromkeys(self.sources, 0)
        apart = set(differing(offers))
        for number, its in enumerate(wanted):
            found = [self._holders(held, arrays[number], piece) for piece in its]
            if not all(found):
                lost.append(number)
                continue
            for piece, holders in zip(its, found, strict=True):
                # If the processes' values differ, all parts come from the process whose names are copied.
                first = self.sources[0] in holders and _root(arrays[number].key) in apart
                holder = self.sources[0] if first else min(holders, key=lambda p: load[p])
                load[holder] += piece.nbytes
                there, index = holders[holder]
                parts += split(
                    piece.bounds,
                    itemsizes[number],
                    holder=holder,
                    number=there,
                    piece=index,
                    to=self.newcomer,
                    spot=place[piece.key],
                )
        return lost, parts

    def _holders(
        self,
        held: Mapping[int, Mapping[str, tuple[int, NamespaceArray]]],
        array: NamespaceArray,
        piece: WantedPiece,
    ) -> dict[int, tuple[int, int]]:
        """Return the processes with a piece of the same array, each with its numbers of array and piece."""
        found = {}
        wanted = box(piece.bounds)
        for process_id, its in held.items():
            number, other = its.get(array.key, (0, None))
            if other is None or not _same(other, array):
                continue
            if not array.spans and process_id != self.sources[0]:
                continue
            index = next((n for n, b in enumerate(other.every) if contains(b, wanted)), None)
            if index is None and other.every and not elements(wanted):
                index = 0  # the piece is empty, so any will do
            if index is not None:
                found[process_id] = number, index
        return found

    def _send(self, process_id: int, call: Call[A], *buffers: Any) -> Pending[A]:
        return send(self.processes, process_id, call, *buffers)

    def _ask(self, asked: Mapping[int, Pending[A]]) -> Answers[A]:
        return ask_each(self.processes, asked, timeout_s=self.timeout_s)


def _same(one: NamespaceArray, other: NamespaceArray) -> bool:
    """Return whether two descriptions are of one array on two processes."""
    return (one.origin, one.shape, one.dtype) == (other.origin, other.shape, other.dtype)


def _root(path: str) -> str:
    """Return the name that a path begins with."""
    return re.split(r"[.\[]", path, maxsplit=1)[0]


def differing(offers: Mapping[int, NamespaceOffer]) -> tuple[str, ...]:
    """Return the names whose values were not the same on all living processes."""
    every = [offer.digests for offer in offers.values()]
    names = sorted({name for digests in every for name in digests})
    return tuple(name for name in names if len({digests.get(name) for digests in every}) > 1)


def is_proven(offers: Mapping[int, NamespaceOffer], name: str) -> bool:
    """Return whether the digests of a name cover all of its value, on all processes."""
    return not any(offer.digests.get(name, OPEN).endswith(OPEN) for offer in offers.values())


def numbered(
    offers: Mapping[int, NamespaceOffer], had: Mapping[str, str], newcomer: int
) -> tuple[str, ...]:
    """Return the names that hold each process's own number; `had` has the ended process's digests, if known."""
    several, own = len(offers) > 1, digest_of(newcomer)
    return tuple(
        name for name in equal_to_number(offers) if (had[name] == own if name in had else several)
    )


def equal_to_number(offers: Mapping[int, NamespaceOffer]) -> tuple[str, ...]:
    """Return the names whose value is the number of the process on all living processes."""
    names, *others = (
        {name for name, digest in offer.digests.items() if digest == digest_of(p)}
        for p, offer in offers.items()
    )
    return tuple(sorted(names.intersection(*others)))
