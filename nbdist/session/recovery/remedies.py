"""The remedies of a session for processes that do not leave a cell."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from nbdist.cells.remedies import Remedies
from nbdist.contract.asides import Aside
from nbdist.session.engine_group import EngineGroup
from nbdist.session.recovery.after import join_proof
from nbdist.session.recovery.ahead import waits_in_vain


def remedies_for(engines: EngineGroup) -> Remedies:
    """Return the remedies; all of them where the processes can prove that they are in step."""
    ask = engines.link.agents.ask
    always = Remedies(
        abandon=partial(ask, Aside.ABANDON),
        rescue=partial(ask, Aside.RESCUE),
        reply=engines.asides.reply,
    )
    if not engines.proves:
        return always
    return replace(
        always,
        join=partial(join_proof, engines),
        in_vain=partial(waits_in_vain, engines),
        free=partial(ask, Aside.FREE),
    )
