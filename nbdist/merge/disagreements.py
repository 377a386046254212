"""Differences between processes in what should be the same on all of them.

Processes report at different moments and run ahead of each other. So only processes at the same place are
compared (`nbdist.merge.moments`): idle ones, or those in the same line of the same cell.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping

from nbdist.contract.snapshot import Array, Disagreement, Mesh, Process
from nbdist.contract.snapshot import Version as Held
from nbdist.merge.arrays import Version, spans_processes
from nbdist.notation import mesh_axes_text, spec_text
from nbdist.quantities import array_type_text

MISSING = "missing"

STEPPING = frozenset({"worker", "chief"})
"""Roles that run the same program; an evaluator follows at its own pace with arrays of its own."""


class Settling:
    """Holds back differences that last less than `settle_seconds`."""

    def __init__(self, settle_seconds: float) -> None:
        self._settle_seconds = settle_seconds
        self._since: dict[str, float] = {}

    def settled(self, found: Iterable[Disagreement], *, time_s: float) -> tuple[Disagreement, ...]:
        """Return the differences of this moment that have lasted; the others start their wait."""
        now = tuple(found)
        self._since = {one.about: self._since.get(one.about, time_s) for one in now}
        return tuple(one for one in now if time_s - self._since[one.about] >= self._settle_seconds)


def comparable(
    processes: Iterable[Process], at: Mapping[int, Hashable]
) -> tuple[frozenset[int], ...]:
    """Return groups of two or more workers that stand at the same place `at`, the largest first."""
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
    versions: Mapping[str, tuple[Version, ...]], reporting: int, meshes: Mapping[str, Mesh]
) -> tuple[str, ...]:
    """Return the paths that may stand for a disagreement: several versions, or missing on some of `reporting`."""
    return tuple(
        path
        for path, known in versions.items()
        if len(known) > 1
        or (len(known[0].processes) < reporting and spans_processes(known[0].array, meshes))
    )


def array_difference(
    known: tuple[Version, ...], groups: Iterable[frozenset[int]], meshes: Mapping[str, Mesh]
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
            # Arrays that lie within each process need not be laid out alike, nor exist on every process.
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
    """Return `data=4 × model=2`; the id of a mesh that is not known yet; `none`."""
    if mesh is None:
        return "none"
    return mesh_axes_text(meshes[mesh]) if mesh in meshes else f"mesh {mesh}"


def distinct_texts(texts: list[str]) -> list[str]:
    """Return the texts, with a mark where two read alike although the things they describe differ."""
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
        versions=tuple(Held(processes=tuple(ids), value=value) for ids, value in ordered),
    )
