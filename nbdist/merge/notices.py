"""The sentences a person should read now, made from the facts of a session."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from nbdist.contract.limits import LARGE_BYTES
from nbdist.contract.snapshot import Array, Mesh, Notice, Process
from nbdist.merge.facts import Known
from nbdist.pieces import split
from nbdist.quantities import bytes_text, processes_text, seconds_text

MAY_HANG = "Collectives may hang or mix up values."
REPAIRING = "Not all processes have sent the same programs to their devices. Cells wait until the repair is done."
RESIZING = (
    "The new ones are being started, and get the names and the arrays of those that are there. Cells wait until "
    "then; if it does not succeed, these go on."
)

SHOWN = 3
"""Processes named one by one; a pod that loses a host loses many at once."""


def trouble(processes: Iterable[Process], known: Known, *, time_s: float) -> tuple[Notice, ...]:
    """One notice for what has raised, what is lost, what is stuck, and each host that is silent."""
    everyone = tuple(processes)
    of_state = {
        state: [process for process in everyone if process.state == state]
        for state in ("failed", "lost", "stuck")
    }
    notices = []
    if of_state["failed"]:
        notices.append(_raised(of_state["failed"], everyone))
    if of_state["lost"]:
        notices.append(_lost(of_state["lost"], everyone))
    if of_state["stuck"]:
        notices.append(_stuck(of_state["stuck"], everyone))
    notices += [
        _silent(host, time_s - since, [one for one in everyone if one.host == host])
        for host, since in list(known.silent.items())[:SHOWN]
    ]
    if known.repairing:
        notices.append(_repairing([one.process_id for one in of_state["lost"]]))
    elif known.resizing is not None:
        notices.append(
            Notice(level="warn", title=f"Going on with {known.resizing}.", text=RESIZING)
        )
    elif known.out_of_step and of_state["lost"] == list(everyone):
        notices.append(Notice(level="bad", title="All processes have ended.", text=known.advice))
    elif known.out_of_step:
        why = f"Collectives may hang or mix up values: {known.why}." if known.why else MAY_HANG
        notices.append(
            Notice(
                level="bad",
                title="The collectives are out of step.",
                text=f"{why} {known.advice}".rstrip(),
            )
        )
    elif known.repaired is not None:
        title, _, text = known.repaired.partition("; ")
        # Lines may begin with names of the user's, which stay as they are written.
        said = "; ".join(line.strip() for line in text.splitlines())
        title = f"{title[:1].upper()}{title[1:]}{':' if said else '.'}"
        notices.append(Notice(level="warn", title=title, text=f"{said}." if said else ""))
    return tuple(notices)


def _repairing(lost: Sequence[int]) -> Notice:
    if not lost:
        return Notice(level="warn", title="Getting in step again.", text=REPAIRING)
    many = len(lost) > 1
    return Notice(
        level="warn",
        title=f"Bringing {processes_text(lost)} back.",
        text=f"{'Others start in their places' if many else 'Another starts in its place'}, and "
        f"{'get' if many else 'gets'} the names and the parts of arrays of one that lives. Cells wait until then.",
    )


def whole_array(arrays: Iterable[Array], meshes: Mapping[str, Mesh]) -> tuple[Notice, ...]:
    """Names the largest array that every device of its mesh holds whole, from `LARGE_BYTES` on."""
    largest = max(
        (array for array in arrays if array.nbytes >= LARGE_BYTES and _is_whole(array, meshes)),
        key=lambda array: array.nbytes,
        default=None,
    )
    if largest is None:
        return ()
    devices = split(largest, meshes).devices
    text = f"is whole on all {devices} devices ({bytes_text(largest.nbytes)} each)"
    return (Notice(level="warn", title=largest.path, text=text),)


def more_disagreements(count: int) -> tuple[Notice, ...]:
    """Says that `count` more things differ than are listed; nothing for none."""
    if count <= 0:
        return ()
    text = "only the first are listed; often one process has missed a whole cell"
    return (Notice(level="warn", title=f"{count} more differences between processes", text=text),)


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
    return Notice(
        level="bad", title=title, text=" ".join([*parts, *_rest(failed), *_lines(inside)])
    )


def _lost(lost: list[Process], everyone: tuple[Process, ...]) -> Notice:
    parts = [
        f"Process {one.process_id}{_on_host(one, everyone)}: {one.error}." for one in lost[:SHOWN]
    ]
    verb = "is" if len(lost) == 1 else "are"
    text = " ".join([*parts, *_rest(lost)])
    return Notice(level="bad", title=f"{_named(lost)} {verb} lost.", text=text)


def _silent(host: str, seconds: float, processes: list[Process]) -> Notice:
    text = (
        f"It has sent nothing for {seconds_text(seconds)}: it is cut off, overloaded, or stopped."
    )
    if processes:
        text += f" {_named(processes)} there may still be running."
    return Notice(level="bad", title=f"Host {host} does not answer.", text=text)


def _stuck(stuck: list[Process], everyone: tuple[Process, ...]) -> Notice:
    parts = [
        f"Process {one.process_id}{_on_host(one, everyone)} was interrupted and has not "
        f"stopped{_still_at(one)}."
        for one in stuck[:SHOWN]
    ]
    verb = "is" if len(stuck) == 1 else "are"
    text = " ".join([*parts, *_rest(stuck)])
    return Notice(level="bad", title=f"{_named(stuck)} {verb} stuck.", text=text)


def _on_host(process: Process, everyone: tuple[Process, ...], form: str = " on {}") -> str:
    """On which host it is; empty where the session has one host only."""
    return form.format(process.host) if len({one.host for one in everyone}) > 1 else ""


def _lines(inside: list[Process]) -> list[str]:
    """Where those are that have not raised, the largest group first."""
    places: dict[tuple[int | None, str | None], list[Process]] = {}
    for process in inside:
        places.setdefault((process.line, process.source), []).append(process)
    sentences = []
    for group in sorted(places.values(), key=len, reverse=True)[:SHOWN]:
        seconds = max((process.line_seconds or 0 for process in group), default=0)
        verb = "is" if len(group) == 1 else "are"
        sentences.append(f"{_named(group)} {verb}{_at(group[0])} for {seconds_text(seconds)}.")
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
