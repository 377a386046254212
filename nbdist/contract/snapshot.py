"""The one contract between engines, kernel and view: reports in, snapshots out.

A *report* is the newest description of one process by itself; a *snapshot* is what is known about the whole
session at one moment. Both are plain data: every value here survives `json.loads(json.dumps(encode(value)))`
unchanged. The JSON Schema and the TypeScript types of the view are generated from this file (`make types`).

A snapshot carries meshes (grids of device keys) and, for each array, mesh + spec + shape. Which device holds which
piece is computed from those (`nbdist.pieces`), so a snapshot's size is devices + arrays, not devices × arrays.

Source: imports nothing outside the standard library but msgspec, since engines import it too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from nbdist.contract.program import ShownProgram
from nbdist.contract.wire import Data, Tagged
from nbdist.errors import Notice

VERSION = 7
"""Rises with every change that an older reader would misread."""

DeviceKey = str
"""`"process_id:device_id"`. JAX's CPU device ids are not dense (process p starts at
2048 × p), so a device is never named by its position alone."""

Slices = tuple[tuple[int, int], ...]
"""Half-open `(start, stop)` element indices, one pair per dimension of the array."""


class Axis(Data):
    """One named axis of a mesh."""

    name: str
    size: int
    type: Literal["auto", "explicit", "manual"]


class Mesh(Data):
    """A named grid of devices.

    `id` is a digest of axes and devices, so that equal meshes made on different processes
    have one id. `devices` is row-major: the last axis varies fastest.
    """

    id: str
    axes: tuple[Axis, ...]
    devices: tuple[DeviceKey, ...]


class Memory(Data):
    """A device's own memory statistics, in bytes; a number the platform does not give is None.

    Source: `jax.Device.memory_stats()`, which answers None on CPU.
    """

    bytes_in_use: int | None
    peak_bytes_in_use: int | None
    bytes_limit: int | None


class Device(Data):
    """One accelerator, reported by the process it belongs to.

    `live_bytes` sums the pieces of live arrays on it, each buffer counted once; None before
    the back end is up. `coords` is its position in the pod, on platforms that have one (TPU).
    """

    key: DeviceKey
    process_id: int
    id: int
    platform: str
    kind: str
    coords: tuple[int, ...] | None
    memory: Memory | None
    live_bytes: int | None


class NamedSharding(Tagged):
    """Mesh + spec: `spec[d]` names the mesh axes that split dimension d, in order.

    `spec` has one entry per dimension of the array. Axes in `unreduced` hold partial sums:
    the devices along them hold different values that are still to be added, never copies.
    """

    mesh: str
    spec: tuple[tuple[str, ...], ...]
    unreduced: tuple[str, ...]
    memory_kind: str | None
    kind: ClassVar[Literal["named"]] = "named"


class SingleDevice(Tagged):
    """The whole array on one device."""

    device: DeviceKey
    memory_kind: str | None
    kind: ClassVar[Literal["single"]] = "single"


class PerProcess(Tagged):
    """Each process has an array of its own under this path, whole, on one of its devices.

    Made by the monitor out of the processes' `SingleDevice` reports. The values may differ, so each
    device's is a piece of its own, never a copy of another's.
    """

    devices: tuple[DeviceKey, ...]
    memory_kind: str | None
    kind: ClassVar[Literal["per_process"]] = "per_process"


class Piece(Data):
    """One part of an array and the devices that hold a copy of it."""

    slices: Slices
    devices: tuple[DeviceKey, ...]


class Indexed(Tagged):
    """Any other sharding: its index map, grouped by piece.

    Source: `jax.sharding.Sharding.devices_indices_map`.
    """

    pieces: tuple[Piece, ...]
    memory_kind: str | None
    kind: ClassVar[Literal["indexed"]] = "indexed"


Sharding = NamedSharding | SingleDevice | PerProcess | Indexed


class Array(Data):
    """One named array of the users' namespaces.

    `path` is the Python expression that reaches it from the namespace, such as
    `params['dense'].kernel`. `shape` is global, one size per dimension; `nbytes` is the
    bytes of one whole copy. `processes` are those that have it under this path with exactly this
    description, and empty when all have, which keeps a snapshot's size devices + arrays; where
    processes differ, there is one `Array` for each version. In a report it is always empty.
    """

    path: str
    shape: tuple[int, ...]
    dtype: str
    nbytes: int
    sharding: Sharding
    processes: tuple[int, ...] = ()


class LayoutRule(Data):
    """One rule of a layout map: variables whose path `pattern` matches wholly get these axes.

    `axes` has one entry per dimension of the variable; None leaves that dimension whole.
    """

    pattern: str
    axes: tuple[str | None, ...]


class Distribution(Data):
    """The distribution that spreads data and variables over devices: Keras' distribution or TensorFlow's strategy.

    `noun` is the framework's word for it, `kind` the name of its class. `mesh` is the id of its mesh; `batch_axis`
    the axis that splits batches. `auto_shard` says whether the framework splits data sets; None if there is no
    such choice. `rules` are those of a layout map, in order. `replicas` is how many copies of the model train in
    step; `global_batch` is the number of examples in a batch of the data set last given to `fit`, and
    `replica_batches` the number each replica gets of it, in order. `problem` is a sentence if it does not do what
    it says, as with a back end that does not shard. `processes` are those that have exactly this distribution set,
    and empty when all have; in a report it is always empty.
    """

    noun: Literal["distribution", "strategy"]
    kind: str
    mesh: str | None
    batch_axis: str | None
    auto_shard: bool | None
    rules: tuple[LayoutRule, ...] = ()
    replicas: int | None = None
    global_batch: int | None = None
    replica_batches: tuple[int, ...] = ()
    problem: str | None = None
    processes: tuple[int, ...] = ()


class Variable(Data):
    """One variable of a model.

    `path` is the framework's own, such as `"sequential/dense/kernel"`, which rules are matched against; `array` is
    its path among the listed arrays, None if it is not listed. `rule` is the pattern that matched it and `axes`
    the layout it asked for; both None if no rule did. `spec` is its actual layout, one entry per dimension, None
    if it is not spread over a mesh. `device_bytes` is the number of its bytes on each of its devices. `missed`
    marks large variables, whole on every device, that no rule matched although there are rules.
    """

    path: str
    array: str | None
    group: Literal["trainable", "non-trainable", "optimizer"]
    shape: tuple[int, ...]
    dtype: str
    nbytes: int
    rule: str | None
    axes: tuple[str | None, ...] | None
    spec: tuple[tuple[str, ...], ...] | None
    device_bytes: int
    missed: bool


class DeviceBytes(Data):
    """Bytes that each of these devices holds."""

    devices: tuple[DeviceKey, ...]
    nbytes: int


class Model(Data):
    """A model of the users' namespaces, its optimizer's slots included.

    `path` is the Python expression that reaches it; `kind` the name of its class. `unmatched` are the patterns of
    rules that matched none of its variables. `totals` groups devices by the bytes of its variables they hold, the
    fullest first; in a report, as far as that process sees. `processes` are those that have exactly this model,
    and empty when all have; in a report it is always empty.
    """

    path: str
    kind: str
    variables: tuple[Variable, ...]
    variables_omitted: int
    unmatched: tuple[str, ...]
    totals: tuple[DeviceBytes, ...]
    processes: tuple[int, ...] = ()


class Metric(Data):
    """One named number, such as a loss."""

    name: str
    value: float


class Progress(Data):
    """How far training or evaluation is, as the framework last reported at the end of an epoch or evaluation.

    `what` reads like `"fit, epoch 2 of 5"` or `"evaluate, checkpoint ckpt-3"`. A number that is not finite
    is left out of `metrics`.
    """

    what: str
    metrics: tuple[Metric, ...]


ProcessState = Literal[
    "starting",  # has not reported yet
    "idle",
    "running",  # in a cell
    "compiling",  # in a cell, inside XLA's or JAX's compilation
    "failed",  # its part of the cell that runs now has raised; others are still in it
    "stuck",  # interrupted, and not back since
    "lost",  # the process is gone
]


class Activity(Data):
    """Activity of a process: the section of a report that is sent most often.

    `cell` is the notebook's execution count, `line` the 1-based line of that cell, `source` that line's text,
    stripped. Seconds are durations at the time of the report. `waiting` is true when the main thread stands inside
    the framework and neither compiles nor uses the processor, or when nbdist waits for other processes to make the
    same call. `run` is the number of the newest cell that has begun on this process, which rises within a session
    and is the same on all processes; None before the first.
    """

    state: Literal["idle", "running", "compiling"]
    cell: int | None
    line: int | None
    source: str | None
    cell_seconds: float | None
    line_seconds: float | None
    waiting: bool
    rss_bytes: int
    context_mesh: str | None
    run: int | None = None


class NameSamples(Data):
    """A short text for each of the user's names after a cell; see `nbdist.engine.probe.samples`.

    Attributes:
      run: The `run` of the cell.
      texts: By name.
    """

    run: int
    texts: Mapping[str, str]


class Report(Data):
    """One process's report about itself. A section that is None has not changed.

    Every section is repeated at least every two seconds, so that a kernel that attaches later knows everything
    soon. `sequence` rises by one with each report of a process. `content_run` is the `run` of the cell after which
    nbdist last looked for arrays, meshes, distributions and models; None if that was in the middle of a cell, or
    before the first.
    """

    version: int
    process_id: int
    sequence: int
    host: str
    pid: int
    activity: Activity | None = None
    devices: tuple[Device, ...] | None = None
    meshes: tuple[Mesh, ...] | None = None
    arrays: tuple[Array, ...] | None = None
    arrays_omitted: int | None = None
    """Named arrays beyond the probe's bounds that are not in `arrays`; goes with `arrays`."""
    distributions: tuple[Distribution, ...] | None = None
    """The distribution that is set now; empty if none is set."""
    models: tuple[Model, ...] | None = None
    progress: tuple[Progress, ...] | None = None
    """The last progress of this process; empty before the first."""
    samples: NameSamples | None = None
    content_run: int | None = None


