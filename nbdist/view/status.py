"""Status of a session as text: its processes, notices, distributions and models; and names of devices in texts."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence

from nbdist.contract.page import MOST_NAMED_DEVICES
from nbdist.contract.snapshot import (
    DeviceKey,
    Disagreement,
    Distribution,
    Mesh,
    Metric,
    Model,
    Process,
    Snapshot,
)
from nbdist.errors import Notice
from nbdist.notation import (
    ROWS,
    WIDTH,
    asked_text,
    bytes_text,
    columns,
    count_text,
    cut,
    mesh_axes_text,
    processes_text,
    ranges_text,
    seconds_text,
    shorten,
)
from nbdist.pieces import meshes_of

RULES = 8
"""The most layout rules that are written out; further ones are counted."""

_BATCHES = 16
"""The most replicas whose parts of a batch are written out if the parts differ."""


def framework_lines(snapshot: Snapshot, *, width: int) -> list[str]:
    """Return lines on the distributions, their layout rules, and the devices' bytes of each model."""
    lines = []
    for one in snapshot.distributions:
        lines += distribution_lines(snapshot, one, width=width)
        lines += [part for line in _rule_lines(one) for part in _wrapped(line, width)]
    names = DeviceNames(device.key for device in snapshot.devices)
    texts = [model_text(one, names) for one in snapshot.models]
    return lines + [part for text in texts for part in _wrapped(text, width)]


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


