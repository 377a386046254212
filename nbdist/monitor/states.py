"""States of the processes and of the session, and the notices to show to the user.

`Known` holds the kernel's own facts, `Latest` what a process has reported; `process_now` joins both. Notices name
the processes and hosts in trouble and what happens next (`trouble`), a large array that is not divided
(`whole_array`), and distributions and models that do not do what they seem to do (`layout_notices`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from msgspec import structs

from nbdist.contract.page import LARGE_BYTES
from nbdist.contract.snapshot import (
    Activity,
    Array,
    Device,
    Distribution,
    Mesh,
    Model,
    Process,
    ProcessState,
    Progress,
    SessionState,
)
from nbdist.errors import Notice
from nbdist.monitor.merged import Merged
from nbdist.notation import bytes_text, count_text, processes_text, seconds_text
from nbdist.pieces import split


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
    """The error that a process raised in the running cell, and the line where it was raised."""

    error: str
    cell: int | None = None
    line: int | None = None
    source: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """The kernel's present facts about the processes, in addition to their reports.

    Attributes:
      failed: The processes that have raised in the running cell while others are still in it.
      stuck: The processes that were interrupted but have not returned, until they report that they have left the
        cell whose `run` is in `stuck_in`.
      lost: How each lost process ended (`"ended by signal 9 (SIGKILL)"`).
      silent: The hosts that do not answer, each with the Unix time since when.
      why: The evidence that the processes are out of step; `advice` says how to go on.
      repairing: Whether the processes are being brought in step.
      resizing: The change of size in progress, such as `3 processes in place of 4`.
      ends_at: When the processes still in a cell will be interrupted because another has failed (Unix seconds).
      notice: The last failure or repair, until another cell has ended.
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
    ends_at: float | None = None
    notice: Notice | None = None
    stopped: bool = False
    notices: tuple[Notice, ...] = ()


