"""Ending what runs: by an interrupt, or before a common step."""

from __future__ import annotations

from nbdist.cells.background import Background, stopping_text
from nbdist.cells.cellrun import CellRun
from nbdist.errors import SessionError
from nbdist.quantities import processes_text
from nbdist.session.engine_group import EngineGroup


def interrupt(
    engines: EngineGroup,
    background: Background,
    cell: int | None,
    *,
    awaited: CellRun | None = None,
) -> str:
    """Interrupts one cell in the background, or all that runs.

    Args:
      engines: The processes.
      background: The cells in the background.
      cell: The number of one of them; None: all that runs.
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
    # Its processes may not have reported that they are in it.
    inside = () if awaited is None else awaited.execution.still_in()
    if awaited is not None and inside:
        awaited.interrupt()
        stopped[awaited.cell.number] = inside
    others = [p for p in sorted(engines.plan.hosts) if not any(p in s for s in stopped.values())]
    # No other: a signal that finds a process between two cells might end the one that comes next.
    busy = [p for p in others if engines.reports.in_cell(p) or p in engines.facts.stuck]
    if busy:
        engines.interrupt(busy)
    said = [f"cell {number} ({processes_text(ids)})" for number, ids in stopped.items()]
    said += [f"what runs on {processes_text(busy)}"] if busy else []
    return f"interrupted: {', '.join(said)}" if said else "no cell is running"


def stop_at_step(engines: EngineGroup, background: Background) -> str:
    """Has all processes leave what runs in the background before the same step.

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
