"""Where processes stand in a cell, and how they ended."""

from __future__ import annotations

from typing import Any

from nbdist.contract.iopub import Prompt
from nbdist.launch.model.happenings import ProcessExit
from nbdist.session.cells.outcome import Outcome, ProcessOutcome


def stands(process_id: int, outcome: Outcome = "running", **facts: Any) -> ProcessOutcome:
    """Return the outcome of a process on h1."""
    return ProcessOutcome(**{"process_id": process_id, "host": "h1", "outcome": outcome, **facts})


def at_prompt(process_id: int, number: int = 1) -> ProcessOutcome:
    """Return a process that a debugger has stopped; `number` is that of its question."""
    asked = Prompt(number=number, text="ipdb> ", what="at a breakpoint", line=2, source="step()")
    return stands(process_id, prompt=asked)


def ended(process_id: int = 1, *, code: int | None = -9, **facts: Any) -> ProcessExit:
    """Return the end of a process, which SIGKILL has ended unless `code` says otherwise."""
    known = {"pid": 7, "oom": False, "time": 0.0, "last_lines": (), **facts}
    return ProcessExit(process_id=process_id, code=code, **known)
