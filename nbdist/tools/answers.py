"""Answers of the tools: plain data of bounded size, each with a text form; and errors as data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from nbdist.contract.program import Program
from nbdist.contract.snapshot import Disagreement, Process, Snapshot
from nbdist.contract.wire import encode
from nbdist.errors import NbdistError, without_colors
from nbdist.notice import Notice
from nbdist.session.cells.outcome import ProcessOutcome

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