class Process(Data):
    """One process as the whole session knows it.

    `error` is what it raised (`"ValueError: empty batch"`) or how it ended; `silent_seconds` is the
    age of its newest report.
    """

    process_id: int
    host: str
    pid: int | None
    role: str
    state: ProcessState
    cell: int | None
    line: int | None
    source: str | None
    cell_seconds: float | None
    line_seconds: float | None
    waiting: bool
    rss_bytes: int | None
    context_mesh: str | None
    error: str | None
    silent_seconds: float | None
    task: str | None = None
    """The framework's name for the process, if it has another, such as `"evaluator 0"`."""
    progress: Progress | None = None


class Version(Data):
    """One value, and the processes that hold it, where all should hold the same."""

    processes: tuple[int, ...]
    value: str


class Disagreement(Data):
    """A disagreement between processes about something that should be the same on all.

    `about` reads like `"array w"` or `"mesh in context"`; `versions` has two entries or more, the one
    of the most processes first.
    """

    about: str
    versions: tuple[Version, ...]


class Torus(Data):
    """The devices of a pod as its network connects them.

    `axes` are the dimensions of the torus, the last changes fastest: `z`, `y` and `x`, before them `slice` if
    there are several slices, after them `core` if a chip has several devices. `wraps` are the axes in which the
    last chip has a link to the first; None if that is not known.
    """

    axes: tuple[Axis, ...]
    devices: tuple[DeviceKey, ...]
    wraps: tuple[str, ...] | None


