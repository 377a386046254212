"""Processes in the middle of a cell: interrupt the cell, end it before a common step, or read the stacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nbdist.contract.asides import NativeStacks, Threads, ThreadStack
from nbdist.errors import SessionError
from nbdist.notation import count_text, processes_text
from nbdist.session.cells.cellrun import CellRun
from nbdist.session.cells.followed import Background, stopping_text
from nbdist.session.cells.targets import Targets
from nbdist.session.engine_group import EngineGroup
from nbdist.spelling import command


def interrupt(
    engines: EngineGroup,
    background: Background,
    cell: int | None,
    *,
    awaited: CellRun | None = None,
) -> str:
    """Interrupt one cell in the background, or everything that runs.

    Args:
      engines: The processes.
      background: The cells in the background.
      cell: The number of one of them; None: interrupt everything that runs.
      awaited: A cell for which another thread waits.

    Returns:
      One line that says what was interrupted.

    Raises:
      SessionError: `cell` does not run in the background.
    """
    if cell is not None:
        run = background.find(cell)
        inside = run.execution.still_in()
        if not inside:
            return f"cell {cell} has ended"
        run.interrupt()
        return f"interrupted: cell {cell} ({processes_text(inside)})"
    stopped = background.interrupt()
    # Processes of that cell may not have reported yet that they are in it.
    inside = () if awaited is None else awaited.execution.still_in()
    if awaited is not None and inside:
        awaited.interrupt()
        stopped[awaited.cell.number] = inside
    others = [p for p in sorted(engines.plan.hosts) if not any(p in s for s in stopped.values())]
    # Idle processes get no signal: between two cells, it might end the next one.
    busy = [p for p in others if engines.reports.in_cell(p) or p in engines.facts.stuck]
    if busy:
        engines.interrupt(busy)
    said = [f"cell {number} ({processes_text(ids)})" for number, ids in stopped.items()]
    said += [f"what runs on {processes_text(busy)}"] if busy else []
    return f"interrupted: {', '.join(said)}" if said else "no cell is running"


def stop_at_step(engines: EngineGroup, background: Background) -> str:
    """Make the processes of each cell in the background leave it before the same step.

    Returns:
      One line for each cell.

    Raises:
      SessionError: No cell runs in the background, or its processes cannot agree on a step.
    """
    runs = background.inside()
    if not runs:
        raise SessionError("No cell runs in the background that could be stopped.")
    said = []
    for run, inside in runs.items():
        with run.execution.stopping() as stop:
            steps = engines.asides.stop_at_step(inside, run.execution.number)
            stop.update(p for p, count in steps.items() if count is not None)
        said.append(stopping_text(run.cell.number, inside, steps))
    return "\n".join(said)


def stacks_text(found: Mapping[int, Threads], missing: Sequence[int], *, whole: bool) -> str:
    """Return the threads of each process, outermost call first; equal ones appear once.

    Args:
      found: The threads, by process id.
      missing: Processes that have not answered.
      whole: Show all threads; else the main thread, and how many others there are.
    """
    texts = {p: _threads_text(one.threads, whole=whole) for p, one in found.items()}
    return _by_text(texts, missing)


def native_text(found: Mapping[int, NativeStacks], missing: Sequence[int]) -> str:
    """Return the native stack of each process, or why py-spy could not read it; equal ones appear once."""
    texts = {p: one.text or f"  no native stack: {one.error}" for p, one in found.items()}
    return _by_text(texts, missing)


def _by_text(texts: Mapping[int, str], missing: Sequence[int]) -> str:
    """Return each text once, below the processes that have it; then the processes that have not answered."""
    groups: dict[str, list[int]] = {}
    for process_id, text in sorted(texts.items()):
        groups.setdefault(text, []).append(process_id)
    parts = [f"{processes_text(ids)}\n{text}" for text, ids in groups.items()]
    if missing:
        parts.append(
            f"{processes_text(missing)}   no answer: the interpreter is busy in one long call, or the process or "
            "its host is stopped"
        )
    return "\n\n".join(parts)


def _threads_text(threads: Sequence[ThreadStack], *, whole: bool) -> str:
    shown = threads if whole else threads[:1]
    lines = []
    for thread in shown:
        lines += [f"  {thread.name}", *(f"    {line}" for line in thread.lines)]
    if len(threads) > len(shown):
        others = count_text(len(threads) - len(shown), "other thread")
        lines.append(f"  and {others}: {command('stacks')} with a process shows them")
    return "\n".join(lines)


def stacks(engines: EngineGroup, on: Targets, *, native: bool) -> str:
    """Return the stacks of processes, also while they run a cell; see `nbdist.session.session.Session.stacks`."""
    asked = engines.choice.there(on)
    if native:
        read = engines.asides.native_stacks(asked)
        return native_text(read, [p for p in asked if p not in read])
    found = engines.asides.stacks(asked)
    return stacks_text(found, [p for p in asked if p not in found], whole=on is not None)
