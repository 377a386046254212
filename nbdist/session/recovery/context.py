"""What a cell is given of the engines it runs on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from nbdist.cells.context import CellContext, Ended, nothing
from nbdist.cells.facts import Facts
from nbdist.contract.history import OpenCell
from nbdist.rules import Rules
from nbdist.session.engine_group import EngineGroup
from nbdist.session.recovery.remedies import remedies_for


def cell_context(
    engines: EngineGroup,
    targets: Collection[int],
    *,
    rules: Rules,
    ended: Callable[[Ended], Facts],
    began: Callable[[int, Sequence[int]], None] = nothing,
    requested: Callable[[OpenCell], None] = nothing,
) -> CellContext:
    """The context of one cell.

    Args:
      engines: The processes of the session.
      targets: Those the cell is for.
      rules: Of the session.
      ended: Takes the cell's end.
      began: As in `CellContext`.
      requested: As there.
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
    )
