"""The cells of a session as a table: those that run, those that wait for them, and the last that have ended."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nbdist.cells.background import Background, queued_text
from nbdist.cells.followed import FollowedRun
from nbdist.contract.history import PastCell
from nbdist.quantities import processes_text, ranges_text, seconds_text
from nbdist.view.text.table import columns, cut

MOST_ENDED = 10
"""Cells that have ended, the newest ones, are listed."""

CODE_CHARACTERS = 40
"""Of the first line of a cell that are shown."""

HEADS = ("cell", "processes", "since", "for", "state", "first line")


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedCell:
    """One row: `started` is Unix time; `state` says in words what it does, or how it has ended."""

    number: int
    code: str
    processes: tuple[int, ...]
    started: float
    seconds: float
    state: str


def listed(
    background: Background, past: Sequence[PastCell], *, now: float
) -> tuple[ListedCell, ...]:
    """The newest cells of the past and all that are not over, in the order in which they were sent.

    Args:
      background: Those that are not over.
      past: Those that have ended.
      now: Unix time.
    """
    ended = [
        ListedCell(
            number=cell.number,
            code=cell.code,
            processes=cell.targets,
            started=cell.started,
            seconds=cell.seconds,
            state=cell.outcome,
        )
        for cell in past[-MOST_ENDED:]
    ]
    still: list[ListedCell] = []
    ahead: dict[int, int] = {}
    for run in background.runs:
        inside = run.execution.still_in()
        still.append(
            ListedCell(
                number=run.cell.number,
                code=run.cell.code,
                processes=run.execution.targets,
                started=run.started,
                seconds=now - run.started,
                state=_state(run, {p: ahead[p] for p in inside if p in ahead}),
            )
        )
        ahead |= dict.fromkeys(inside, run.cell.number)
    return tuple(sorted([*ended, *still], key=lambda cell: cell.started))


def _state(run: FollowedRun, ahead: dict[int, int]) -> str:
    inside = [s for s in run.execution.outcomes().values() if s.outcome == "running"]
    begun = [s for s in inside if s.begun]
    if not begun:
        return queued_text(ahead) or ("starting" if inside else "ending")
    prompts = [s.process_id for s in begun if s.prompt is not None]
    if prompts:
        return f"{processes_text(prompts)} at a breakpoint"
    lines = {s.activity.line for s in begun if s.activity is not None} - {None}
    return f"running, line {lines.pop()}" if len(lines) == 1 else "running"


def cells_text(cells: Iterable[ListedCell]) -> str:
    """One row a cell, aligned."""
    rows = [
        (
            str(cell.number),
            ranges_text(sorted(cell.processes)),
            time.strftime("%H:%M:%S", time.localtime(cell.started)),
            seconds_text(cell.seconds),
            cell.state,
            cut(
                next((line for line in cell.code.splitlines() if line.strip()), ""), CODE_CHARACTERS
            ),
        )
        for cell in cells
    ]
    return "\n".join(columns([HEADS, *rows], right=(0, 3))) if rows else "no cell has run yet"
