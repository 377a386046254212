"""The outcome of a cell on each process, and what it means for the others: pure functions.

They decide which processes have finished, raised or ended, and which line the rest are in, so that nothing waits
for a process that will not come.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from nbdist.contract.iopub import Prompt
from nbdist.contract.page import SILENT_SECONDS
from nbdist.contract.snapshot import Activity
from nbdist.notation import hosts_text, processes_text, seconds_text

Outcome = Literal["running", "finished", "raised", "interrupted", "gone", "stuck", "not run"]
"""`not run`: stopped before the process began the cell; if there is an error, an earlier cell had failed."""

MOST_CHARACTERS = 300
"""The most characters of an error that one line shows."""

WAIT_SECONDS = 10.0
"""Seconds a process may stay at one line, while others are elsewhere, before it is named."""


LEFT_ALONE = re.compile(
    r"closed by (the )?peer|reset by peer|broken pipe|socket closed|remote process exited"
    r"|DEADLINE_EXCEEDED|timed out waiting|connection timed out|no route to host",
    re.I,
)
"""Found in errors of gloo, gRPC and NCCL if the other end of a connection has gone, or never connects."""

PROVING = ", waiting for what was sent to the devices"
"""Shown for a process whose code has ended while computations are still running."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessOutcome:
    """One process in one cell.

    `activity` is its newest report in this cell, None before the first; `silent_s` is the age of its newest report
    of any kind. `error` is the error it raised, `line` and `source` say where; `time` is when it ended, in Unix
    seconds. `begun` says whether it has begun the cell, and `proving` whether its code has ended and it waits for
    the proof that all are in step. `one_host` says that the session has only one host, which messages need not
    name. `prompt` is the question it asks a person, `held` what it had in memory before a signal ended it, and
    `killed` whether a signal did.
    """

    process_id: int
    host: str
    outcome: Outcome
    one_host: bool = False
    activity: Activity | None = None
    silent_s: float = 0.0
    error: str | None = None
    line: int | None = None
    source: str | None = None
    time: float | None = None
    begun: bool = True
    proving: bool = False
    prompt: Prompt | None = None
    held: str | None = None
    killed: bool = False

    @property
    def compiling(self) -> bool:
        """Whether it last reported that it compiles; Python handles no signal during that."""
        return self.activity is not None and self.activity.state == "compiling"


def running(outcomes: Iterable[ProcessOutcome]) -> list[ProcessOutcome]:
    """Return the processes that are still in the cell."""
    return [process for process in outcomes if process.outcome == "running"]


def first_cause(outcomes: Collection[ProcessOutcome]) -> ProcessOutcome | None:
    """Return the failure that came first; an interrupted process is never a cause.

    Other processes see a dying process as a closed connection, a moment before its host reports the end, and a
    process whose host is gone as a connection that times out.
    """
    failed = [s for s in outcomes if s.outcome in ("raised", "gone")]
    failed = failed or [s for s in outcomes if s.outcome == "not run" and s.error is not None]
    first = _earliest(failed)
    if first is not None and first.outcome == "raised" and LEFT_ALONE.search(first.error or ""):
        return _earliest(s for s in failed if s.outcome == "gone") or first
    return first


def named_first(outcomes: Collection[ProcessOutcome]) -> ProcessOutcome | None:
    """Return the process to name first for a cell that has failed; None for a cell that has not.

    This is the first cause; in an interrupted cell, a process that had begun comes before one that had not.
    """
    failed = [s for s in outcomes if s.outcome not in ("finished", "running")]
    in_it = (s for s in failed if s.outcome != "not run")
    return first_cause(outcomes) or next(in_it, None) or next(iter(failed), None)


def outcome_of_cell(outcomes: Collection[ProcessOutcome]) -> Outcome:
    """Return how a cell ended as a whole; `running` if a process is still in it and nobody waits for it."""
    first = named_first(outcomes) or next(iter(running(outcomes)), None)
    return "finished" if first is None else first.outcome


def _earliest(outcomes: Iterable[ProcessOutcome]) -> ProcessOutcome | None:
    return min(outcomes, key=lambda s: (s.time or 0.0, s.process_id), default=None)


def processes_on_hosts_text(outcomes: Collection[ProcessOutcome]) -> str:
    """Return `processes 0, 1 (host h1)`; without the host if the session has only one."""
    said = processes_text([s.process_id for s in outcomes])
    if all(s.one_host for s in outcomes):
        return said
    return f"{said} ({hosts_text(s.host for s in outcomes)})"


def place(activity: Activity | None) -> tuple[int | None, str | None]:
    """Return the line a process is in, and its text."""
    return (activity.line, activity.source) if activity else (None, None)


def place_text(line: int | None, source: str | None) -> str:
    """Return `at line 4: y = step(params, x)`."""
    if line is None:
        return "in the cell"
    return f"at line {line}: {source}" if source else f"at line {line}"


