"""Facts about the processes that the kernel knows beside their reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from nbdist.contract.snapshot import Notice


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A process of the launch plan.

    `role` is such as `"worker"`; `task` is the framework's own name for it where that differs, such as
    `"evaluator 0"`.
    """

    process_id: int
    host: str
    role: str
    task: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The error that a process raised in the running cell, and where in the cell."""

    error: str
    cell: int | None = None
    line: int | None = None
    source: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """Facts of this moment.

    Attributes:
      failed: The processes whose part of the running cell has raised while others are still in it.
      stuck: The processes that were interrupted and are not back, until they report that they have left the cell
        with the `run` in `stuck_in`.
      lost: How each process that is gone ended (`"ended by signal 9 (SIGKILL)"`).
      silent: The hosts that do not answer, each with the Unix time since when.
      why: How it is known that the processes are out of step; `advice` says how to go on then.
      repairing: Whether they are being brought in step.
      resizing: What is started in their place, such as `3 processes in place of 4`.
      repaired: What the last repair did, until another cell has ended.
      notices: Any other notices, shown first; the merger itself writes those about the facts above.
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