@dataclass(slots=True)
class Latest:
    """The newest data of each kind that one process has reported.

    Its arrays are in the `ArrayIndex`, its distribution and models in the `FrameworkIndex`. `activity` may be
    newer than `reported`: a reply to a cell may come before the process's own report.
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
    # A process that has raised is shown at the line where it raised.
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
    """Return the state of the whole session; one that stops the work takes precedence.

    While others are still in the cell in which a process failed or was lost, nbdist is about to end that cell and
    to go on, unless a process has resisted an interrupt.
    """
    states = {process.state for process in processes}
    if known.stopped:
        return "stopped"
    if known.repairing:
        return "repairing"
    if known.resizing is not None:
        return "resizing"
    if "stuck" not in states and states & {"failed", "lost"} and states & {"running", "compiling"}:
        return "recovering"
    if states & {"lost", "stuck"}:
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
    """Return whether a process has reported, after the cell with this `run`, that it is in no cell.

    A report from before that cell proves nothing: a process that was stopped at the start of the cell never
    reported that it was in it.
    """
    return activity.state == "idle" and activity.run is not None and activity.run >= run


def at_rest(activity: Activity) -> Activity:
    """Return the activity of the same process, idle."""
    return structs.replace(
        activity,
        state="idle",
        cell=None,
        line=None,
        source=None,
        cell_seconds=None,
        line_seconds=None,
        waiting=False,
    )


_warn = partial(Notice, level="warn")
_bad = partial(Notice, level="bad")

MAY_HANG = "Collectives may hang or mix up values."
REPAIRING = "Not all processes have sent the same programs to their devices. Cells wait until the repair is done."
RESIZING = (
    "The new ones are being started, and get the names and the arrays of those that are there. Cells wait until "
    "then; if it does not succeed, these go on."
)

SHOWN = 3
"""The most processes, hosts or groups that are named one by one; a pod that loses a host loses many at once."""


def trouble(everyone: tuple[Process, ...], known: Known, *, time_s: float) -> tuple[Notice, ...]:
    """Return one notice each for failed, lost and stuck processes, and one for each silent host.

    Then follows one about the whole session: what is being done, how to go on, or what was repaired.
    """
    of_state = {
        state: [process for process in everyone if process.state == state]
        for state in ("failed", "lost", "stuck")
    }
    notices = [
        notice(of_state[state], everyone)
        for state, notice in (("failed", _raised), ("lost", _lost), ("stuck", _stuck))
        if of_state[state]
    ]
    notices += [
        _silent(host, time_s - since, [one for one in everyone if one.host == host])
        for host, since in list(known.silent.items())[:SHOWN]
    ]
    if known.repairing:
        notices.append(_repairing([one.process_id for one in of_state["lost"]]))
    elif known.resizing is not None:
        notices.append(_warn(title=f"Going on with {known.resizing}.", text=RESIZING))
    elif known.out_of_step and of_state["lost"] == list(everyone):
        notices.append(_bad(title="All processes have ended.", text=known.advice))
    elif known.out_of_step and session_state(everyone, known) != "recovering":
        why = f"Collectives may hang or mix up values: {known.why}." if known.why else MAY_HANG
        notices.append(
            _bad(
                title="The collectives are out of step.",
                text=f"{why} {known.advice}".rstrip(),
            )
        )
    elif known.notice is not None:
        notices.append(known.notice)
    return tuple(notices)


def _repairing(lost: Sequence[int]) -> Notice:
    if not lost:
        return _warn(title="Getting in step again.", text=REPAIRING)
    many = len(lost) > 1
    return _warn(
        title=f"Bringing {processes_text(lost)} back.",
        text=f"{'Others start in their places' if many else 'Another starts in its place'}, and "
        f"{'get' if many else 'gets'} the names and the parts of arrays of one that lives. Cells wait until then.",
    )


def whole_array(arrays: Iterable[Array], meshes: Mapping[str, Mesh]) -> tuple[Notice, ...]:
    """Return a notice of the largest array of at least `LARGE_BYTES` that every device of its mesh holds whole."""
    largest = max(
        (array for array in arrays if array.nbytes >= LARGE_BYTES and _is_whole(array, meshes)),
        key=lambda array: array.nbytes,
        default=None,
    )
    if largest is None:
        return ()
    devices = split(largest, meshes).devices
    text = f"is replicated on all {devices} devices ({bytes_text(largest.nbytes)} each)"
    return (_warn(title=largest.path, text=text),)


def more_disagreements(count: int) -> tuple[Notice, ...]:
    """Return a notice that `count` further differences are not listed; none for 0."""
    if count <= 0:
        return ()
    text = "only the first are listed; often one process has missed a whole cell"
    return (_warn(title=f"{count} more differences between processes", text=text),)


def _is_whole(array: Array, meshes: Mapping[str, Mesh]) -> bool:
    sharding = array.sharding
    if sharding.kind != "named" or any(sharding.spec) or sharding.unreduced:
        return False
    mesh = meshes.get(sharding.mesh)
    return mesh is not None and len(mesh.devices) > 1


def _raised(failed: list[Process], everyone: tuple[Process, ...]) -> Notice:
    inside = [process for process in everyone if process.state in ("running", "compiling")]
    raised = f"{_named(failed)} raised"
    title = f"{raised}, {_ids(inside)} still in the cell." if inside else f"{raised}."
    parts = [
        f"On process {process.process_id}{_on_host(process, everyone, ' ({})')}: {process.error}{_at(process)}."
        for process in failed[:SHOWN]
    ]
    return _bad(title=title, text=" ".join([*parts, *_rest(failed), *_lines(inside)]))


def _lost(lost: list[Process], everyone: tuple[Process, ...]) -> Notice:
    parts = [
        f"Process {one.process_id}{_on_host(one, everyone)}: {one.error}." for one in lost[:SHOWN]
    ]
    text = " ".join([*parts, *_rest(lost)])
    return _bad(title=f"{_are(lost)} lost.", text=text)


def _silent(host: str, seconds: float, processes: list[Process]) -> Notice:
    text = (
        f"It has sent nothing for {seconds_text(seconds)}: it is cut off, overloaded, or stopped."
    )
    if processes:
        text += f" {_named(processes)} there may still be running."
    return _bad(title=f"Host {host} does not answer.", text=text)


def _stuck(stuck: list[Process], everyone: tuple[Process, ...]) -> Notice:
    parts = [
        f"Process {one.process_id}{_on_host(one, everyone)} was interrupted and has not "
        f"stopped{_still_at(one)}."
        for one in stuck[:SHOWN]
    ]
    text = " ".join([*parts, *_rest(stuck)])
    return _bad(title=f"{_are(stuck)} stuck.", text=text)


def _on_host(process: Process, everyone: tuple[Process, ...], form: str = " on {}") -> str:
    """Return the process's host, worded with `form`; empty if the session has only one host."""
    return form.format(process.host) if len({one.host for one in everyone}) > 1 else ""