def model_text(one: Model, names: DeviceNames) -> str:
    """Return `model  Sequential, 16 variables, 65.7 MB on each of 4 devices`."""
    count = count_text(len(one.variables) + one.variables_omitted, "variable")
    alone = len(one.totals) == 1
    totals = "; ".join(
        f"{bytes_text(total.nbytes)} on {_devices_text(total.devices, names, alone=alone)}"
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
    lines = [f"  {rule.pattern}  {asked_text(rule.axes)}" for rule in one.rules[:RULES]]
    left_out = len(one.rules) - RULES
    return [*lines, f"  … and {count_text(left_out, 'more rule')}"] if left_out > 0 else lines


def _each_text(batches: tuple[int, ...]) -> str:
    if not batches:
        return ""
    if len(set(batches)) == 1:
        return f"{batches[0]} on each replica"
    shown = ", ".join(map(str, batches[:_BATCHES]))
    return f"on the replicas {shown}{', …' if len(batches) > _BATCHES else ''}"


def _devices_text(keys: tuple[str, ...], names: DeviceNames, *, alone: bool) -> str:
    if alone and len(keys) > 1:
        return f"each of {len(keys)} devices"
    more = len(keys) - MOST_NAMED_DEVICES
    named = ", ".join(map(names.short, keys[:MOST_NAMED_DEVICES]))
    return f"{named} and {more} more" if more > 0 else named


_TROUBLED = ("failed", "stuck", "lost")


def status_text(snapshot: Snapshot, *, width: int = WIDTH) -> str:
    """Return the state of the session and of each process, progress of training, notices, disagreements.

    If there are more than 40 processes, 40 are shown, those in trouble first, and the rest are counted. Of a
    session that was stopped or left, no processes are known.
    """
    lines = [summary_text(snapshot)]
    if snapshot.processes and snapshot.state != "stopped":
        lines += _process_lines(snapshot, width)
        lines += _some([cut(line, width) for line in progress_lines(snapshot.processes)])
    for one in snapshot.distributions:
        lines += distribution_lines(snapshot, one, width=width)
    lines += map(_in_one_line, snapshot.notices)
    lines += [disagreement_text(one) for one in snapshot.disagreements]
    return "\n".join(lines)


def _in_one_line(notice: Notice) -> str:
    """Return title and text; a title that ends with an error's own text may lack its full stop."""
    apart = notice.text[:1].isupper() and not notice.title.endswith(".")
    return f"{notice.title}{'.' if apart else ''} {notice.text}"


def summary_text(snapshot: Snapshot) -> str:
    """Return `running   4 processes on 2 hosts   8 cpu devices`, or `recovering in 2 s …`."""
    hosts = {process.host for process in snapshot.processes}
    processes = count_text(len(snapshot.processes), "process")
    left_s = math.ceil((snapshot.recovers_at or snapshot.time) - snapshot.time)
    parts = [f"{snapshot.state} in {left_s} s" if left_s > 0 else snapshot.state]
    if snapshot.state not in ("planned", "compiled", "refused"):
        parts.append(f"{processes} on {count_text(len(hosts), 'host')}")
    for platform in dict.fromkeys(device.platform for device in snapshot.devices):
        count = sum(device.platform == platform for device in snapshot.devices)
        parts.append(count_text(count, f"{platform} device"))
    return "   ".join(parts)


def state_text(process: Process) -> str:
    """Return the state in a word; `waiting` for a running process that only waits inside the framework."""
    return "waiting" if process.state == "running" and process.waiting else process.state


def disagreement_text(disagreement: Disagreement) -> str:
    """Return `array w differs: processes 0, 1 f32[8] P('data'); process 2 missing`."""
    versions = (
        f"{processes_text(version.processes)} {version.value}" for version in disagreement.versions
    )
    return f"{disagreement.about} differs: {'; '.join(versions)}"


def task_text(process: Process) -> str:
    """Return the framework's name for the process, else its role in the launch plan."""
    return process.task or process.role


def _some(lines: list[str]) -> list[str]:
    left_out = len(lines) - ROWS
    return [*lines[:ROWS], f"… and {left_out} more"] if left_out > 0 else lines


def _process_lines(snapshot: Snapshot, width: int) -> list[str]:
    troubled = [process for process in snapshot.processes if process.state in _TROUBLED]
    others = [process for process in snapshot.processes if process.state not in _TROUBLED]
    many = len(snapshot.processes) > ROWS
    ordered = [*troubled, *others] if many else list(snapshot.processes)
    shown = ordered[:ROWS]
    hosts = shorten([process.host for process in shown], 24)
    roles = {task_text(process) for process in snapshot.processes}
    header = ["process", "host", "state", "cell", "line", "seconds", "memory", ""]
    rows = [header, *(_row(process, host) for process, host in zip(shown, hosts, strict=True))]
    if len(roles) > 1:
        for row, role in zip(rows, ["role", *map(task_text, shown)], strict=True):
            row.insert(2, role)
    lines = [cut(line, width) for line in columns(rows, gap=2)]
    return [*lines, _left_out_text(ordered[ROWS:])] if many else lines


def _row(process: Process, host: str) -> list[str]:
    seconds = process.line_seconds if process.state != "failed" else None
    return [
        str(process.process_id),
        host,
        state_text(process),
        "" if process.cell is None else str(process.cell),
        "" if process.line is None else str(process.line),
        "" if seconds is None else seconds_text(seconds),
        "" if process.rss_bytes is None else bytes_text(process.rss_bytes),
        process.error or process.source or "",
    ]


def _left_out_text(processes: list[Process]) -> str:
    states: dict[str, int] = {}
    for process in processes:
        states[state_text(process)] = states.get(state_text(process), 0) + 1
    counted = ", ".join(f"{count} {state}" for state, count in states.items())
    return f"… and {len(processes)} more processes: {counted}"


class DeviceNames:
    """Names of the devices of a session.

    Devices of a process are numbered from 0 in the order of `jax.local_devices()`, which is that of JAX's ids.
    The ids are no names for people: on CPUs the second process begins at 2048.

    Args:
      keys: The keys of all devices that the processes have reported.
    """

    def __init__(self, keys: Iterable[DeviceKey]) -> None:
        self._numbers: dict[DeviceKey, int] = {}
        counts: dict[str, int] = {}
        for key in sorted(keys, key=_process_and_id):
            process = key.partition(":")[0]
            self._numbers[key] = counts.get(process, 0)
            counts[process] = self._numbers[key] + 1

    def long(self, key: DeviceKey) -> str:
        """Return `process 1 · device 0`; for a device that was not reported, `process 1 · JAX id 2048`."""
        process, jax_id = _process_and_id(key)
        number = self._numbers.get(key)
        return f"process {process} · {f'JAX id {jax_id}' if number is None else f'device {number}'}"

    def short(self, key: DeviceKey) -> str:
        """Return `p1 · d0`, for tables; for a device that was not reported, `p1 · id 2048`."""
        process, jax_id = _process_and_id(key)
        number = self._numbers.get(key)
        return f"p{process} · {f'id {jax_id}' if number is None else f'd{number}'}"

    def numbers(self, keys: Iterable[DeviceKey]) -> str:
        """Return the numbers of devices of one process: `0–3`."""
        return ranges_text(sorted(self._numbers[key] for key in keys))


def _process_and_id(key: DeviceKey) -> tuple[int, int]:
    process, _, jax_id = key.partition(":")
    return int(process), int(jax_id)
