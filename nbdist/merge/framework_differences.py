"""Distributions and models that should be the same on all processes and are not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from nbdist.contract.snapshot import Disagreement, Distribution, Mesh, Model, Variable
from nbdist.merge.disagreements import disagreement, mesh_text
from nbdist.merge.frameworks import Merged
from nbdist.notation import axes_text, entries_text
from nbdist.quantities import array_type_text, count_text


def distribution_differences(
    merged: Merged, groups: Iterable[frozenset[int]], meshes: Mapping[str, Mesh]
) -> tuple[Disagreement, ...]:
    """Compare the distributions set on processes at the same place; return at most one entry.

    Leaves out what each replica gets of a batch: it follows from the batch, which is compared.
    """
    of = merged.distribution_of
    for group in groups:
        held: dict[Distribution | None, list[int]] = {}
        for process_id in sorted(group & of.keys()):
            one = of[process_id]
            held.setdefault(one and replace(one, replica_batches=()), []).append(process_id)
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
    """Return `DataParallel on mesh batch=4`, with as much more as tells the texts apart."""
    details: tuple[Callable[[Distribution], str], ...] = (
        lambda one: f"{one.kind} on mesh {mesh_text(one.mesh, meshes)}" if one.mesh else one.kind,
        lambda one: f"batches split over {one.batch_axis}" if one.batch_axis else "",
        lambda one: (
            "" if one.auto_shard is None else f"auto-sharding {'on' if one.auto_shard else 'off'}"
        ),
        lambda one: f"global batch {one.global_batch}" if one.global_batch else "",
        lambda one: f"{count_text(one.replicas, 'replica')}" if one.replicas else "",
        lambda one: ", ".join(f"{rule.pattern} {axes_text(rule.axes)}" for rule in one.rules),
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
    """Return what must be equal on all processes; the rule that gave a layout may differ."""
    return tuple(map(_laid_out, model.variables))


def _laid_out(one: Variable) -> tuple[object, ...]:
    return one.path, one.shape, one.dtype, one.axes, one.spec


def _model_texts(models: list[Model]) -> list[str]:
    """Return the number of variables where it differs, else the first variable that does."""
    counts = [count_text(len(model.variables), "variable") for model in models]
    if len(set(counts)) == len(counts):
        return counts
    for variables in zip(*(model.variables for model in models), strict=False):
        if len(set(map(_laid_out, variables))) > 1:
            return list(map(_variable_text, variables))
    return counts


def _variable_text(one: Variable) -> str:
    spec = "not on a mesh" if one.spec is None else entries_text(one.spec)
    asked = f", asked for {axes_text(one.axes)}" if one.axes else ""
    return f"{one.path} {array_type_text(one.dtype, one.shape)} {spec}{asked}"
