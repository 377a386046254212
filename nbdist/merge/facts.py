"""What the kernel knows of the processes beside their reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from nbdist.contract.snapshot import Notice


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A process of the launch plan; `role` is such as `"worker"`.

    `task` is what the framework calls it where it differs, such as `"evaluator 0"`.
    """

    process_id: int
    host: str
    role: str
    task: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """What a process raised in the cell that runs now, and where in the cell."""

    error: str
    cell: int | None = None
    line: int | None = None
    source: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """Facts of this moment, by process id.

    `failed` holds the processes whose part of the running cell has raised while others are still in
    it; `stuck` those interrupted and not back, until they report that they have left the cell with the `run` in
    `stuck_in`; `lost` those that are gone, with how each ended
    (`"ended by signal 9 (SIGKILL)"`); `silent` the hosts that do not answer, with the Unix time since when;
    `why` says how the processes are known to be out of step, `advice` how to go on then. `repairing`: they are
    being brought in step; `repaired` says what was done the last time, until another cell has ended. `resizing` is
    what is started in their place, such as `3 processes in place of 4`. The merger writes the notices about these
    itself; `notices` are any others, shown first.
    """

    failed: Mapping[int, Failure] = field(default_factory=dict)
    stuck: frozenset[int] = frozenset()
    stuck_in: Mapping[int, int] = field(default_factory=dict)
    lost: Mapping[int, str] = field(default_factory=dict)
    silent: Mapping[str, float] = field(default_factory=dict)
    out_of_step: bool = False
    why: str | None = None
    advice: str = ""
    repairing: bool = False
    resizing: str | None = None
    repaired: str | None = None
    stopped: bool = False
    notices: tuple[Notice, ...] = ()
