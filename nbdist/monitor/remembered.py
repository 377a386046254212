"""Memory, arrays and texts of names that each process last reported: all that is known of them once it is gone.

`Holdings` keeps what a process held, for the message about its end; `Samples` keeps short texts of what its names
held, and `compared` compares those of an ended process with those of a living one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from nbdist.contract.snapshot import Array, DeviceKey, Mesh, Report
from nbdist.engine.probe.samples import OPEN, READ, digest_of
from nbdist.errors import SpecError
from nbdist.notation import array_type_text, bytes_text, seconds_text
from nbdist.pieces import piece_bytes, pieces, split

LARGEST = 3
"""The most arrays of a process that are named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldArray:
    """An array, and the bytes of its pieces on the devices of one process, every copy counted."""

    path: str
    dtype: str
    shape: tuple[int, ...]
    nbytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """The memory of a process in bytes, and its largest arrays, largest first."""

    rss_bytes: int
    arrays: tuple[HeldArray, ...]


@dataclass(frozen=True, slots=True)
class _Sections:
    pid: int
    rss_bytes: int | None = None
    meshes: tuple[Mesh, ...] = ()
    arrays: tuple[Array, ...] = ()


class Holdings:
    """Keeps the newest memory, meshes and arrays of each process, also of an ended one; used from any thread."""

    def __init__(self) -> None:
        self._of: dict[int, _Sections] = {}

    def take(self, report: Report) -> None:
        """Take in one report; sections that are None have not changed."""
        known = self._of.get(report.process_id)
        if known is None or known.pid != report.pid:
            known = _Sections(report.pid)
        if report.activity is not None:
            known = replace(known, rss_bytes=report.activity.rss_bytes)
        if report.meshes is not None:
            known = replace(known, meshes=report.meshes)
        if report.arrays is not None:
            known = replace(known, arrays=report.arrays)
        self._of[report.process_id] = known

    def held(self, process_id: int) -> Held | None:
        """Return what a process held when it last reported; None before its first report."""
        known = self._of.get(process_id)
        if known is None or known.rss_bytes is None:
            return None
        meshes = {mesh.id: mesh for mesh in known.meshes}
        return Held(
            rss_bytes=known.rss_bytes, arrays=largest(known.arrays, meshes, process_id=process_id)
        )


def largest(
    arrays: Sequence[Array], meshes: Mapping[str, Mesh], *, process_id: int
) -> tuple[HeldArray, ...]:
    """Return the arrays of which a process holds most; leaves out those whose mesh is not known.

    Args:
      arrays: As the process has reported them.
      meshes: The meshes it has reported, by id.
      process_id: The process.
    """
    at_most = sorted(
        _at_most(arrays, meshes, process_id=process_id), key=lambda one: one[0], reverse=True
    )
    found: list[HeldArray] = []
    for bound, array in at_most:
        # Pieces are listed for few arrays only: one array may have thousands.
        if len(found) == LARGEST and found[-1].nbytes >= bound:
            break
        nbytes = sum(
            piece_bytes(array, part.slices) * sum(_is_of(key, process_id) for key in part.devices)
            for part in pieces(array, meshes)
        )
        if nbytes:
            found.append(
                HeldArray(path=array.path, dtype=array.dtype, shape=array.shape, nbytes=nbytes)
            )
            found = sorted(found, key=lambda one: one.nbytes, reverse=True)[:LARGEST]
    return tuple(found)


def _at_most(
    arrays: Sequence[Array], meshes: Mapping[str, Mesh], *, process_id: int
) -> Iterator[tuple[int, Array]]:
    """Yield each array with an upper bound of the process's bytes: the largest piece on each of its devices."""
    devices = {
        name: sum(_is_of(key, process_id) for key in mesh.devices) for name, mesh in meshes.items()
    }
    for array in arrays:
        sharding = array.sharding
        try:
            cut = split(array, meshes)
        except SpecError:
            continue
        own = devices[sharding.mesh] if sharding.kind == "named" else cut.devices
        yield cut.piece_bytes * own, array


def _is_of(key: DeviceKey, process_id: int) -> bool:
    return key.startswith(f"{process_id}:")


