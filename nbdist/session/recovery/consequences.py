"""Consequences of a repair, a replacement or a change of size for a person's variables: the lines of a notice.

`Consequences` collects what is not as before. `Consequences.notice` says it in two lines, of which the second is
what a person may have to do; everything else goes into the details.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from nbdist.contract.calls.namespace import NamespaceArray
from nbdist.contract.cells import Doubt
from nbdist.errors import Notice
from nbdist.notation import (
    MOST_NAMES,
    array_type_text,
    bytes_text,
    count_text,
    names_text,
    processes_text,
    ranges_text,
)
from nbdist.session.cells.doubt import MadeIn, because, nowhere, root_name
from nbdist.session.values.namespace import DRAWN, Brought, changes_numbers
from nbdist.spelling import command

MOST_SENTENCES = 3
"""The most sentences of one line; the others are the first details."""

MOST_PATHS = 50
"""The most paths that the details list."""

MOST_REASONS = 3
"""The most reasons that are listed; there may be thousands of arrays."""

MOST_THINGS = 15
"""The most things beside names that are listed as changed; things that change numbers come first."""


@dataclass(frozen=True, kw_only=True)
class RolledBack:
    """The arrays that were rolled back to their copies.

    Attributes:
      paths: The arrays' paths.
      older: Whether some had changed since the copies were made.
      newer: If `older`, what leads to other arrays that have changed since, and stay.
      names: The names that lead to arrays changed since the copies, rolled back or not, each with its doubt.
      age: When the copies were made, such as `after cell 5, 12 s ago`.
      why_not: Why the copies could not be used.
    """

    paths: frozenset[str] = frozenset()
    older: bool = False
    newer: tuple[str, ...] = ()
    names: Mapping[str, Doubt] = field(default_factory=dict)
    age: str = ""
    why_not: str | None = None


class _Said(NamedTuple):
    """One thing that is not as before, what a person may have to do about it, and details."""

    what: str
    do: str = ""
    details: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Consequences:
    """Differences between what the processes hold and what they held before.

    Attributes:
      lost: The paths of arrays that have no values any more.
      in_part: The lost arrays of which a part was only on `ended` processes, with their types; a type is empty if
        unknown.
      ended: How each process that has ended did so.
      unread: Why a process could not read the values of lost arrays, by path, except that it waited for others.
      returned: The arrays that were rolled back to copies.
      brought: What each new process has got.
      doubted: Names and things in doubt, each with the reason.
      stale: Objects that still refer to arrays from before.
    """

    lost: Collection[str] = ()
    in_part: Mapping[str, str] = field(default_factory=dict)
    ended: Mapping[int, str] = field(default_factory=dict)
    unread: Mapping[str, str] = field(default_factory=dict)
    returned: RolledBack = RolledBack()
    brought: Mapping[int, Brought] = field(default_factory=dict)
    doubted: Mapping[str, Doubt] = field(default_factory=dict)
    stale: Collection[str] = ()

    @property
    def rest_is_whole(self) -> bool:
        """Whether everything except lost arrays and those rolled back is as before, and nothing of it in doubt."""
        whole = all(replace(one, empty=()).whole for one in self.brought.values())
        return whole and not (self.stale or self.doubted or self._unnamed())

    def notice(self, title: str, *, code: str, made_in: MadeIn = nowhere) -> Notice:
        """Return a notice with this title.

        Args:
          title: What was done, as a sentence.
          code: The kind of the notice.
          made_in: Finds the cells in which lost arrays were made.
        """
        said = [*self._losses(made_in), *self._rolled_back(), *self._differences()]
        sentences = [one.what for one in said if one.what]
        if self.rest_is_whole and not (self.returned.paths and self.returned.older):
            empty = any(one.empty for one in self.brought.values())
            kept = "Nothing more was lost." if empty else "All variables are kept."
            sentences.append("Everything else is unchanged." if self.lost else kept)
        text, more = sentences[:MOST_SENTENCES], sentences[MOST_SENTENCES:]
        steps = list(dict.fromkeys(one.do for one in said if one.do))
        do, further = steps[:MOST_SENTENCES], steps[MOST_SENTENCES:]
        if more or further:
            do.append(f"{command('why')} says more.")
        return Notice(
            level="warn",
            title=title,
            text=" ".join(text),
            do=" ".join(do),
            details=(*more, *further, *(d for one in said for d in one.details), *self._facts()),
            code=code,
            lost=tuple(sorted(self.lost)),
        )

    def lost_texts(self, cell: int, made_in: MadeIn) -> dict[str, str]:
        """Return for each lost array a sentence that says when and why it was lost, and where it was made.

        Args:
          cell: The number of the cell after which it was lost.
          made_in: As for `notice`.
        """
        texts = {}
        for path in sorted(self.lost):
            if path in self.in_part:
                why = f"with {self._gone} in cell {cell}: a shard was on no other process"
            elif path in self.unread:
                why = f"in cell {cell}: a process could not read its values"
            else:
                why = f"in cell {cell}: not all processes have computed it"
            texts[path] = f"{path} was lost {why}. {_again([path], made_in)}"
        return texts

    def _losses(self, made_in: MadeIn) -> Iterable[_Said]:
        if not self.lost:
            if unnamed := self._unnamed():
                yield _Said(f"Lost with {self._gone}: {unnamed}.")
            return
        lost = sorted(self.lost)
        parted = [p for p in lost if p in self.in_part]
        unread = [p for p in lost if p not in self.in_part and p in self.unread]
        mixed = [p for p in lost if p not in self.in_part and p not in self.unread]
        them = "them" if len(mixed) > 1 else "it"
        reasons = [f"{p}: {self.unread[p]}" for p in unread]
        whys: tuple[tuple[list[str], str, list[str]], ...] = (
            (parted, f"Lost with {self._gone}: {{}}.", [_typed(parted, self.in_part)]),
            (mixed, f"Lost, because not all processes have computed {them}: {{}}.", []),
            (unread, "Lost, because a process could not read the values: {}.", reasons),
        )
        again = _again(lost, made_in)
        for paths, sentence, details in whys:
            if paths:
                why = (*_in_full(paths), *details[:MOST_REASONS])
                yield _Said(sentence.format(_grouped(paths)), again, why)
        if unnamed := self._unnamed():
            yield _Said(f"Lost with {self._gone}: {unnamed}.")

    def _rolled_back(self) -> Iterable[_Said]:
        back = self.returned
        if back.why_not is not None:
            yield _Said(
                "", details=(f"the copies made {back.age} could not be used: {back.why_not}",)
            )
        if not back.paths:
            return
        every = sorted(back.paths)
        paths = _grouped(every)
        if not back.older:
            yield _Said(
                "", details=(f"from the copies made {back.age}, not changed since: {paths}",)
            )
            return
        yield _Said(
            f"Restored as they were {back.age}: {paths}.",
            "Set your step counters to match.",
            (*_in_full(every), "everything else is as it is now, also what counts steps"),
        )
        if back.newer:
            newer = names_text(back.newer)
            yield _Said(f"Newer than that: {newer}.", f"Set {newer} again.")

    def _differences(self) -> Iterable[_Said]:
        new, found = processes_text(self.brought), self.brought.values()
        source = next((one.source for one in found), 0)
        unlike = {name: why for one in found for name, why in one.unlike.items()}
        left_out = {one.name: one for each in found for one in each.left_out}
        if left_out:
            yield _Said(
                f"Not brought to {new}: {names_text(left_out)}.",
                f"Set {names_text(left_out)} again there.",
                tuple(f"{one.name} ({one.type}): {one.why}" for one in left_out.values()),
            )
        doubted = {name: why for name, why in self.doubted.items() if name not in unlike}
        for what, do in because(doubted):
            yield _Said(what, do)
        if unlike:
            yield _unlike(unlike, source, new)
        own = sorted({name for one in found for name in one.each_own})
        drawn = [name for name in own if name in DRAWN]
        others = [name for name in own if name not in DRAWN]
        if others:
            yield _Said(
                f"Not the same on all processes, so not set on {new}: {names_text(others)}."
            )
        if drawn:
            yield _Said(
                f"Not the same on all processes: {names_text(drawn)}.",
                f"Seed {names_text(drawn)} again on {new}.",
            )
        if changed := _names(found, lambda one: one.changed):
            yield _Said(
                f"Set by the last cell, on {new} as on process {source}: {names_text(changed)}."
            )
        if elsewhere := _names(found, lambda one: one.elsewhere):
            yield _Said(f"Not on process {source}, so not on {new}: {names_text(elsewhere)}.")
        if self.stale:
            stale = sorted(self.stale)
            yield _Said(
                f"Arrays from before the repair are still in {names_text(stale)}.",
                f"Create {names_text(stale)} again.",
            )
        if hooks := tuple(dict.fromkeys(text for one in found for text in one.hooks)):
            yield _Said("A function with @nbdist.on_recover has failed.", details=hooks)

    def _facts(self) -> Iterable[str]:
        """Yield lines about what is right: where names came from, and which were set for each process."""
        found = self.brought.values()
        alike: dict[tuple[str, str], list[int]] = {}
        for process_id, one in self.brought.items():
            arrays = f", and {bytes_text(one.nbytes)} of arrays" if one.nbytes else ""
            has = f"the {count_text(len(one.names), 'name')} of process {one.source}{arrays}"
            alike.setdefault((self.ended.get(process_id, ""), has), []).append(process_id)
        for (end, has), ids in alike.items():
            before = f" (before: {end})" if end else ""
            yield f"{processes_text(ids)}{before} {'has' if len(ids) == 1 else 'each have'} {has}"
        if empty := _names(found, lambda one: (p for p in one.empty if not p.startswith("@"))):
            yield f"without values, as before: {names_text(empty)}"
        if numbered := _names(found, lambda one: one.numbered):
            yield f"{names_text(numbered)}: the number of the process, on each its own"
        if again := _names(found, lambda one: one.set_again):
            yield f"{names_text(again)}: set again by functions with @nbdist.on_recover"

    @property
    def _gone(self) -> str:
        return processes_text(self.ended)

    def _unnamed(self) -> str:
        """Return how many lost arrays no name leads to, with their types; empty for none."""
        found = [a for a in lost_in_part(self.brought) if is_unnamed(a)]
        types = [array_type_text(a.dtype, a.shape) for a in found]
        if not types:
            return ""
        return f"{count_text(len(types), 'array')} that no name leads to ({names_text(types)})"


def _unlike(unlike: Mapping[str, str], source: int, new: str) -> _Said:
    ordered = sorted(unlike, key=lambda name: (not changes_numbers(name), name))
    more = f" and {len(ordered) - MOST_THINGS} more" if len(ordered) > MOST_THINGS else ""
    reasons = tuple(f"{name}: {unlike[name]}" for name in ordered[:MOST_THINGS] if unlike[name])
    every = f"not as on process {source}: {', '.join(ordered[:MOST_THINGS])}{more}"
    return _Said(
        f"Not as on process {source}: {names_text(ordered)}.",
        f"Set those that your cells need again on {new}.",
        (*((every,) if len(ordered) > MOST_NAMES else ()), *reasons),
    )


def _again(lost: Sequence[str], made_in: MadeIn) -> str:
    """Return `Create w, y again: cells 2, 3 assign them.`."""
    cells = sorted(made_in(lost))
    one = len(cells) == 1
    where = f": {'cell' if one else 'cells'} {ranges_text(cells)} {'assigns' if one else 'assign'}"
    roots = [*dict.fromkeys(map(root_name, lost))] if len(lost) > 1 else lost
    return f"Create {names_text(roots)} again{f'{where} {_it(roots)}' if cells else ''}."


def _grouped(paths: Iterable[str]) -> str:
    """Return paths in few words: `w, params (12 arrays)`; the details have them in full."""
    groups: dict[str, list[str]] = {}
    for path in paths:
        groups.setdefault(root_name(path), []).append(path)
    return names_text(
        found[0] if len(found) == 1 else f"{root} ({len(found)} arrays)"
        for root, found in groups.items()
    )


def _in_full(paths: Sequence[str]) -> tuple[str, ...]:
    """Return a line with all of these paths, if `_grouped` leaves some out."""
    named = ", ".join(paths)
    if named == _grouped(paths):
        return ()
    more = f" and {len(paths) - MOST_PATHS} more" if len(paths) > MOST_PATHS else ""
    return (f"{', '.join(paths[:MOST_PATHS])}{more}",)


def _typed(paths: Sequence[str], types: Mapping[str, str]) -> str:
    said = [f"{p} ({types[p]})" if types[p] else p for p in paths]
    return (
        f"with {'a shard' if len(paths) == 1 else 'shards'} on no other process: {names_text(said)}"
    )


def _it(names: Collection[str]) -> str:
    return "it" if len(names) == 1 else "them"


def _names(found: Iterable[Brought], of: Callable[[Brought], Iterable[str]]) -> list[str]:
    return sorted({name for one in found for name in of(one)})


def lost_in_part(found: Mapping[int, Brought]) -> tuple[NamespaceArray, ...]:
    """Return the arrays of which some part no longer exists anywhere, each once."""
    return tuple({a.key: a for one in found.values() for a in one.lost}.values())


def is_unnamed(array: NamespaceArray) -> bool:
    """Return whether no name leads to an array."""
    return array.key.startswith("@")
