"""The cells of a session, in memory and in a file of its private folder, where another kernel finds them."""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

FILE = "cells.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class PastCell:
    """One entry of the history: what ran where, when (Unix seconds), how long, and how it ended."""

    number: int
    code: str
    targets: tuple[int, ...]
    started: float
    seconds: float
    outcome: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenCell:
    """A cell that was sent, by the kernel of this number; `requests` are those of its messages, by process id."""

    kernel: int
    run: int
    number: int
    code: str
    offset: int
    started: float
    requests: Mapping[int, str]


@dataclass
class Read:
    """What a session's file says.

    `running` are the cells whose end nobody has noted; `since` and `stuck` as in `nbdist.cells.facts.Facts`.
    """

    past: list[PastCell] = field(default_factory=list)
    running: list[OpenCell] = field(default_factory=list)
    since: int | None = None
    stuck: frozenset[int] = frozenset()


class History:
    """Notes cells as they begin and end; used from any thread.

    Args:
      folder: The session's private folder, None: nothing is written.

    A full disk takes the file away and nothing else: the cells of this kernel stay known to it.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.cells: list[PastCell] = []
        self._path = folder / FILE if folder is not None else None
        self._lock = threading.Lock()

    def begun(self, cell: OpenCell) -> None:
        """A cell has been sent."""
        self._write({"begun": asdict(cell)})

    def ended(
        self, cell: PastCell, *, run: int | None, since: int | None, stuck: frozenset[int]
    ) -> None:
        """A cell has ended, with what the session knows afterwards."""
        self.cells.append(cell)
        self._write({"ended": asdict(cell), "run": run, "since": since, "stuck": sorted(stuck)})

    def recovered(self) -> None:
        """All processes are there again and in step."""
        self._write({"since": None, "stuck": []})

    def _write(self, entry: Mapping[str, Any]) -> None:
        if self._path is None:
            return
        line = json.dumps(entry).encode() + b"\n"
        with self._lock, contextlib.suppress(OSError):
            # One write a line: two kernels may be at it.
            file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                os.write(file, line)
            finally:
                os.close(file)


def read(folder: Path) -> Read:
    """What the file in a session's folder says; lines that cannot be read are left out."""
    found = Read()
    running: dict[int, OpenCell] = {}
    try:
        lines = (folder / FILE).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return found
    for line in lines:
        with contextlib.suppress(ValueError, TypeError, KeyError):
            entry = json.loads(line)
            if "begun" in entry:
                cell = entry["begun"]
                requests = {int(p): request for p, request in cell["requests"].items()}
                running[cell["run"]] = OpenCell(**{**cell, "requests": requests})
            if "ended" in entry:
                past = entry["ended"]
                found.past.append(PastCell(**{**past, "targets": tuple(past["targets"])}))
                running.pop(entry["run"], None)
            if "since" in entry:
                found.since, found.stuck = entry["since"], frozenset(entry["stuck"])
    found.running = list(running.values())
    return found
