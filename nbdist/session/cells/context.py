"""`CellContext`, the part of a session that a cell needs, and `EndOfCell`, what the session gets back."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nbdist.contract.asides import LineReply
from nbdist.contract.cells import OpenCell
from nbdist.contract.iopub import CellStep
from nbdist.launch.start.cluster import Cluster
from nbdist.monitor.monitor import Monitor
from nbdist.session.cells.execution import Cell, Execution
from nbdist.session.cells.facts import ProcessFacts
from nbdist.session.cells.late import EarlierCells
from nbdist.session.cells.outcome import ProcessOutcome
from nbdist.session.cells.watch import InVain
from nbdist.view.widgets import Widgets


@dataclass(frozen=True, slots=True)
class Remedies:
    """The means, besides an interrupt, that a supervisor may use on processes that do not leave a cell.

    Attributes:
      abandon: Ends the processes' wait for a proof.
      rescue: Makes processes that are about to be given up save what is in their memory.
      join: Makes the processes that have left the cell, or never were in it, take part in the proof in which the
        others wait; returns whether it can pass. None if the session proves nothing.
      in_vain: Returns what processes wait for in vain; None if it may still arrive. The attribute is None if sent
        programs are not counted.
      free: Ends the collectives of processes that no signal reaches. None if that is not possible.
      reply: Sends a process the reply to a question of its debugger, by number; returns whether it was taken.
    """

    abandon: Callable[[Sequence[int]], None] = lambda ids: None
    rescue: Callable[[Sequence[int]], None] = lambda ids: None
    join: Callable[[Execution], bool] | None = None
    in_vain: Callable[[Execution, Collection[int]], InVain | None] | None = None
    free: Callable[[Sequence[int]], None] | None = None
    reply: Callable[[int, int, LineReply], bool] = lambda process_id, number, reply: False


def nothing(*_: Any) -> None:
    """Do nothing: the default of callbacks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndOfCell:
    """The end of a cell.

    Attributes:
      outcomes: The final outcome of each process.
      started: When the cell was sent (Unix seconds).
      number: The number of this sending.
      clean: Whether all targets have finished the cell and found themselves in step.
      steps: For each process that sent programs, what it reports to have sent.
      began_out_of_step: Whether the processes were out of step when the cell began; it then computed nothing.
      say: Shows a line below the cell's output.
    """

    cell: Cell
    outcomes: dict[int, ProcessOutcome]
    started: float
    number: int
    clean: bool
    steps: Mapping[int, CellStep]
    began_out_of_step: bool
    say: Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class CellContext:
    """The part of a session that one cell needs.

    Attributes:
      cluster: The connection to the processes.
      hosts: Host names by process id.
      reports: The processes' reports.
      facts: What is known of the processes now.
      interrupt: Sends the framework's interrupt to processes.
      remedies: The means for processes that do not leave the cell.
      folder: The folder for output that is too large to keep in memory.
      grace_s: How many seconds other processes may stay in the cell after one has failed.
      give_up_s: As in `Terms`.
      next_number: Returns a number for this sending.
      in_step: The last program after which all processes are known to be in step, as in a cell's label.
      widgets: The processes' widgets; None if they are shown as text.
      earlier: The cells that have ended before, whose displays this one may change.
      progress: Called with the outcome of each process so far, while the cell runs.
      began: Called with the cell's run and its target processes, before it is sent.
      requested: Called with the cell and the numbers of its requests so far, before these are sent.
      ended: Takes the cell's end; returns what is known afterwards.
      leaves: Called on an interrupt; returns whether this kernel ends and the cell goes on without it.
    """

    cluster: Cluster
    hosts: Mapping[int, str]
    reports: Monitor
    facts: ProcessFacts
    interrupt: Callable[[Sequence[int]], None]
    remedies: Remedies
    folder: Path
    grace_s: float
    give_up_s: float
    ended: Callable[[EndOfCell], ProcessFacts]
    next_number: Callable[[], int] = time.time_ns
    in_step: tuple[int, int] | None = None
    widgets: Widgets | None = None
    earlier: EarlierCells = field(default_factory=EarlierCells)
    progress: Callable[[dict[int, ProcessOutcome]], object] = field(default=nothing)
    began: Callable[[int, Sequence[int]], None] = field(default=nothing)
    requested: Callable[[OpenCell], None] = field(default=nothing)
    leaves: Callable[[], bool] = lambda: False
