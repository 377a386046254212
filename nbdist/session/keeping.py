"""Sessions beyond the end of their kernel, and the copies of the user's files on their hosts.

A session is recorded so that another kernel finds it. That kernel takes over what was left unfinished, and follows
the cells that still run. The start of a session copies the user's files, and `sync_files` updates the copies.
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from nbdist.contract.asides import Repeat
from nbdist.contract.calls.engine import AskImported, Recall
from nbdist.contract.cells import OpenCell
from nbdist.errors import GoneError, SessionError
from nbdist.launch.files.sync import Copied, Files
from nbdist.launch.model.start_options import Rules
from nbdist.launch.sessions import recorded
from nbdist.launch.start.connect import end_processes
from nbdist.launch.start.pool import Agents
from nbdist.notation import processes_text
from nbdist.session.cells.attached_cell import RegainedRun
from nbdist.session.cells.cellrun import CellHandle
from nbdist.session.cells.execution import Cell
from nbdist.session.cells.facts import ProcessFacts
from nbdist.session.cells.followed import Background
from nbdist.session.cells.history import read_history
from nbdist.session.cells.supervisor import EndOfCell
from nbdist.session.engine_group import EngineGroup
from nbdist.session.recovery import cell_context, ensure_in_step
from nbdist.session.recovery.expression import fence
from nbdist.session.turn import TurnNotes
from nbdist.spelling import Placeholder, command, start_with

OnEnd = Callable[[EndOfCell], ProcessFacts]


def write_down(engines: EngineGroup, *, rules: Rules) -> str | None:
    """Record the session so that other kernels find it.

    Returns:
      Why this is not possible, as a sentence; None if it was done.
    """
    try:
        recorded.write_down(engines.cluster, rules=rules)
    except OSError as error:
        return (
            f"This session can be neither listed nor attached to: {error}. Set NBDIST_STATE to a folder that "
            "you can write to."
        )
    if engines.plan.keep:
        engines.cluster.own_agents.keep()
    return None


def follow_open_cells(
    engines: EngineGroup,
    cells: Iterable[OpenCell],
    *,
    besides: Collection[int],
    rules: Rules,
    ended: OnEnd,
) -> Iterator[RegainedRun]:
    """Follow the cells of other kernels that no kernel follows any more.

    Args:
      engines: The processes.
      cells: The cells, as they were noted when they were sent.
      besides: The pids of other living kernels, which handle their own cells.
      rules: The session's rules.
      ended: Called with the end of each cell.

    Yields:
      Each cell as soon as it is followed.
    """
    for cell in cells:
        requests = {p: r for p, r in cell.requests.items() if p in engines.plan.hosts}
        if cell.kernel in besides or not requests:
            continue
        # Processes that did not get this cell count their sent programs from an earlier cell on.
        engines.in_step_at = engines.in_step_at or cell.in_step
        context = cell_context(engines, requests, rules=rules, ended=ended)
        folder = context.folder / f"again-{time.time_ns()}"
        run = RegainedRun(
            Cell(number=cell.number, code=cell.code, offset=cell.offset),
            targets=sorted(requests),
            context=replace(context, folder=folder, in_step=None),
        )
        run.rejoin(
            cell,
            engines.cluster.connection,
            recall=lambda p, request: engines.send(p, Recall(request=request)),
            repeat=functools.partial(engines.cluster.agents.ask, Repeat(), sorted(requests))
            if engines.cluster.agents.all
            else None,
        )
        yield run


def take_over_turn(
    engines: EngineGroup,
    before: TurnNotes,
    background: Background,
    *,
    besides: Collection[int],
    rules: Rules,
    ended: OnEnd,
) -> str | None:
    """Handle what another kernel left unfinished in its turn, before this kernel sends anything in its own.

    The cells of an ended kernel are followed to their ends, and nothing else that it sent may begin later.

    Args:
      engines: The processes.
      before: The notes of that kernel.
      background: Gets the cells that are followed from now on.
      besides: As for `follow_open_cells`.
      rules: The session's rules.
      ended: As for `follow_open_cells`.

    Returns:
      What was done, or why the processes are not in step; None if they are and nothing was done.
    """
    engines.in_step_at = before.in_step
    started = recorded.started_elsewhere(engines.cluster)
    if started:
        engines.found_started(started, read_history(Path(engines.cluster.folder)))
    _end_unfinished(engines)
    if before.held or not before.settled:
        followed = {run.execution.number for run in background.runs}
        open_cells = read_history(Path(engines.cluster.folder)).running
        cells = [cell for cell in open_cells if cell.run not in followed]
        for run in follow_open_cells(engines, cells, besides=besides, rules=rules, ended=ended):
            run.when_over = engines.turn.kept(run.cell.number)
            background.add(run)
            run.until_known()
        fence(engines, background.busy, rules=rules)
    elif not engines.facts.out_of_step:
        return None
    if not engines.proves or background.inside():
        return None
    return ensure_in_step(engines, automatic=rules.recover)


def _end_unfinished(engines: EngineGroup) -> None:
    """End processes with which a kernel was replacing others when it ended itself.

    They have not joined the others, or have only part of their names and arrays; after this, they are replaced
    like any ended process.

    Raises:
      LaunchError: A process cannot be ended.
    """
    cluster = engines.cluster
    if not cluster.agents.all:
        return
    ended = cluster.exits
    unfinished = {
        p
        for p, pid in cluster.pids.items()
        if p not in ended and cluster.agents.of(p).pids.get(p, pid) != pid
    }
    if unfinished:
        end_processes(cluster, unfinished)
        # Their own reports only repeat what they were brought, so they are not used for comparison.
        engines.reported |= {p: {} for p in unfinished}
        engines.health.note(ProcessFacts.ended, cluster.exits)


def running_lines(runs: Iterable[RegainedRun]) -> list[str]:
    """Return a sentence for each of these cells that is still running."""
    said = []
    for run in runs:
        run.until_known()
        outcomes = CellHandle(run).outcomes
        still = [p for p, s in outcomes.items() if s.outcome == "running"]
        if still:
            verb = "runs" if len(still) == 1 else "run"
            said.append(
                f"{processes_text(still)} still {verb} cell {run.cell.number}: its output goes on below, "
                f"{command('sync')} waits for its end, {command('interrupt')} interrupts it."
            )
    return said


def kept_text(session: str) -> str:
    """Return a sentence about how to return to a session that outlives its kernel."""
    return (
        f"Session {session} is kept: {command('attach', session)} is back after a restart of this kernel, "
        f"{command('shutdown')} or nbdist stop {session} ends it."
    )


IMPORTED_SECONDS = 2.0
"""How long processes may take to say which modules they have imported; those in a cell do not answer."""


def files_brought(agents: Agents) -> list[str]:
    """Return lines about the copies of the user's files that a start has made."""
    if agents.files is None or not agents.others:
        return []
    folders = agents.files.working_folders(agents.others)
    return [*agents.files.first().text().splitlines(), *([folders] if folders else [])]