def places_text(outcomes: Iterable[ProcessOutcome], *, ending: str = "") -> list[str]:
    """Return one line for each place in which processes are: which of them wait, run or compile there."""
    groups: dict[tuple[str, str], list[int]] = defaultdict(list)
    for process in running(outcomes):
        activity = process.activity
        doing = "running"
        if process.prompt is not None:
            groups["at a prompt", place_text(process.prompt.line, process.prompt.source)].append(
                process.process_id
            )
            continue
        if process.proving:
            groups["finished", PROVING].append(process.process_id)
            continue
        if process.compiling:
            doing = "compiling"
        elif activity is not None and activity.waiting:
            doing = "waiting"
        groups[doing, place_text(*place(activity))].append(process.process_id)
    return [
        f"{processes_text(ids)}   {doing}{where if where == PROVING else f' {where}'}{ending}"
        for (doing, where), ids in groups.items()
    ]


def first_line(error: str) -> str:
    """Return the first line of an error, shortened; errors of TensorFlow run to pages."""
    line, *more = error.strip().splitlines() or [""]
    if len(line) > MOST_CHARACTERS:
        return f"{line[:MOST_CHARACTERS]}…"
    return f"{line} …" if any(map(str.strip, more)) else line


def failure_lines(process: ProcessOutcome) -> list[str]:
    """Return lines that say which process failed with what error, and in which line."""
    lines = [f"{processes_on_hosts_text([process])}   {first_line(process.error or '')}"]
    if process.line is not None:
        # The place of a process that is gone comes from its last report.
        seen = "last seen at " if process.outcome == "gone" else ""
        lines.append(f"   {seen}line {process.line}   {process.source or ''}".rstrip())
    if process.held is not None:
        lines.append(f"   {process.held}")
    return lines


def silence(outcomes: Mapping[int, ProcessOutcome]) -> str | None:
    """Return a line for processes in the cell that have not reported for `SILENT_SECONDS`; None if all have."""
    groups: dict[tuple[str, str], list[ProcessOutcome]] = defaultdict(list)
    for process in running(outcomes.values()):
        if process.silent_s >= SILENT_SECONDS:
            groups[process.host, place_text(*place(process.activity))].append(process)
    return (
        "\n".join(
            f"{processes_on_hosts_text(group)}   silent for "
            f"{seconds_text(max(s.silent_s for s in group))}, last {where} (stopped, or the host is overloaded "
            "or cut off)"
            for (_, where), group in groups.items()
        )
        or None
    )


def divergence(outcomes: Mapping[int, ProcessOutcome]) -> str | None:
    """Return a sentence if processes stay at one line over `WAIT_SECONDS` while others are elsewhere; else None.

    Compiling is not waiting: while any process compiles, none is named.
    """
    still = running(outcomes.values())
    if any(s.proving or s.compiling for s in still):
        return None
    waiting = [s for s in still if s.activity and (s.activity.line_seconds or 0.0) >= WAIT_SECONDS]
    finished = [s for s in outcomes.values() if s.outcome == "finished"]
    places: dict[tuple[int | None, str | None], list[ProcessOutcome]] = defaultdict(list)
    for process in still:
        places[place(process.activity)].append(process)
    if not waiting or (len(places) < 2 and not finished):
        return None
    return _say_divergence(places, waiting, finished)


def _say_divergence(
    places: Mapping[tuple[int | None, str | None], list[ProcessOutcome]],
    waiting: list[ProcessOutcome],
    finished: list[ProcessOutcome],
) -> str:
    """Return `process 0 has been at line 9 for 13 s; process 1 is waiting at line 6`."""
    parts = []
    waiting_ids = {s.process_id for s in waiting}
    for (line, _), group in sorted(places.items(), key=lambda item: -len(item[1])):
        ids = [s.process_id for s in group]
        said, one = processes_text(ids), len(ids) == 1
        known = [s.activity for s in group if s.activity]
        where = place_text(line, None)
        if not known:
            parts.append(f"{said} {'has' if one else 'have'} reported nothing yet")
        elif waiting_ids.issuperset(ids):
            longest = max(activity.line_seconds or 0.0 for activity in known)
            parts.append(f"{said} {'has' if one else 'have'} been {where} for {longest:.0f} s")
        else:
            doing = "waiting " if all(activity.waiting for activity in known) else ""
            parts.append(f"{said} {'is' if one else 'are'} {doing}{where}")
    if finished:
        ids = [s.process_id for s in finished]
        parts.append(f"{processes_text(ids)} finished the cell")
    return "; ".join(parts)


def all_waiting(outcomes: Mapping[int, ProcessOutcome], *, longer_than_s: float) -> list[int]:
    """Return the processes still in the cell, if all of them have waited long inside the framework; else none.

    If the session is out of step, they wait in vain: the other processes have left, or the collectives do not
    match.
    """
    still = running(outcomes.values())
    waiting = [
        s.process_id
        for s in still
        if s.activity
        and s.activity.waiting
        and s.activity.state == "running"
        and (s.activity.line_seconds or 0.0) > longer_than_s
    ]
    return waiting if waiting and len(waiting) == len(still) else []
