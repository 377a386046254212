"""Comparison of a cell's processes before it runs: what must be equal on all, and who has what if it is not.

`refuse_disagreement` asks all processes at once: first for digests, then for facts only where digests differ. Pure
functions compare the facts, and describe the differences in the text of an error.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nbdist.contract.calls.engine import Agreement, AskAgreement
from nbdist.contract.cells import DistributionFacts, Facts, NamesFacts
from nbdist.contract.snapshot import Activity, Array, Mesh
from nbdist.contract.wire import encode
from nbdist.errors import AgreementError
from nbdist.launch.start.pending import Pending
from nbdist.monitor.disagreements import MISSING, distinct_texts, version_texts
from nbdist.notation import array_type_text, count_text, mesh_axes_text, where_text
from nbdist.spelling import command, option, sentence

Versions = tuple[tuple[tuple[int, ...], str], ...]
"""For each value: the ids of the processes that have it, and the value as text; the most common value first."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A name or setting that differs, such as `w` or `jax_enable_x64`; `do` says how to go on, as a sentence."""

    about: str
    versions: Versions
    do: str


def grouped(values: Mapping[int, Any]) -> list[tuple[list[int], Any]]:
    """Return groups of processes with equal values (plain ones, or of the contract), in the order of the ids."""
    groups: dict[str, tuple[list[int], Any]] = {}
    for process_id, value in sorted(values.items()):
        text = json.dumps(encode(value), sort_keys=True)
        groups.setdefault(text, ([], value))[0].append(process_id)
    return list(groups.values())


def ordered(versions: Iterable[tuple[Collection[int], str]]) -> Versions:
    """Sort versions: the most common first, then by the lowest process id."""
    found = [(tuple(sorted(ids)), text) for ids, text in versions if ids]
    return tuple(sorted(found, key=lambda version: (-len(version[0]), version[0][0])))


def difference(
    about: str, values: Mapping[int, Any], do: str, text: Callable[[Any], str] = str
) -> list[Difference]:
    """Return one entry where the values of processes are not all equal, else none."""
    return _described(about, values, do, lambda found: [text(value) for value in found])


def _described(
    about: str, values: Mapping[int, Any], do: str, texts: Callable[[list[Any]], list[str]]
) -> list[Difference]:
    """Return as `difference` does; `texts` sees all different values, to tell them apart."""
    groups = grouped(values)
    if len(groups) < 2:
        return []
    described = texts([value for _, value in groups])
    versions = ordered((ids, text) for (ids, _), text in zip(groups, described, strict=True))
    return [Difference(about, versions, do)]


ByProcess = Mapping[int, NamesFacts]
"""The facts about names, by process id."""

MAKE = "Create it again in one {cell} that runs on all of them."
DEFINE = "Run the cell that defines it on all of them."
SEED = "Create the key from the same seed on all of them."


def names(answers: ByProcess, *, code: bool) -> list[Difference]:
    """Return the names that a cell reads and that differ between the processes about to run it.

    Compared are the existence of names, their types, global arrays, keys and code.

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
        return []  # the cell fails on all of them alike
    spans = any(name in _leading_to(path) for one in answers.values() for path in one.arrays)
    certain = any(entry.certain for entry in entries.values())
    if len(there) < len(entries):
        if not (certain or spans):
            return []
    elif not any(entry.holds or entry.code for entry in there.values()):
        return []  # plain values may differ between processes
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
            # A process that omitted arrays from its answer may have this one.
            others.setdefault(_held_text(path, one) or MISSING, []).append(process_id)
    versions = [*version_texts(spanning, meshes), *((ids, text) for text, ids in others.items())]
    return [Difference(path, ordered(versions), sentence(MAKE))] if len(versions) > 1 else []


def _key(path: str, answers: ByProcess) -> list[Difference]:
    values = {p: one.keys[path] for p, one in answers.items() if path in one.keys}
    return difference(path, values, SEED, lambda value: f"key {value}")


def _held_text(path: str, answer: NamesFacts) -> str | None:
    """Return one process's array under a path as text; None if there is none."""
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


