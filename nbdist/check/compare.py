"""The facts of several processes compared; pure functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nbdist.check.names import names
from nbdist.check.versions import Difference, difference, grouped, ordered
from nbdist.contract.agreement import DistributionFacts, Facts
from nbdist.contract.snapshot import Mesh
from nbdist.merge.disagreements import distinct_texts
from nbdist.notation import mesh_axes_text
from nbdist.spelling import command, option


def differences(facts: Mapping[int, Facts]) -> list[Difference]:
    """Return the differences, causes before their consequences; empty where nothing that matters differs.

    Args:
      facts: By process id; all processes were asked for the same topics.
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
    found = []
    for name in _every_key(versions):
        # A package that only some have imported need not be used by the others.
        of = {p: one[name] for p, one in versions.items() if name in one}
        found += difference(f"the version of {name}", of, do)
    return found


def _modules(versions: Mapping[int, Mapping[str, str]]) -> list[Difference]:
    found = []
    for name in _every_key(versions):
        # A module that only some have imported need not be used by the others.
        of = {p: one[name] for p, one in versions.items() if name in one}
        do = f"importlib.reload({name}) in one {command('unchecked')} cell makes it the same on all of them."
        found += difference(f"the code of module {name}", of, do, lambda digest: f"digest {digest}")
    return found


def _variables(flags: Mapping[int, Mapping[str, str]]) -> list[Difference]:
    do = f"Set the same value for all with {option('environment')} when you start them."
    found = []
    for name in _every_key(flags):
        found += difference(name, {p: one.get(name, "not set") for p, one in flags.items()}, do)
    return found


def _settings(values: Mapping[int, Mapping[str, str]]) -> list[Difference]:
    found = []
    for name in _every_key(values):
        of = {p: one[name] for p, one in values.items() if name in one}
        found += difference(
            name, of, f"Set {name} to the same value on all of them, in one {command('cell')}."
        )
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


def _described(
    about: str, values: Mapping[int, Any], do: str, texts: Callable[[list[Any]], list[str]]
) -> list[Difference]:
    groups = grouped(values)
    if len(groups) < 2:
        return []
    said = texts([value for _, value in groups])
    versions = ordered((ids, text) for (ids, _), text in zip(groups, said, strict=True))
    return [Difference(about, versions, do)]


def _mesh_texts(meshes: Sequence[Mesh | None]) -> list[str]:
    """Return `data=4 × model=2`; with the axis types where only these differ."""
    texts = [mesh_axes_text(mesh) if mesh else "none" for mesh in meshes]
    if len(set(texts)) < len(texts):
        texts = [
            f"{text} ({', '.join(axis.type for axis in mesh.axes)})" if mesh else text
            for text, mesh in zip(texts, meshes, strict=True)
        ]
    return distinct_texts(texts)


def _distribution_texts(distributions: Sequence[DistributionFacts | None]) -> list[str]:
    """Return `DataParallel over batch=4`, and what else differs."""
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


def _every_key(by_process: Mapping[int, Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(key for one in by_process.values() for key in one))
