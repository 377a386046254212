"""Differences between processes that should be equal in meshes in context, arrays, distributions and models.

Processes report at different moments and run ahead of each other. So `moments` selects processes at the same
place: idle, or in the same line of the same cell; only these are compared. After each cell a process reports short
texts of its names (`Samples`); with these, `compared` compares even an ended process with a living one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass

from msgspec import structs

from nbdist.contract.snapshot import (
    Activity,
    Array,
    Disagreement,
    Distribution,
    Mesh,
    Model,
    Process,
    Report,
    Variable,
    Version,
)
from nbdist.engine.probe.samples import OPEN, READ, digest_of
from nbdist.monitor.merged import ArrayVersion, Merged, spans_processes
from nbdist.monitor.states import Known, Latest
from nbdist.notation import (
    array_type_text,
    asked_text,
    count_text,
    entries_text,
    mesh_axes_text,
    spec_text,
)

OLD_SECONDS = 3.0
"""The age in seconds from which a report is of another moment; each process reports at least every second."""

IDLE = "idle"


def moments(
    processes: Iterable[Process],
    latest: Mapping[int, Latest],
    sent: Mapping[int, int],
    known: Known,
    *,
    content: bool,
) -> dict[int, Hashable]:
    """Return the place that each process reported, by process id; processes at equal places are comparable.

    Reports of a host that was cut off come late, one by one, and a reply to a cell may arrive before them. An old
    report must not be compared with a new one. So a process is left out while its host does not answer, while its
    newest report is old or from before the newest cell sent to it, or while its reported state is not its known
    present state.

    Args:
      processes: As the session knows them now.
      latest: The last report of each.
      sent: The number of the newest cell sent to each process; no entry if this kernel has sent it no cell.
      known: The kernel's own facts.
      content: Whether arrays, models and the like are to be compared. Processes examine these less often than
        their place, so idle processes that have not examined them since their last cell are left out.
    """
    found: dict[int, Hashable] = {}
    for process in processes:
        said = latest.get(process.process_id)
        if said is None or said.reported is None or process.host in known.silent:
            continue
        if (process.silent_seconds or 0.0) > OLD_SECONDS:
            continue
        place = _place(said.reported)
        if (place == IDLE) != (process.state == "idle"):
            continue
        if process.state not in ("idle", "running", "compiling"):
            continue
        run = said.reported.run
        newest = sent.get(process.process_id)
        if newest is not None and (run is None or run < newest):
            continue
        if content and place == IDLE and said.content_run != run:
            continue
        found[process.process_id] = place
    return found


def _place(activity: Activity) -> Hashable:
    """Return `IDLE`, or the cell and the line in it."""
    return IDLE if activity.state == "idle" else (activity.cell, activity.line)


MISSING = "missing"
"""The version of processes that do not have the array."""

STEPPING = frozenset({"worker", "chief"})
"""Roles that run the same program; an evaluator follows at its own pace with arrays of its own."""


class Settling:
    """Holds back differences that last less than `settle_seconds`."""

    def __init__(self, settle_seconds: float) -> None:
        self._settle_seconds = settle_seconds
        self._since: dict[str, float] = {}

    def settled(self, found: Iterable[Disagreement], *, time_s: float) -> tuple[Disagreement, ...]:
        """Return those of the differences found now that have lasted; the wait of new ones starts."""
        now = tuple(found)
        self._since = {one.about: self._since.get(one.about, time_s) for one in now}
        return tuple(one for one in now if time_s - self._since[one.about] >= self._settle_seconds)


def comparable(
    processes: Iterable[Process], at: Mapping[int, Hashable]
) -> tuple[frozenset[int], ...]:
    """Return groups of two or more workers at the same place (`at`), the largest first."""
    places: dict[Hashable, set[int]] = {}
    for process in processes:
        if process.role in STEPPING and process.process_id in at:
            places.setdefault(at[process.process_id], set()).add(process.process_id)
    groups = (frozenset(ids) for ids in places.values() if len(ids) > 1)
    return tuple(sorted(groups, key=lambda ids: (-len(ids), min(ids))))


def context_meshes(
    processes: Iterable[Process], groups: Iterable[Collection[int]], meshes: Mapping[str, Mesh]
) -> tuple[Disagreement, ...]:
    """Compare the mesh in context of processes at the same place; return at most one entry."""
    of = {process.process_id: process.context_mesh for process in processes}
    for group in groups:
        if len({of[process_id] for process_id in group}) == 1:
            continue
        held: dict[str | None, list[int]] = {}
        for process_id in sorted(group):
            held.setdefault(of[process_id], []).append(process_id)
        texts = distinct_texts([mesh_text(mesh, meshes) for mesh in held])
        return (disagreement("mesh in context", zip(held.values(), texts, strict=True)),)
    return ()


def suspects(
    versions: Mapping[str, tuple[ArrayVersion, ...]], reporting: int, meshes: Mapping[str, Mesh]
) -> tuple[str, ...]:
    """Return the paths of arrays that may differ between processes.

    A path may differ if it has several versions, or if its array spans several processes and some of the
    `reporting` processes do not have it.
    """
    return tuple(
        path
        for path, known in versions.items()
        if len(known) > 1
        or (len(known[0].processes) < reporting and spans_processes(known[0].array, meshes))
    )


def array_difference(
    known: tuple[ArrayVersion, ...], groups: Iterable[frozenset[int]], meshes: Mapping[str, Mesh]
) -> Disagreement | None:
    """Return how the array under one path differs between processes at the same place."""
    for group in groups:
        held = [
            (version.array, ids)
            for version in known
            if (ids := [process for process in version.processes if process in group])
        ]
        if not held:
            continue
        missing = sorted(group.difference(*(ids for _, ids in held)))
        if any(spans_processes(array, meshes) for array, _ in held):
            versions = version_texts(held, meshes) + [(missing, MISSING)] * bool(missing)
        else:
            # Arrays within one process may be laid out differently, or be missing, on other processes.
            versions = _by_type(held)
        if len(versions) > 1:
            return disagreement(f"array {known[0].array.path}", versions)
    return None


def version_texts(
    held: list[tuple[Array, list[int]]], meshes: Mapping[str, Mesh]
) -> list[tuple[list[int], str]]:
    """Return processes and a text for each version of one array, such as `f32[512, 256] P('data', None)`."""
    texts = [f"{array_type_text(array.dtype, array.shape)} {spec_text(array)}" for array, _ in held]
    repeated = Counter(texts)
    texts = [
        f"{text}{_place_text(array, meshes)}" if repeated[text] > 1 else text
        for text, (array, _) in zip(texts, held, strict=True)
    ]
    return list(zip([ids for _, ids in held], distinct_texts(texts), strict=True))


def _by_type(held: list[tuple[Array, list[int]]]) -> list[tuple[list[int], str]]:
    by_type: dict[str, list[int]] = {}
    for array, ids in held:
        by_type.setdefault(array_type_text(array.dtype, array.shape), []).extend(ids)
    return [(sorted(ids), text) for text, ids in by_type.items()]


def _place_text(array: Array, meshes: Mapping[str, Mesh]) -> str:
    sharding = array.sharding
    memory = f" in {sharding.memory_kind} memory" if sharding.memory_kind else ""
    if sharding.kind == "named":
        return f" on mesh {mesh_text(sharding.mesh, meshes)}{memory}"
    return memory


def mesh_text(mesh: str | None, meshes: Mapping[str, Mesh]) -> str:
    """Return a mesh as `data=4 × model=2`; its id while only that is known; `none` if there is no mesh."""
    if mesh is None:
        return "none"
    return mesh_axes_text(meshes[mesh]) if mesh in meshes else f"mesh {mesh}"


def distinct_texts(texts: list[str]) -> list[str]:
    """Return the texts; a mark tells apart equal texts of things that differ."""
    seen: Counter[str] = Counter()
    apart = []
    for text in texts:
        seen[text] += 1
        others = f" over other devices ({seen[text]})" if seen[text] > 2 else " over other devices"
        apart.append(text if seen[text] == 1 else f"{text}{others}")
    return apart


def disagreement(about: str, versions: Iterable[tuple[Collection[int], str]]) -> Disagreement:
    """Return one entry, the version of the most processes first."""
    ordered = sorted(versions, key=lambda version: (-len(version[0]), min(version[0])))
    return Disagreement(
        about=about,
        versions=tuple(Version(processes=tuple(ids), value=value) for ids, value in ordered),
    )


def distribution_differences(
    merged: Merged, groups: Iterable[frozenset[int]], meshes: Mapping[str, Mesh]
) -> tuple[Disagreement, ...]:
    """Compare the distributions set on processes at the same place; return at most one entry.

    Leaves out each replica's share of a batch, since it follows from the batch, which is compared.
    """
    of = merged.distribution_of
    for group in groups:
        held: dict[Distribution | None, list[int]] = {}
        for process_id in sorted(group & of.keys()):
            one = of[process_id]
            held.setdefault(one and structs.replace(one, replica_batches=()), []).append(process_id)
        if len(held) > 1:
            texts = _distribution_texts(list(held), meshes)
            return (disagreement("distribution", zip(held.values(), texts, strict=True)),)
    return ()


def model_differences(merged: Merged, groups: Iterable[frozenset[int]]) -> tuple[Disagreement, ...]:
    """Return models of one path whose variables, axes or specs differ between processes at the same place."""
    found = []
    several = {path: known for path, known in merged.versions_of.items() if len(known) > 1}
    for path, known in several.items():
        for group in groups:
            held: dict[tuple[object, ...], tuple[Model, list[int]]] = {}
            for model, ids in known:
                here = [process_id for process_id in ids if process_id in group]
                if here:
                    held.setdefault(_compared(model), (model, []))[1].extend(here)
            if len(held) > 1:
                texts = _model_texts([model for model, _ in held.values()])
                versions = zip([sorted(ids) for _, ids in held.values()], texts, strict=True)
                found.append(disagreement(f"model {path}", versions))
                break
    return tuple(found)


def _distribution_texts(held: list[Distribution | None], meshes: Mapping[str, Mesh]) -> list[str]:
    """Return texts such as `DataParallel on mesh batch=4`, with details as needed to tell them apart."""
    details: tuple[Callable[[Distribution], str], ...] = (
        lambda one: f"{one.kind} on mesh {mesh_text(one.mesh, meshes)}" if one.mesh else one.kind,
        lambda one: f"batches split over {one.batch_axis}" if one.batch_axis else "",
        lambda one: (
            "" if one.auto_shard is None else f"auto-sharding {'on' if one.auto_shard else 'off'}"
        ),
        lambda one: f"global batch {one.global_batch}" if one.global_batch else "",
        lambda one: f"{count_text(one.replicas, 'replica')}" if one.replicas else "",
        lambda one: ", ".join(f"{rule.pattern} {asked_text(rule.axes)}" for rule in one.rules),
        lambda one: f"mesh {one.mesh}" if one.mesh else "",
    )
    written = [[detail(one) for detail in details] if one else ["none set"] for one in held]
    alike = [
        len({texts[number] for texts in written if len(texts) > 1}) < 2
        for number in range(len(details))
    ]
    first_only = len({texts[0] for texts in written}) == len(written)
    return [
        texts[0]
        if first_only
        else ", ".join(
            text for number, text in enumerate(texts) if text and (number == 0 or not alike[number])
        )
        for texts in written
    ]


def _compared(model: Model) -> tuple[object, ...]:
    """Return the part of a model that must be equal on all processes; the rule behind a layout may differ."""
    return tuple(map(_laid_out, model.variables))


def _laid_out(one: Variable) -> tuple[object, ...]:
    return one.path, one.shape, one.dtype, one.axes, one.spec


def _model_texts(models: list[Model]) -> list[str]:
    """Return the numbers of variables if these differ, else the first variable that differs."""
    counts = [count_text(len(model.variables), "variable") for model in models]
    if len(set(counts)) == len(counts):
        return counts
    for variables in zip(*(model.variables for model in models), strict=False):
        if len(set(map(_laid_out, variables))) > 1:
            return list(map(_variable_text, variables))
    return counts


def _variable_text(one: Variable) -> str:
    spec = "not on a mesh" if one.spec is None else entries_text(one.spec)
    asked = f", asked for {asked_text(one.axes)}" if one.axes else ""
    return f"{one.path} {array_type_text(one.dtype, one.shape)} {spec}{asked}"


KEPT = 6
"""The number of last cells whose reports are kept."""


After = Mapping[int, Mapping[str, str]]
"""A text for each name, by the run of the cell after which it was taken."""


class Samples:
    """Texts of the values of one process's names; see `nbdist.engine.probe.samples`.

    Attributes:
      after: The texts after each of the last cells.
    """

    def __init__(self) -> None:
        self.after: dict[int, Mapping[str, str]] = {}
        self._pid: int | None = None

    def take(self, report: Report) -> None:
        """Take in a report; if it is from a new process, drop the samples of its predecessor."""
        if report.pid != self._pid:
            self._pid, self.after = report.pid, {}
        if report.samples is not None:
            self.after[report.samples.run] = report.samples.texts
            while len(self.after) > KEPT:
                del self.after[min(self.after)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedNames:
    """Names of an ended process compared with another's: as both were, and as the other's are now.

    Attributes:
      had: The ended process's texts of the names that neither process has changed since both were seen.
      same: Names of `had` for which the other has the same text.
      other: Names whose values differed.
      changed: Names whose values were equal before one of the two changed them.
    """

    had: Mapping[str, str]
    same: frozenset[str]
    other: frozenset[str] = frozenset()
    changed: frozenset[str] = frozenset()


def compared(ended: After, alive: After) -> ComparedNames:
    """Compare the names of both after the last cell for which both reported.

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
    """Return the names that differ between processes after a cell, but were equal or unset everywhere before it.

    Leaves out a name that holds the process id on each process.
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
