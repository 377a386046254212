"""Answers of the tools, as plain data of bounded size: sessions, cells, arrays and their shardings, errors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from nbdist.contract.program import Program
from nbdist.contract.snapshot import Array, Disagreement, Mesh, Process, Snapshot
from nbdist.contract.wire import encode
from nbdist.errors import NbdistError, Notice, SpecError, without_colors
from nbdist.notation import array_type_text, bytes_text, columns, count_text, spec_text
from nbdist.pieces import fullest_bytes, meshes_of, pieces, sentence
from nbdist.session.cells.outcome import ProcessOutcome
from nbdist.view.shards import Shards

MOST_PROCESSES = 64
"""The most processes that are listed one by one; those in trouble come first."""

MOST_DETAILS = 20_000
"""The most characters of an error's details."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a tool.

    Attributes:
      data: A dataclass of this module.
      text: The same for a person who reads it in a terminal.
      failed: Whether a command ends with exit code 1.
    """

    data: Any
    text: str
    failed: bool = False

    @property
    def refused(self) -> bool:
        """Whether the tool has not done what was asked."""
        return isinstance(self.data, Failure)

    @property
    def plain(self) -> dict[str, Any]:
        """The data as JSON carries them; an error is the only entry of its dict."""
        found: dict[str, Any] = encode(self.data)
        return {"error": found} if self.refused else found


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """An error.

    Attributes:
      code: The class of the error, such as `SessionError`.
      message: What happened, what it means for the variables, and what to do: a line each.
      lost: The paths of the arrays that were lost.
      cause: The error that a process raised first, such as `ValueError: empty batch`.
      process: The process that raised it.
      host: The host of that process.
      line: The line of the cell.
      source: The text of that line.
      details: The traceback and further lines, without colors; may be cut.
    """

    code: str
    message: str
    lost: tuple[str, ...] = ()
    cause: str | None = None
    process: int | None = None
    host: str | None = None
    line: int | None = None
    source: str | None = None
    details: str = ""


def failure_of(error: BaseException) -> Failure:
    """Return an error as data."""
    first = next(iter(getattr(error, "failures", ())), None)
    notice = error.notice if isinstance(error, NbdistError) else NbdistError(str(error)).notice
    message, _ = bounded(str(notice), MOST_DETAILS)
    traceback = without_colors(getattr(error, "above", ""))
    lines = [*([traceback] if traceback else []), *notice.details]
    details, _ = bounded("\n".join(lines), MOST_DETAILS)
    code = type(error).__name__
    failure = Failure(code=code, message=message, lost=notice.lost, details=details)
    if not isinstance(first, ProcessOutcome):
        return failure
    return replace(
        failure,
        cause=None if first.error is None else bounded(first.error, MOST_DETAILS)[0],
        process=first.process_id,
        host=first.host,
        line=first.line,
        source=first.source,
    )


def refused(error: NbdistError | TimeoutError) -> Answer:
    """Return the answer of a tool that could not do what was asked."""
    failure = failure_of(error)
    traceback = without_colors(getattr(error, "above", ""))
    said = f"{failure.code}: {failure.message}"
    return Answer(failure, f"{traceback}\n{said}" if traceback else said, failed=True)


def bounded(text: str, most: int) -> tuple[str, int]:
    """Return a text of at most `most` characters, its beginning and its end, and how many were left out.

    A line in the middle, which is not counted, says so.
    """
    left_out = len(text) - most
    if left_out <= 0:
        return text, 0
    head = most // 4
    note = f"\n… {left_out:,} characters left out …\n"
    return f"{text[:head]}{note}{text[len(text) - (most - head) :]}", left_out


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceKind:
    """Devices of one kind."""

    platform: str
    kind: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CellState:
    """A cell that was asked for here: its number and state, as in `Cell`."""

    cell: int
    state: str
    says: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """A session now.

    Attributes:
      session: Its id.
      state: Its state, such as `idle`, `running`, `repairing` or `out of step`.
      framework: `jax`, `keras` or `tensorflow`.
      kept: Whether the session outlives the kernel that started it.
      kernels: Process ids of the other kernels that are attached.
      allowed: What is allowed here: `read`, `run`, `recover`.
      hosts: The hosts of all processes.
      processes: The processes, with the cell and line that each is in; those in trouble first if there are many.
      processes_left_out: How many more there are.
      devices: The devices of all processes.
      cells: The cells that were asked for here.
      notices: Sentences that a person sees now.
      disagreements: What should be equal on all processes and is not.
    """

    session: str
    state: str
    framework: str
    kept: bool
    kernels: tuple[int, ...]
    allowed: tuple[str, ...]
    hosts: tuple[str, ...]
    processes: tuple[Process, ...]
    processes_left_out: int
    devices: tuple[DeviceKind, ...]
    cells: tuple[CellState, ...]
    notices: tuple[Notice, ...]
    disagreements: tuple[Disagreement, ...]


def shown_processes(processes: Sequence[Process]) -> tuple[Process, ...]:
    """Return the processes to list one by one."""
    if len(processes) <= MOST_PROCESSES:
        return tuple(processes)
    troubled = ("lost", "stuck", "failed")
    return tuple(sorted(processes, key=lambda one: one.state not in troubled)[:MOST_PROCESSES])


def device_kinds(snapshot: Snapshot) -> tuple[DeviceKind, ...]:
    """Return the devices, counted by platform and kind."""
    counts: dict[tuple[str, str], int] = {}
    for device in snapshot.devices:
        kind = (device.platform, device.kind)
        counts[kind] = counts.get(kind, 0) + 1
    return tuple(
        DeviceKind(platform=platform, kind=kind, count=count)
        for (platform, kind), count in counts.items()
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The program of a call.

    Attributes:
      call: The call.
      remark: The processes whose program differs; else empty.
      program: The program, as in the reference of what methods return.
      text: The same in words.
    """

    call: str
    remark: str
    program: Program
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A text: what `stacks`, `interrupt_cell` and `recover` return."""

    text: str


CellStateName = Literal["queued", "running", "finished", "failed", "interrupted", "not sent"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CellProcess:
    """One process in a cell; `outcome` as in the reference, such as `running` or `raised`."""

    process: int
    host: str
    outcome: str
    line: int | None
    source: str | None
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A cell that was asked for.

    Attributes:
      cell: Its number, by which `follow_cell` and `interrupt_cell` know it.
      state: `queued`: it waits in line and has not been sent. `not sent`: it never will be. `running`, `finished`,
        `failed`, `interrupted`: what it did.
      says: The state in words, such as what it is queued behind, and what to do.
      seconds: Seconds since it was asked for; to its end once it has ended.
      processes: Its processes; those that failed first if there are many.
      processes_left_out: How many more there are.
      output: All output so far, equal on several processes once; its beginning and end if it is long.
      characters_left_out: How many characters of it are not in `output`.
      error: Its error, if it has failed.
    """

    cell: int
    state: CellStateName
    says: str
    seconds: float
    processes: tuple[CellProcess, ...] = ()
    processes_left_out: int = 0
    output: str = ""
    characters_left_out: int = 0
    error: Failure | None = None

    def answer(self) -> Answer:
        """Return the cell as an answer."""
        error = [] if self.error is None else [self.error.details or self.error.message]
        # The last line of the output says how a cell has ended.
        says = "" if self.state in ("finished", "failed", "interrupted") else self.says
        text = "\n".join(filter(None, [self.output, *error, says]))
        return Answer(self, text, failed=self.state in ("failed", "interrupted", "not sent"))


