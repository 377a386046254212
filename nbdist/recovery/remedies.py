"""What can be done for processes of a session that do not leave a cell."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from nbdist.cells.remedies import Remedies
from nbdist.contract.asides import Aside
from nbdist.engine_group import EngineGroup
from nbdist.recovery.after import join_proof
from nbdist.recovery.ahead import waits_in_vain


def remedies_for(crew: EngineGroup) -> Remedies:
    """All of them where the processes can prove that they are in step."""
    ask = crew.link.parents.ask
    always = Remedies(
        abandon=partial(ask, Aside.ABANDON),
        rescue=partial(ask, Aside.RESCUE),
        reply=crew.reply,
    )
    if not crew.proves:
        return always
    return replace(
        always,
        join=partial(join_proof, crew),
        in_vain=partial(waits_in_vain, crew),
        free=partial(ask, Aside.FREE),
    )
