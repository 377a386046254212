"""Means, besides an interrupt, for processes that do not leave a cell."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from nbdist.cells.execution import Execution
from nbdist.contract.questions import LineReply


@dataclass(frozen=True, slots=True)
class InVain:
    """Says that processes wait for something that does not come; where it is not `certain`, the person decides."""

    text: str
    certain: bool


@dataclass(frozen=True, slots=True)
class Remedies:
    """The means that a supervisor may use.

    Attributes:
      abandon: Ends the processes' wait for a proof.
      rescue: Makes processes that are about to be given up save what is in their memory.
      join: Makes the processes that have left the cell, or never were in it, take part in the proof in which the
        others wait; returns whether it can pass. None where nothing is proven.
      in_vain: Says for what processes wait that does not come; returns None where it may come. None where nothing
        is counted.
      free: Ends the collectives of processes which no signal reaches. None where that is not possible.
      reply: Sends a process the reply to a question of its debugger, by number; returns whether it was taken.
    """

    abandon: Callable[[Sequence[int]], None] = lambda ids: None
    rescue: Callable[[Sequence[int]], None] = lambda ids: None
    join: Callable[[Execution], bool] | None = None
    in_vain: Callable[[Execution, Collection[int]], InVain | None] | None = None
    free: Callable[[Sequence[int]], None] | None = None
    reply: Callable[[int, int, LineReply], bool] = lambda process_id, number, reply: False