def cell_processes(outcomes: Iterable[ProcessOutcome]) -> tuple[CellProcess, ...]:
    """Return the processes of a cell, those that failed first."""
    fine = ("finished", "running")
    return tuple(
        CellProcess(
            process=one.process_id,
            host=one.host,
            outcome=one.outcome,
            line=one.line or (one.activity.line if one.activity else None),
            source=one.source or (one.activity.source if one.activity else None),
            error=one.error and bounded(one.error, MOST_DETAILS // MOST_PROCESSES)[0],
        )
        for one in sorted(outcomes, key=lambda one: (one.outcome in fine, one.process_id))
    )


MOST_PIECES = 64
"""The most pieces of one array that are listed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayFacts:
    """One array of the processes' variables.

    Attributes:
      path: The expression that reaches it.
      dtype: Its type, such as `float32`.
      shape: Its global shape.
      sharding: Its spec, such as `P('data', None)`, or another kind of sharding in words.
      mesh: The size of each axis of its mesh; empty if it has none.
      layout: Its pieces in words.
      bytes: Bytes of the whole array.
      bytes_per_device: Bytes on its fullest device.
      processes: The processes that have it so; empty if all have.
    """

    path: str
    dtype: str
    shape: tuple[int, ...]
    sharding: str
    mesh: dict[str, int]
    layout: str
    bytes: int
    bytes_per_device: int
    processes: tuple[int, ...]


def array_facts(array: Array, snapshot: Snapshot | Shards) -> ArrayFacts:
    """Return what is known of an array of a snapshot, or of the answer about shards."""
    meshes = snapshot.meshes if isinstance(snapshot, Shards) else meshes_of(snapshot)
    mesh = meshes.get(array.sharding.mesh) if array.sharding.kind == "named" else None
    return ArrayFacts(
        path=array.path,
        dtype=array.dtype,
        shape=array.shape,
        sharding=spec_text(array),
        mesh={axis.name: axis.size for axis in mesh.axes} if mesh else {},
        layout=_layout(array, meshes),
        bytes=array.nbytes,
        bytes_per_device=fullest_bytes(array, meshes),
        processes=array.processes,
    )


def _layout(array: Array, meshes: Mapping[str, Mesh]) -> str:
    """Return the pieces in words; if the mesh is not known or does not fit, why there are none."""
    try:
        return sentence(array, meshes)
    except SpecError as error:
        return str(error)


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrays:
    """The arrays of a session, the largest first.

    Attributes:
      arrays: The arrays that are listed.
      left_out: How many more there are of those that were asked for.
      unreported: How many arrays the processes have beyond those that they report.
    """

    arrays: tuple[ArrayFacts, ...]
    left_out: int
    unreported: int

    def text(self) -> str:
        """Return a row for each array."""
        rows = [
            (
                one.path,
                array_type_text(one.dtype, one.shape),
                one.sharding,
                bytes_text(one.bytes),
                bytes_text(one.bytes_per_device),
            )
            for one in self.arrays
        ]
        heads = ("array", "type", "sharding", "bytes", "per device")
        lines = columns([heads, *rows], right=(3, 4)) if rows else ["no arrays"]
        more = self.left_out + self.unreported
        return "\n".join([*lines, *([f"… and {count_text(more, 'more array')}"] if more else [])])


def arrays_of(snapshot: Snapshot, *, find: str, most: int) -> Arrays:
    """Return the arrays of a snapshot whose paths contain a text."""
    found = sorted(
        (one for one in snapshot.arrays if find in one.path), key=lambda one: -one.nbytes
    )
    return Arrays(
        arrays=tuple(array_facts(one, snapshot) for one in found[:most]),
        left_out=len(found[most:]),
        unreported=snapshot.arrays_omitted,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PieceFacts:
    """One piece of an array: half-open slices, and the devices that hold it, as `process:device`."""

    slices: tuple[tuple[int, int], ...]
    devices: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardedArray:
    """One array and where its pieces lie; `pieces_left_out` are not listed."""

    array: ArrayFacts
    pieces: tuple[PieceFacts, ...]
    pieces_left_out: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharding:
    """Where the pieces of one array lie, or of the arrays below a name.

    Attributes:
      path: What was asked for.
      remark: How old the answer is, while the processes are busy; else empty.
      arrays: The arrays; pieces are listed of one array alone.
      left_out: How many more arrays there are.
      text: The same in words.
    """

    path: str
    remark: str
    arrays: tuple[ShardedArray, ...]
    left_out: int
    text: str


def sharding_of(found: Shards, *, most: int) -> Sharding:
    """Return the answer about shards as data."""
    alone = all(one.path == found.expression for one in found.arrays)
    text, _ = bounded(found.text(), MOST_DETAILS)
    return Sharding(
        path=found.expression,
        remark=found.remark,
        arrays=tuple(_sharded(one, found, listed=alone) for one in found.arrays[:most]),
        left_out=len(found.arrays[most:]) + found.left_out[0],
        text=text,
    )


def _sharded(array: Array, found: Shards, *, listed: bool) -> ShardedArray:
    parts = pieces(array, found.meshes) if listed else ()
    return ShardedArray(
        array=array_facts(array, found),
        pieces=tuple(
            PieceFacts(slices=part.slices, devices=part.devices) for part in parts[:MOST_PIECES]
        ),
        pieces_left_out=len(parts[MOST_PIECES:]),
    )
