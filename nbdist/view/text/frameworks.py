"""Distributions, models and progress in a few lines."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence

from nbdist.contract.limits import MOST_NAMED_DEVICES
from nbdist.contract.snapshot import Distribution, Mesh, Metric, Model, Process, Snapshot
from nbdist.notation import axes_text, mesh_axes_text
from nbdist.pieces import meshes_of
from nbdist.quantities import bytes_text, count_text, processes_text

RULES = 8
"""The most layout rules that are written out; further ones are counted."""

_BATCHES = 16
"""The most replicas whose part of a batch is written out where it differs."""


def framework_lines(snapshot: Snapshot, *, width: int) -> list[str]:
    """Return lines on the distributions, their layout rules, and the devices' bytes of each model."""
    lines = []
    for one in snapshot.distributions:
        lines += distribution_lines(snapshot, one, width=width)
        lines += [part for line in _rule_lines(one) for part in _wrapped(line, width)]
    return lines + [part for one in snapshot.models for part in _wrapped(model_text(one), width)]


def distribution_lines(snapshot: Snapshot, one: Distribution, *, width: int) -> list[str]:
    """Return the text of a distribution in lines of `width` characters at most."""
    return _wrapped(distribution_text(one, meshes_of(snapshot)), width)


def distribution_text(one: Distribution, meshes: Mapping[str, Mesh]) -> str:
    """Return `distribution DataParallel  mesh batch=4  batches split over batch, auto-sharding off`."""
    mesh = meshes.get(one.mesh) if one.mesh is not None else None
    facts = [
        f"batches split over {one.batch_axis}" if one.batch_axis is not None else "",
        "" if one.auto_shard is None else f"auto-sharding {'on' if one.auto_shard else 'off'}",
        "" if one.replicas is None else count_text(one.replicas, "replica"),
        "" if one.global_batch is None else f"global batch {one.global_batch}",
        _each_text(one.replica_batches),
    ]
    parts = [
        f"{one.noun} {one.kind}",
        f"mesh {mesh_axes_text(mesh)}" if mesh else "",
        ", ".join(filter(None, facts)),
        f"({processes_text(one.processes)})" if one.processes else "",
    ]
    return "  ".join(filter(None, parts))


def model_text(one: Model) -> str:
    """Return `model  Sequential, 16 variables, 65.7 MB on each of 4 devices`."""
    count = count_text(len(one.variables) + one.variables_omitted, "variable")
    totals = "; ".join(
        f"{bytes_text(total.nbytes)} on {_devices_text(total.devices, alone=len(one.totals) == 1)}"
        for total in one.totals
    )
    parts = [one.kind, count, totals]
    by = f"  ({processes_text(one.processes)})" if one.processes else ""
    return f"{one.path}  {', '.join(filter(None, parts))}{by}"


def progress_lines(processes: Sequence[Process]) -> list[str]:
    """Return `fit, epoch 2 of 5  loss 0.312  accuracy 0.911  (processes 0, 1)`, one for each that differs."""
    alike: dict[str, list[int]] = {}
    for process in processes:
        if process.progress is not None:
            text = "  ".join([process.progress.what, *map(metric_text, process.progress.metrics)])
            alike.setdefault(text, []).append(process.process_id)
    return [f"{text}  ({processes_text(ids)})" for text, ids in alike.items()]


def metric_text(metric: Metric) -> str:
    """Return `loss 0.312`: three significant digits, whole numbers from 100 up."""
    value = metric.value
    return f"{metric.name} {value:.0f}" if abs(value) >= 100 else f"{metric.name} {value:.3g}"


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, subsequent_indent="  ", break_on_hyphens=False)


def _rule_lines(one: Distribution) -> list[str]:
    lines = [f"  {rule.pattern}  {axes_text(rule.axes)}" for rule in one.rules[:RULES]]
    left_out = len(one.rules) - RULES
    return [*lines, f"  … and {count_text(left_out, 'more rule')}"] if left_out > 0 else lines


def _each_text(batches: tuple[int, ...]) -> str:
    if not batches:
        return ""
    if len(set(batches)) == 1:
        return f"{batches[0]} on each replica"
    shown = ", ".join(map(str, batches[:_BATCHES]))
    return f"on the replicas {shown}{', …' if len(batches) > _BATCHES else ''}"


def _devices_text(keys: tuple[str, ...], *, alone: bool) -> str:
    if alone and len(keys) > 1:
        return f"each of {len(keys)} devices"
    more = len(keys) - MOST_NAMED_DEVICES
    named = ", ".join(f"device {key}" for key in keys[:MOST_NAMED_DEVICES])
    return f"{named} and {more} more" if more > 0 else named
