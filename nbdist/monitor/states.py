"""States of the processes and of the session, from what was reported and from what the kernel knows besides.

`Known` holds the kernel's own facts, `Latest` what a process has said; `process_now` joins both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from nbdist.contract.snapshot import (
    Activity,
    Device,
    Mesh,
    Notice,
    Process,
    ProcessState,
    Progress,
    SessionState,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedProcess:
    """A process of the launch plan.

    `role` is, for example, `"worker"`; `task` is the framework's own name for the process where that differs, such
    as `"evaluator 0"`.
    """

    process_id: int
    host: str
    role: str
    task: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The error that a process raised in the running cell, and where in the cell."""

    error: str
    cell: int | None = None
    line: int | None = None
    source: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """Facts about the processes that the kernel knows at this moment, beside their reports.

    Attributes:
      failed: The processes whose part of the running cell has raised while others are still in it.
      stuck: The processes that were interrupted and are not back, until they report that they have left the cell
        whose `run` is in `stuck_in`.
      lost: How each process that is gone ended (`"ended by signal 9 (SIGKILL)"`).
      silent: The hosts that do not answer, each with the Unix time since when.
      why: How it is known that the processes are out of step; `advice` says how to go on then.
      repairing: Whether they are being brought in step.
      resizing: What is started in their place, such as `3 processes in place of 4`.
      repaired: What the last repair did, until another cell has ended.
      notices: Any other notices, shown first; the merger itself writes those about the facts above.
    """

    failed: Mapping[int, Failure] = field(default_factory=dict)
    stuck: frozenset[int] = frozenset()
    stuck_in: Mapping[int, int] = field(default_factory=dict)
    lost: Mapping[int, str] = field(default_factory=dict)
    silent: Mapping[str, float] = field(default_factory=dict)
    out_of_step: bool = False
    why: str | None = None
    advice: str = ""
    repairing: bool = False
    resizing: str | None = None
    repaired: str | None = None
    stopped: bool = False
    notices: tuple[Notice, ...] = ()


@dataclass(slots=True)
class Latest:
    """The newest of everything one process has said.

    Its arrays are in the `ArrayIndex`, its distribution and models in the `FrameworkIndex`. `activity` may be
    newer than `reported`, where a reply to a cell has said more than the process's own reports.
    """

    host: str
    pid: int
    sequence: int
    time_s: float
    activity: Activity | None = None
    reported: Activity | None = None
    content_run: int | None = None
    devices: tuple[Device, ...] = ()
    meshes: tuple[Mesh, ...] = ()
    arrays_omitted: int = 0
    progress: Progress | None = None


def process_now(
    planned: ExpectedProcess, latest: Latest | None, known: Known, *, time_s: float
) -> Process:
    """Return one process of the plan as the session knows it at Unix time `time_s`."""
    activity = latest.activity if latest else None
    state = _state(planned.process_id, activity, known)
    failure = known.failed.get(planned.process_id) if state == "failed" else None
    # One that has raised stands where it did.
    place = failure or activity
    error = known.lost.get(planned.process_id) if failure is None else failure.error
    return Process(
        process_id=planned.process_id,
        host=planned.host,
        pid=latest.pid if latest else None,
        role=planned.role,
        state=state,
        cell=place.cell if place else None,
        line=place.line if place else None,
        source=place.source if place else None,
        cell_seconds=activity.cell_seconds if activity else None,
        line_seconds=activity.line_seconds if activity else None,
        waiting=activity.waiting if activity and state in ("running", "stuck") else False,
        rss_bytes=activity.rss_bytes if activity and state != "lost" else None,
        context_mesh=activity.context_mesh if activity else None,
        error=error,
        silent_seconds=max(time_s - latest.time_s, 0.0) if latest else None,
        task=planned.task,
        progress=latest.progress if latest else None,
    )


def session_state(processes: tuple[Process, ...], known: Known) -> SessionState:
    """Return the state of the whole session in a word; what stops the work comes first."""
    states = {process.state for process in processes}
    if known.stopped:
        return "stopped"
    if known.repairing:
        return "repairing"
    if known.resizing is not None:
        return "resizing"
    if states & {"lost", "stuck"} or ("failed" in states and states & {"running", "compiling"}):
        return "stuck"
    if known.out_of_step:
        return "out of step"
    if "starting" in states:
        return "starting"
    return "running" if states & {"running", "compiling"} else "idle"


def _state(process_id: int, activity: Activity | None, known: Known) -> ProcessState:
    if process_id in known.lost:
        return "lost"
    if process_id in known.stuck:
        run = known.stuck_in.get(process_id)
        if run is None or activity is None or not has_left(activity, run):
            return "stuck"
    if process_id in known.failed:
        return "failed"
    return activity.state if activity else "starting"


def has_left(activity: Activity, run: int) -> bool:
    """Return whether a process has reported after the cell with this `run` that it is in none.

    A report from before that cell says nothing: a process that was stopped at the beginning of the cell has never
    reported that it was in it.
    """
    return activity.state == "idle" and activity.run is not None and activity.run >= run


def at_rest(activity: Activity) -> Activity:
    """Return the activity of the same process, idle."""
    return replace(
        activity,
        state="idle",
        cell=None,
        line=None,
        source=None,
        cell_seconds=None,
        line_seconds=None,
        waiting=False,
    )