SessionState = Literal[
    "starting",
    "idle",
    "running",
    "recovering",  # a process has failed; the others will be interrupted
    "stuck",
    "repairing",
    "resizing",
    "out of step",
    "stopped",
    "planned",  # a plan of a pod; no process exists
    "compiled",  # a program that was compiled, and does not run
    "refused",  # a program that the compiler has refused
]


class Snapshot(Data):
    """Snapshot of the whole session at one moment.

    `time` is Unix time in seconds; `sequence` rises with each snapshot of a session. `recovers_at` is when the
    processes still in the cell of a failed one will be interrupted, in Unix seconds, if that is known. `torus` is
    that of a planned pod, which does not exist, and `program` the program that is shown.
    """

    session: str
    sequence: int
    time: float
    state: SessionState
    recovers_at: float | None = None
    version: int = VERSION
    processes: tuple[Process, ...] = ()
    devices: tuple[Device, ...] = ()
    meshes: tuple[Mesh, ...] = ()
    arrays: tuple[Array, ...] = ()
    arrays_omitted: int = 0
    distributions: tuple[Distribution, ...] = ()
    models: tuple[Model, ...] = ()
    disagreements: tuple[Disagreement, ...] = ()
    notices: tuple[Notice, ...] = ()
    torus: Torus | None = None
    program: ShownProgram | None = None