def sync_files(engines: EngineGroup) -> Copied:
    """Make the hosts' copies of the user's files equal to the originals again.

    Raises:
      SessionError: This session copies no files.
      OptionError: The files have become too large; nothing was sent.
      SyncError: A host could not take them.
    """
    files = engines.cluster.agents.files
    if files is None:
        raise SessionError(
            "This session has no files to bring to its hosts: "
            f"{start_with('sync', Placeholder('PATH'))} names them."
        )
    done = files.sync(engines.cluster.agents.others)
    if not done.has_changes:
        return done
    old, busy = imported(engines, files, done.changed)
    return replace(done, old=old, busy=busy)


def imported(
    engines: EngineGroup, files: Files, changed: Iterable[str]
) -> tuple[dict[str, tuple[int, ...]], tuple[int, ...]]:
    """Return the processes that have imported each changed module, and the processes that did not answer.

    As a side effect, the processes look again for modules that they did not find before.
    """
    asked = {}
    for process_id in engines.choice.able():
        info = engines.cluster.agents.host_info(process_id)
        folder = None if info is None else info.folder
        paths = tuple(files.path(name, folder) for name in changed)
        asked[process_id] = engines.send(process_id, AskImported(paths=paths))
    found: dict[str, tuple[int, ...]] = {}
    deadline = time.monotonic() + IMPORTED_SECONDS
    for process_id, request in asked.items():
        request.wait(max(0.0, deadline - time.monotonic()))
        with contextlib.suppress(GoneError):  # a process that has ended needs no new modules
            for name in request.get()[0].modules if request.ready() else ():
                found[name] = (*found.get(name, ()), process_id)
    return found, tuple(p for p, request in asked.items() if not request.ready())