def differences(facts: Mapping[int, Facts]) -> list[Difference]:
    """Return the differences, causes before their consequences; empty if nothing that matters differs.

    Args:
      facts: The answers, by process id; all processes were asked for the same topics.
    """
    # Another Python compiles the same text to other code.
    python = {one.software.get("Python") for one in facts.values() if one.software is not None}
    return [
        *_cell({p: one.cell for p, one in facts.items()}),
        *_software({p: one.software or {} for p, one in facts.items()}),
        *_modules({p: one.modules or {} for p, one in facts.items()}),
        *_variables({p: one.variables or {} for p, one in facts.items()}),
        *_settings({p: one.settings or {} for p, one in facts.items()}),
        *_mesh({p: one.mesh for p, one in facts.items()}),
        *_distribution({p: one.distribution for p, one in facts.items()}),
        *names(
            {p: one.names for p, one in facts.items() if one.names is not None},
            code=len(python) < 2,
        ),
    ]


def _cell(digests: Mapping[int, str | None]) -> list[Difference]:
    do = (
        "IPython changes this cell differently on the processes: compare aliases, macros and input "
        "transformers."
    )
    return difference("the cell's text", digests, do, lambda digest: f"digest {digest}")


def _software(versions: Mapping[int, Mapping[str, str]]) -> list[Difference]:
    do = (
        f"Install the same version on all hosts ({command('doctor')} says what to type), then "
        f"{command('restart')}."
    )
    return _by_key(versions, "the version of {}", lambda name: do)


def _modules(versions: Mapping[int, Mapping[str, str]]) -> list[Difference]:
    def do(name: str) -> str:
        return f"importlib.reload({name}) in one {command('unchecked')} cell makes it the same on all of them."

    return _by_key(versions, "the code of module {}", do, lambda digest: f"digest {digest}")


def _variables(flags: Mapping[int, Mapping[str, str]]) -> list[Difference]:
    do = f"Set the same value for all with {option('environment')} when you start them."
    unset = {name: "not set" for one in flags.values() for name in one}
    return _by_key({p: {**unset, **one} for p, one in flags.items()}, "{}", lambda name: do)


def _settings(values: Mapping[int, Mapping[str, str]]) -> list[Difference]:
    def do(name: str) -> str:
        return f"Set {name} to the same value on all of them, in one {command('cell')}."

    return _by_key(values, "{}", do)


def _by_key(
    values: Mapping[int, Mapping[str, str]],
    about: str,
    do: Callable[[str], str],
    text: Callable[[str], str] = str,
) -> list[Difference]:
    """Compare the values under each key, on the processes that have the key.

    The others need not use what only some have, such as an imported package.
    """
    found = []
    for key in dict.fromkeys(key for one in values.values() for key in one):
        having = {p: one[key] for p, one in values.items() if key in one}
        found += difference(about.format(key), having, do(key), text)
    return found


def _mesh(meshes: Mapping[int, Mesh | None]) -> list[Difference]:
    do = f"Set the same on all of them with jax.set_mesh in one {command('cell')}."
    return _described("the mesh in context", meshes, do, _mesh_texts)


def _distribution(distributions: Mapping[int, DistributionFacts | None]) -> list[Difference]:
    do = (
        "Set the same on all of them with keras.distribution.set_distribution in one "
        f"{command('cell')}."
    )
    return _described("Keras' distribution", distributions, do, _distribution_texts)


def _mesh_texts(meshes: Sequence[Mesh | None]) -> list[str]:
    """Return meshes as `data=4 × model=2`; with the axis types if only these differ."""
    texts = [mesh_axes_text(mesh) if mesh else "none" for mesh in meshes]
    if len(set(texts)) < len(texts):
        texts = [
            f"{text} ({', '.join(axis.type for axis in mesh.axes)})" if mesh else text
            for text, mesh in zip(texts, meshes, strict=True)
        ]
    return distinct_texts(texts)


def _distribution_texts(distributions: Sequence[DistributionFacts | None]) -> list[str]:
    """Return distributions as `DataParallel over batch=4`, with the other fields that differ."""
    there = [one for one in distributions if one is not None]
    more = [
        name
        for name in ("batch_axis", "auto_shard", "rules")
        if any(getattr(one, name) != getattr(there[0], name) for one in there)
    ]
    texts = []
    for one in distributions:
        if one is None:
            texts.append("none")
            continue
        (mesh,) = _mesh_texts([one.mesh])
        extra = "".join(f", {name.replace('_', ' ')} {_plain(getattr(one, name))}" for name in more)
        texts.append(f"{one.kind} over {mesh}{extra}")
    return distinct_texts(texts)


