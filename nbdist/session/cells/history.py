"""The cells of a session, noted as they begin and end, and listed as a table.

They are kept in memory, and in a file of the session's private folder, where another kernel finds them. The table
lists the running cells, the waiting ones, and the last ones that have ended.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from nbdist.contract.cells import (
    Begun,
    Doubt,
    Doubted,
    Ended,
    Line,
    OpenCell,
    PastCell,
    Recovered,
)
from nbdist.contract.wire import from_json, to_json
from nbdist.errors import WireError
from nbdist.notation import columns, cut, processes_text, ranges_text, seconds_text
from nbdist.session.cells.doubt import assigned, root_name
from nbdist.session.cells.followed import Background, FollowedRun, queued_text

logger = logging.getLogger(__name__)

FILE = "cells.jsonl"


@dataclass
class CellRecords:
    """The content of a session's file of cells.

    `past` are the ended cells, `running` the cells without a noted end; the other fields are as in
    `nbdist.session.cells.facts.ProcessFacts`.
    """

    past: list[PastCell] = field(default_factory=list)
    running: list[OpenCell] = field(default_factory=list)
    since: int | None = None
    stuck: frozenset[int] = frozenset()
    unsure: Mapping[str, Doubt] = field(default_factory=dict)


class History:
    """The record of cells as they begin and end; used from any thread.

    If the disk is full, only the file is incomplete: this kernel still knows its own cells.

    Args:
      folder: The session's private folder; None: nothing is written.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.cells: list[PastCell] = []
        self._path = folder / FILE if folder is not None else None
        self._lock = threading.Lock()

    def begun(self, cell: OpenCell) -> None:
        """Note a cell that is about to be sent, perhaps to further processes."""
        self._write(Begun(cell=cell))

    def ended(
        self, cell: PastCell, *, run: int | None, since: int | None, stuck: frozenset[int]
    ) -> None:
        """Note a cell that has ended, with what the session knows afterwards."""
        self.cells.append(cell)
        self._write(Ended(cell=cell, run=run, since=since, stuck=tuple(sorted(stuck))))

    def recovered(self) -> None:
        """Note that all processes are back and in step."""
        self._write(Recovered())

    def doubted(self, unsure: Mapping[str, Doubt]) -> None:
        """Note the names in doubt, in place of those noted before."""
        self._write(Doubted(unsure=unsure))

    def _write(self, line: Line) -> None:
        if self._path is None:
            return
        text = to_json(line).encode() + b"\n"
        with self._lock, contextlib.suppress(OSError):
            # Each line is one write, since two kernels may write at the same time.
            file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                os.write(file, text)
            finally:
                os.close(file)


def made_in(cells: Sequence[PastCell], paths: Collection[str]) -> frozenset[int]:
    """Return the numbers of the cells that last assigned the names with which these paths begin."""
    left, found = set(map(root_name, paths)), set()
    for cell in reversed(cells):
        if these := left & assigned(cell.code):
            found.add(cell.number)
            left -= these
        if not left:
            break
    return frozenset(found)


def read_history(folder: Path) -> CellRecords:
    """Return the content of the file in a session's folder; skip lines that cannot be read."""
    found = CellRecords()
    running: dict[int, OpenCell] = {}
    for line in _lines(folder / FILE):
        if isinstance(line, Begun):
            running[line.cell.run] = line.cell
            continue
        if isinstance(line, Ended):
            found.past.append(line.cell)
            if line.run is not None:
                running.pop(line.run, None)
            found.since, found.stuck = line.since, frozenset(line.stuck)
        elif isinstance(line, Doubted):
            found.unsure = line.unsure
        else:
            found.since, found.stuck = None, frozenset()
    found.running = list(running.values())
    return found


def _lines(path: Path) -> Iterator[Line]:
    try:
        texts = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    for number, text in enumerate(texts, 1):
        try:
            line: Line = from_json(cast("type[Line]", Line), text)
        except WireError as error:
            # A full disk, or the end of a kernel, may have cut the line off.
            logger.debug("line %d of %s is left out: %s", number, path, error)
            continue
        yield line


MOST_ENDED = 10
"""The number of ended cells that are listed, the newest ones."""

CODE_CHARACTERS = 40
"""The most characters of a cell's first line that are shown."""

HEADS = ("cell", "processes", "since", "for", "state", "first line")


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedCell:
    """One row: `started` is Unix time; `state` says in words what the cell is doing, or how it ended."""

    number: int
    code: str
    processes: tuple[int, ...]
    started: float
    seconds: float
    state: str


def listed(
    background: Background, past: Sequence[PastCell], *, now: float
) -> tuple[ListedCell, ...]:
    """Return the newest ended cells and all that are not over, in the order in which they were sent.

    Args:
      background: The cells that are not over.
      past: The cells that have ended.
      now: The Unix time now.
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
    """Return the table: one row for each cell, aligned."""
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
