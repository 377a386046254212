"""The context of a cell, made from the engines it runs on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path

from nbdist.cells.context import CellContext, Ended, nothing
from nbdist.cells.facts import Facts
from nbdist.contract.history import OpenCell
from nbdist.interrupts import kernel_ends
from nbdist.rules import Rules
from nbdist.session.engine_group import EngineGroup
from nbdist.session.recovery.remedies import remedies_for

LEAVE_SECONDS = 1.0
"""How long after an interrupt a request to end the kernel may come; Jupyter sends it a few milliseconds later."""


def cell_context(
    engines: EngineGroup,
    targets: Collection[int],
    *,
    rules: Rules,
    ended: Callable[[Ended], Facts],
    began: Callable[[int, Sequence[int]], None] = nothing,
    requested: Callable[[OpenCell], None] = nothing,
) -> CellContext:
    """Return the context of one cell.

    Args:
      engines: The processes of the session.
      targets: The processes the cell is for.
      rules: The session's rules.
      ended: Takes the cell's end.
      began: As in `CellContext`.
      requested: As in `CellContext`.
    """
    return CellContext(
        link=engines.link,
        hosts=engines.plan.hosts,
        reports=engines.monitor,
        facts=engines.facts,
        interrupt=engines.interrupt,
        remedies=remedies_for(engines),
        folder=Path(engines.link.folder) / "output",
        grace_s=rules.grace_s,
        give_up_s=rules.give_up_s,
        next_number=engines.next_number,
        in_step=engines.in_step_at if engines.facts.workers.issubset(targets) else None,
        widgets=engines.widgets,
        earlier=engines.earlier,
        progress=engines.health.take_outcomes,
        began=began,
        requested=requested,
        ended=ended,
        leaves=partial(_leaves, engines),
    )


def _leaves(engines: EngineGroup) -> bool:
    """Return whether to leave a kept session because the kernel ends; nothing more can be sent from here then."""
    if not engines.plan.keep or not kernel_ends(within_s=LEAVE_SECONDS):
        return False
    engines.turn.close()  # before the cell is left: the next kernel is to follow it
    return True
