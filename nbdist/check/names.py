"""The names that a cell reads, compared: missing ones, types, global arrays, keys, code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from nbdist.check.versions import Difference, Versions, difference, ordered
from nbdist.contract.agreement import NamesFacts
from nbdist.contract.snapshot import Array, Mesh
from nbdist.merge.disagreements import MISSING, version_texts
from nbdist.quantities import array_type_text
from nbdist.spelling import sentence

ByProcess = Mapping[int, NamesFacts]
"""The facts about names, by process id."""

MAKE = "Create it again in one {cell} that runs on all of them."
DEFINE = "Run the cell that defines it on all of them."
SEED = "Create the key from the same seed on all of them."


def names(answers: ByProcess, *, code: bool) -> list[Difference]:
    """Return the names that differ between processes that are about to run one cell.

    Args:
      answers: The answer of each process.
      code: Whether digests of code can be compared.
    """
    found: list[Difference] = []
    reported: set[str] = set()
    for name in sorted({name for one in answers.values() for name in one.names}):
        differing = _name(name, answers, code=code)
        if differing:
            reported.add(name)
            found += differing
    for path in sorted({path for one in answers.values() for path in one.arrays}):
        if not reported.intersection(_leading_to(path)):
            found += _array(path, answers)
    for path in sorted({path for one in answers.values() for path in one.keys}):
        found += _key(path, answers)
    return found


def _name(name: str, answers: ByProcess, *, code: bool) -> list[Difference]:
    entries = {p: one.names[name] for p, one in answers.items() if name in one.names}
    there = {p: entry for p, entry in entries.items() if entry.type is not None}
    if not there:
        return []  # it fails on all of them alike
    spans = any(name in _leading_to(path) for one in answers.values() for path in one.arrays)
    certain = any(entry.certain for entry in entries.values())
    if len(there) < len(entries):
        if not (certain or spans):
            return []
    elif not any(entry.holds or entry.code for entry in there.values()):
        return []  # a plain value is each process's own affair
    kinds = {p: entry.type for p, entry in entries.items()}
    if len(set(kinds.values())) > 1:
        if not (certain or spans):
            return []
        return [Difference(name, _kinds(name, kinds, answers), sentence(MAKE))]
    codes = {p: entry.code for p, entry in there.items()} if code else {}
    return difference(name, codes, DEFINE, lambda digest: f"code {digest}")


def _kinds(name: str, kinds: Mapping[int, str | None], answers: ByProcess) -> Versions:
    by_text: dict[str, list[int]] = {}
    for process_id, kind in kinds.items():
        text = _held_text(name, answers[process_id]) or kind or MISSING
        by_text.setdefault(text, []).append(process_id)
    return ordered((ids, text) for text, ids in by_text.items())


def _array(path: str, answers: ByProcess) -> list[Difference]:
    """Compare a path that leads to a global array on some process."""
    meshes = _meshes(answers)
    spanning: list[tuple[Array, list[int]]] = []
    others: dict[str, list[int]] = {}
    for process_id, one in sorted(answers.items()):
        if path in one.arrays:
            array = one.arrays[path]
            same = next((ids for known, ids in spanning if known == array), None)
            if same is None:
                spanning.append((array, [process_id]))
            else:
                same.append(process_id)
        elif path in one.local or not one.omitted:
            # Of a process with too many arrays it is not known whether it has this one.
            others.setdefault(_held_text(path, one) or MISSING, []).append(process_id)
    versions = [*version_texts(spanning, meshes), *((ids, text) for text, ids in others.items())]
    return [Difference(path, ordered(versions), sentence(MAKE))] if len(versions) > 1 else []


def _key(path: str, answers: ByProcess) -> list[Difference]:
    values = {p: one.keys[path] for p, one in answers.items() if path in one.keys}
    return difference(path, values, SEED, lambda value: f"key {value}")


def _held_text(path: str, answer: NamesFacts) -> str | None:
    """Return the array under a path of one process as text; None where there is none."""
    if path in answer.arrays:
        return version_texts([(answer.arrays[path], [])], _meshes({0: answer}))[0][1]
    if path not in answer.local:
        return None
    local = answer.local[path]
    return f"{array_type_text(local.dtype, local.shape)} of its own" if local else "deleted"


def _leading_to(path: str) -> Iterator[str]:
    """Yield the dotted names a path begins with: `a`, `a.b` of `a.b['w'].x`."""
    steps = path.partition("[")[0].split(".")
    for count in range(1, len(steps) + 1):
        yield ".".join(steps[:count])


def _meshes(answers: ByProcess) -> dict[str, Mesh]:
    return {name: mesh for one in answers.values() for name, mesh in one.meshes.items()}