def _plain(value: Any) -> str:
    if not isinstance(value, tuple):
        return str(value)
    rules = [f"{rule.pattern!r}: {rule.axes}" for rule in value]
    return f"{{{', '.join(rules[:3])}{', …' if len(rules) > 3 else ''}}}"


MOST_LISTED = 5
"""The most differences that are listed; the first is usually the cause of the others."""


def differences_text(found: Sequence[Difference], hosts: Mapping[int, str]) -> str:
    """Return the error's text: a sentence for each difference, what has run, and what to do."""
    listed = [_sentence(one, hosts) for one in found[:MOST_LISTED]]
    if len(found) > MOST_LISTED:
        listed.append(f"{count_text(len(found) - MOST_LISTED, 'other')} as well")
    return (
        f"{'; '.join(listed)}. Nothing was run. {found[0].do} "
        f"{command('unchecked')} runs it anyway."
    )


def _sentence(one: Difference, hosts: Mapping[int, str]) -> str:
    versions = (f"{text} on {where_text(ids, hosts)}" for ids, text in one.versions)
    return f"{one.about} differs: {', '.join(versions)}"


def busy_text(
    doing: Mapping[int, Activity | None], hosts: Mapping[int, str], waited_s: float
) -> str:
    """Return the error's text for processes that do not answer."""
    busy = []
    for process_id, activity in doing.items():
        at = ""
        if activity is not None and activity.state != "idle" and activity.cell is not None:
            line = f", line {activity.line}" if activity.line else ""
            source = f", {activity.source}" if activity.source else ""
            at = f" in cell {activity.cell}{line}{source}"
        busy.append(f"{where_text([process_id], hosts)} is busy{at}")
    return (
        f"{'; '.join(busy)}: not compared within {waited_s:g} s. Nothing was run. {command('sync')} waits until "
        f"all are idle; {command('unchecked')} queues the cell behind what runs."
    )


ANSWER_SECONDS = 5.0
"""The longest wait for the answers of all processes together; an idle one takes milliseconds."""


def refuse_disagreement(
    ask: Callable[[int, AskAgreement], Pending[Agreement]],
    targets: Sequence[int],
    code: str,
    *,
    hosts: Mapping[int, str],
    activity: Callable[[int], Activity | None],
    digests: Callable[[Sequence[int], str], Mapping[int, Mapping[str, str]] | None] = lambda *_: (
        None
    ),
    timeout_s: float = ANSWER_SECONDS,
) -> None:
    """Compare what must be equal on all targets before they run a cell; use no collective.

    Args:
      ask: Sends a request to a process; see `nbdist.launch.start.pending.ask`.
      targets: The processes that are to run the cell in step; a single one is never refused.
      code: The cell's code.
      hosts: Host names by process id.
      activity: The newest activity of a process, for one that does not answer.
      digests: Asks processes for their digests in a faster way; returns None if that is not possible for all.
      timeout_s: The longest wait for all answers together.

    Raises:
      AgreementError: Something differs, or a process is busy; nothing of the cell has run.
      GoneError: A process has ended.
    """
    if len(targets) < 2:
        return
    deadline = time.monotonic() + timeout_s

    def answers(topics: tuple[str, ...] | None) -> dict[int, Agreement]:
        asked = {p: ask(p, AskAgreement(code=code, topics=topics)) for p in targets}
        for request in asked.values():
            request.wait(max(0.0, deadline - time.monotonic()))
        busy = [p for p, request in asked.items() if not request.ready()]
        if busy:
            doing = {p: activity(p) for p in busy}
            raise AgreementError(busy_text(doing, hosts, timeout_s))
        return {p: request.get()[0] for p, request in asked.items()}

    found = digests(targets, code) or {p: one.digests or {} for p, one in answers(None).items()}
    first = found[targets[0]]
    differing = tuple(t for t in first if len({one.get(t) for one in found.values()}) > 1)
    if differing:
        what = differences({p: one.facts or Facts() for p, one in answers(differing).items()})
        if what:
            raise AgreementError(differences_text(what, hosts))
