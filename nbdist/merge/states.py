"""The state of each process and of the session, from what was reported and what the kernel knows."""

from __future__ import annotations

from dataclasses import dataclass, replace

from nbdist.contract.snapshot import (
    Activity,
    Device,
    Mesh,
    Process,
    ProcessState,
    Progress,
    SessionState,
)
from nbdist.merge.facts import Failure, Known, Planned


@dataclass(slots=True)
class Latest:
    """The newest of everything one process has said.

    Its arrays are in the `ArrayIndex`, its distribution and models in the `FrameworkIndex`. `activity` may be
    newer than `reported`, where a reply has said more than the process itself.
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


def process(planned: Planned, latest: Latest | None, known: Known, *, time_s: float) -> Process:
    """One process of the plan as the session knows it at Unix time `time_s`."""
    activity = latest.activity if latest else None
    state = _state(planned.process_id, activity, known)
    place = _place(activity, known.failed.get(planned.process_id) if state == "failed" else None)
    error = known.lost.get(planned.process_id) if state == "lost" else place.error
    return Process(
        process_id=planned.process_id,
        host=planned.host,
        pid=latest.pid if latest else None,
        role=planned.role,
        state=state,
        cell=place.cell,
        line=place.line,
        source=place.source,
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
    """The whole session in a word: what stops the work comes first."""
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


@dataclass(frozen=True, slots=True)
class _Place:
    cell: int | None
    line: int | None
    source: str | None
    error: str | None


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
    """Whether a process has reported after the cell with this `run` that it is in none.

    A report from before that cell says nothing: one that was stopped at its beginning has never reported that it
    was in it.
    """
    return activity.state == "idle" and activity.run is not None and activity.run >= run


def _place(activity: Activity | None, failure: Failure | None) -> _Place:
    """Where the process stands; one that has raised, where it did."""
    if failure is not None:
        return _Place(failure.cell, failure.line, failure.source, failure.error)
    if activity is None:
        return _Place(None, None, None, None)
    return _Place(activity.cell, activity.line, activity.source, None)


def at_rest(activity: Activity) -> Activity:
    """The same process, idle."""
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
