"""The cells of a session, in memory and in a file of its private folder, where another kernel finds them."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from nbdist.contract.history import (
    Begun,
    Doubt,
    Doubted,
    Ended,
    Line,
    OpenCell,
    PastCell,
    Recovered,
)
from nbdist.contract.wire import decode, encode
from nbdist.errors import WireError

logger = logging.getLogger(__name__)

FILE = "cells.jsonl"


@dataclass
class Read:
    """The content of a session's file of cells.

    `running` are the cells whose end nobody has noted; the other fields are as in `nbdist.cells.facts.Facts`.
    """

    past: list[PastCell] = field(default_factory=list)
    running: list[OpenCell] = field(default_factory=list)
    since: int | None = None
    stuck: frozenset[int] = frozenset()
    unsure: Mapping[str, Doubt] = field(default_factory=dict)


class History:
    """Notes cells as they begin and end; used from any thread.

    Args:
      folder: The session's private folder; None: nothing is written.

    With a full disk only the file is lost: this kernel still knows its own cells.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.cells: list[PastCell] = []
        self._path = folder / FILE if folder is not None else None
        self._lock = threading.Lock()

    def begun(self, cell: OpenCell) -> None:
        """Note a cell that is about to be sent, or to be sent to more processes."""
        self._write(Begun(cell=cell))

    def ended(
        self, cell: PastCell, *, run: int | None, since: int | None, stuck: frozenset[int]
    ) -> None:
        """Note a cell that has ended, with what the session knows afterwards."""
        self.cells.append(cell)
        self._write(Ended(cell=cell, run=run, since=since, stuck=tuple(sorted(stuck))))

    def recovered(self) -> None:
        """Note that all processes are there again and in step."""
        self._write(Recovered())

    def doubted(self, unsure: Mapping[str, Doubt]) -> None:
        """Note the names that may not be what they were; replaces the earlier ones."""
        self._write(Doubted(unsure=unsure))

    def _write(self, line: Line) -> None:
        if self._path is None:
            return
        text = json.dumps(encode(line)).encode() + b"\n"
        with self._lock, contextlib.suppress(OSError):
            # One write a line: two kernels may write at the same time.
            file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                os.write(file, text)
            finally:
                os.close(file)


def read(folder: Path) -> Read:
    """Return the content of the file in a session's folder; lines that cannot be read are left out."""
    found = Read()
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
            line: Line = decode(cast("type[Line]", Line), json.loads(text))
        except (ValueError, WireError) as error:
            # A full disk, or the end of a kernel, may have cut it off.
            logger.debug("line %d of %s is left out: %s", number, path, error)
            continue
        yield line