def _lines(inside: list[Process]) -> list[str]:
    """Return where the processes that have not raised are: one sentence a group, the largest first."""
    places: dict[tuple[int | None, str | None], list[Process]] = {}
    for process in inside:
        places.setdefault((process.line, process.source), []).append(process)
    sentences = []
    for group in sorted(places.values(), key=len, reverse=True)[:SHOWN]:
        seconds = max((process.line_seconds or 0 for process in group), default=0)
        sentences.append(f"{_are(group)}{_at(group[0])} for {seconds_text(seconds)}.")
    return sentences


def _at(process: Process) -> str:
    if process.line is None:
        return ""
    source = f", {process.source}" if process.source else ""
    return f" in line {process.line}{source}"


def _still_at(process: Process) -> str:
    return f"; it is{_at(process)}" if process.line is not None else ""


def _rest(processes: list[Process]) -> list[str]:
    return [f"And {len(processes) - SHOWN} more."] if len(processes) > SHOWN else []


def _ids(processes: list[Process]) -> str:
    return processes_text(process.process_id for process in processes)


def _named(processes: list[Process]) -> str:
    text = _ids(processes)
    return text[0].upper() + text[1:]


def _are(processes: list[Process]) -> str:
    return f"{_named(processes)} {'is' if len(processes) == 1 else 'are'}"


SHOWN_RULES = 3
"""The most rules that are named one by one."""


def layout_notices(merged: Merged) -> tuple[Notice, ...]:
    """Return all notices about the distributions and models of the session, each once."""
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
    return _warn(title=f"{one.kind}:", text=one.problem or "")


def _uneven(one: Distribution) -> Notice:
    """Return a notice of replicas that get fewer examples.

    Those replicas wait for the others, and a plain mean gives their examples more weight.
    """
    effect = "the means of all replicas count the same, so examples in smaller parts weigh more"
    each = ", ".join(map(str, one.replica_batches))
    total = sum(one.replica_batches) if one.global_batch is None else one.global_batch
    count = len(one.replica_batches)
    text = f"global batch {total} on {count_text(count, 'replica')}: {each}; {effect}"
    return _warn(title="The batch is divided unevenly:", text=text)


def _unmatched(one: Distribution, models: tuple[Model, ...]) -> Iterator[Notice]:
    """Yield a notice of rules that match no variable of any model; a rule may be meant for any model."""
    theirs = [model for model in models if _share(one, model)]
    rules = [rule.pattern for rule in one.rules]
    patterns = [rule for rule in rules if all(rule in model.unmatched for model in theirs)]
    if not theirs or not patterns:
        return
    named = ", ".join(f"'{pattern}'" for pattern in patterns[:SHOWN_RULES])
    more = f" and {len(patterns) - SHOWN_RULES} more" if len(patterns) > SHOWN_RULES else ""
    several = len(patterns) > 1
    paths = {model.path for model in theirs}
    whose = f"no variable of {theirs[0].path}" if len(paths) == 1 else "no variable of any model"
    yield _warn(
        title=f"Rule{'s' * several} {named}{more}",
        text=f"of the layout map match{'es' * (not several)} {whose}",
    )


def _share(one: Distribution, model: Model) -> bool:
    """Return whether some process has the distribution and the model; an empty list means all processes."""
    if not one.processes or not model.processes:
        return True
    return not set(one.processes).isdisjoint(model.processes)


def _missed(model: Model) -> Notice:
    """Return a notice of the largest variable that no rule matched, among the large ones."""
    missed = [one for one in model.variables if one.missed]
    largest = max(missed, key=lambda one: one.nbytes)
    devices = sum(len(total.devices) for total in model.totals)
    on = f"all {devices} devices" if devices > 1 else "every device"
    more = f", nor {count_text(len(missed) - 1, 'other large variable')}" if len(missed) > 1 else ""
    text = f"is replicated on {on} ({bytes_text(largest.nbytes)} each): no rule of the layout map matched it"
    return _warn(title=largest.path, text=f"{text}{more}")
