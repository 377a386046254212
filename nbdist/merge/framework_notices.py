"""Notices about distributions and models that do not do what they seem to do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from nbdist.contract.snapshot import Array, Distribution, Model, Notice
from nbdist.merge.frameworks import Merged
from nbdist.quantities import bytes_text, count_text

SHOWN = 3
"""The most rules that are named one by one."""


def of(merged: Merged) -> tuple[Notice, ...]:
    """Return all notices about the distributions set and the models there are, each once."""
    found = (
        *(_problem(one) for one in merged.distributions if one.problem),
        *(_uneven(one) for one in merged.distributions if len(set(one.replica_batches)) > 1),
        *(notice for one in merged.distributions for notice in _unmatched(one, merged.models)),
        *(_missed(one) for one in merged.models if any(v.missed for v in one.variables)),
    )
    return tuple(dict.fromkeys(found))


def beside_models(arrays: Iterable[Array], merged: Merged) -> tuple[Array, ...]:
    """Return the arrays that are not variables of models; a model shows the layout of its own variables."""
    variables = {
        variable.array
        for model in merged.models
        for variable in model.variables
        if variable.array is not None
    }
    return tuple(array for array in arrays if array.path not in variables)


def _problem(one: Distribution) -> Notice:
    return Notice(level="warn", title=f"{one.kind}:", text=one.problem or "")


def _uneven(one: Distribution) -> Notice:
    """Notice that one replica gets fewer examples: it waits for the others, and plain means weigh them more."""
    effect = "the means of all replicas count the same, so examples in smaller parts weigh more"
    each = ", ".join(map(str, one.replica_batches))
    total = sum(one.replica_batches) if one.global_batch is None else one.global_batch
    count = len(one.replica_batches)
    text = f"global batch {total} on {count_text(count, 'replica')}: {each}; {effect}"
    return Notice(level="warn", title="The batch is divided unevenly:", text=text)


def _unmatched(one: Distribution, models: tuple[Model, ...]) -> Iterator[Notice]:
    """Yield a notice for rules that match no variable of any model; a rule may be meant for any of the models."""
    theirs = [model for model in models if _share(one, model)]
    rules = [rule.pattern for rule in one.rules]
    patterns = [rule for rule in rules if all(rule in model.unmatched for model in theirs)]
    if not theirs or not patterns:
        return
    named = ", ".join(f"'{pattern}'" for pattern in patterns[:SHOWN])
    more = f" and {len(patterns) - SHOWN} more" if len(patterns) > SHOWN else ""
    several = len(patterns) > 1
    paths = {model.path for model in theirs}
    whose = f"no variable of {theirs[0].path}" if len(paths) == 1 else "no variable of any model"
    yield Notice(
        level="warn",
        title=f"Rule{'s' * several} {named}{more}",
        text=f"of the layout map match{'es' * (not several)} {whose}",
    )


def _share(one: Distribution, model: Model) -> bool:
    """Return whether some process has both; an empty list of processes means all."""
    if not one.processes or not model.processes:
        return True
    return not set(one.processes).isdisjoint(model.processes)


def _missed(model: Model) -> Notice:
    """Notice the largest of the large variables that no rule matched."""
    missed = [one for one in model.variables if one.missed]
    largest = max(missed, key=lambda one: one.nbytes)
    devices = sum(len(total.devices) for total in model.totals)
    on = f"all {devices} devices" if devices > 1 else "every device"
    more = f", nor {count_text(len(missed) - 1, 'other large variable')}" if len(missed) > 1 else ""
    text = f"is whole on {on} ({bytes_text(largest.nbytes)} each): no rule of the layout map matched it"
    return Notice(level="warn", title=largest.path, text=f"{text}{more}")