KEPT = 6
"""The number of last cells whose reports are kept."""


After = Mapping[int, Mapping[str, str]]
"""A text for each name, by the run of the cell after which it was taken."""


class Samples:
    """The texts of what one process's names held; see `nbdist.engine.probe.samples`.

    Attributes:
      after: The texts after each of the last cells.
    """

    def __init__(self) -> None:
        self.after: dict[int, Mapping[str, str]] = {}
        self._pid: int | None = None

    def take(self, report: Report) -> None:
        """Take in a report; a new process has none of the samples of the one before it."""
        if report.pid != self._pid:
            self._pid, self.after = report.pid, {}
        if report.samples is not None:
            self.after[report.samples.run] = report.samples.texts
            while len(self.after) > KEPT:
                del self.after[min(self.after)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedNames:
    """Names of a process that has ended, compared with those of another: as both were, and as the other's are now.

    Attributes:
      had: The ended process's texts of names that neither has changed since both were seen.
      same: Names of `had` for which the other has the same text.
      other: Names whose values differed.
      changed: Names whose values were equal before one of the two changed them.
    """

    had: Mapping[str, str]
    same: frozenset[str]
    other: frozenset[str] = frozenset()
    changed: frozenset[str] = frozenset()


def compared(ended: After, alive: After) -> ComparedNames:
    """Compare what both had after the last cell after which both were seen.

    Args:
      ended: The samples of the process that has ended.
      alive: The samples of a living process, as they are now.
    """
    both = max(ended.keys() & alive.keys(), default=None)
    if both is None:
        return ComparedNames(had={}, same=frozenset())
    mine, its = ended[both], alive[both]
    last, now = ended[max(ended)], alive[max(alive)]
    still = {n for n in mine if last.get(n) == mine[n] and now.get(n) == its.get(n)}
    equal = {n for n, text in mine.items() if its.get(n) == text and not text.endswith(OPEN)}
    changed = {n for n in equal if _differ({last.get(n), mine[n]}) or _differ({now.get(n), its[n]})}
    return ComparedNames(
        had={name: mine[name] for name in still},
        same=frozenset(equal & still),
        other=frozenset(n for n, text in mine.items() if n in now and _differ({its.get(n), text})),
        changed=frozenset(n for n in changed if n in now),
    )


def apart(reported: Mapping[int, After], run: int) -> tuple[str, ...]:
    """Return the names that differ between processes after a cell, and were equal or unset on all before it.

    Leaves out a name whose value is the number of its process.
    """
    now = {p: after[run] for p, after in reported.items() if run in after}
    if len(now) < len(reported):
        return ()
    every = [{n for n in after if n < run} for after in reported.values()]
    both = max(set.intersection(*every), default=None) if every else None
    then = [] if both is None else [after[both] for after in reported.values()]
    return tuple(
        name
        for name in sorted({name for one in now.values() for name in one})
        if _differ({one.get(name) for one in now.values()})
        and not _differ({one.get(name) for one in then})
        and any(one.get(name) != digest_of(p) for p, one in now.items())
    )


def _differ(texts: Collection[str | None]) -> bool:
    """Return whether texts of one name stand for different values; values that were not read do not count."""
    parts = [("", "", "") if text is None else text.partition(READ) for text in texts]
    return (
        (None in texts and len(texts) > 1)
        or len({text.removesuffix(OPEN) for text, _, _ in parts}) > 1
        or len({read for _, _, read in parts if read}) > 1
    )


def held_text(held: Held, *, before_s: float) -> str:
    """Return what a process held before a signal ended it, in words.

    The text is `memory 8 MB when it last reported, 0.4 s before its end; largest arrays on its devices:
    w (f32[]) 4 B`.
    """
    memory = bytes_text(held.rss_bytes)
    text = f"memory {memory} when it last reported, {seconds_text(before_s)} before its end"
    arrays = ", ".join(
        f"{one.path} ({array_type_text(one.dtype, one.shape)}) {bytes_text(one.nbytes)}"
        for one in held.arrays
    )
    return f"{text}; largest arrays on its devices: {arrays}" if arrays else text
