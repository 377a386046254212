"""One row a process, and what a person should read now."""

from __future__ import annotations

from nbdist.contract.snapshot import Disagreement, Process, Snapshot
from nbdist.quantities import bytes_text, count_text, processes_text, seconds_text
from nbdist.shorten import shorten
from nbdist.view.text.frameworks import distribution_lines, progress_lines
from nbdist.view.text.table import ROWS, WIDTH, columns, cut

_TROUBLED = ("failed", "stuck", "lost")


def status_text(snapshot: Snapshot, *, width: int = WIDTH) -> str:
    """Return the state of the session and of each process, progress of training, notices, disagreements.

    Of more than 40 processes, those in trouble are shown first and the rest is counted. Nothing is known of the
    processes of a session that was stopped, or left.
    """
    lines = [summary_text(snapshot)]
    if snapshot.processes and snapshot.state != "stopped":
        lines += _process_lines(snapshot, width)
        lines += _some([cut(line, width) for line in progress_lines(snapshot.processes)])
    for one in snapshot.distributions:
        lines += distribution_lines(snapshot, one, width=width)
    lines += [f"{notice.title} {notice.text}" for notice in snapshot.notices]
    lines += [disagreement_text(one) for one in snapshot.disagreements]
    return "\n".join(lines)


def summary_text(snapshot: Snapshot) -> str:
    """Return `running   4 processes on 2 hosts   8 cpu devices`."""
    hosts = {process.host for process in snapshot.processes}
    processes = count_text(len(snapshot.processes), "process")
    parts: list[str] = [snapshot.state]
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
