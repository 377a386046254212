"""Where processes can serve, without agents that reserve ports for them."""

from __future__ import annotations

from nbdist.launch.model.framework import Place
from nbdist.launch.model.plan import Plan
from nbdist.machine.ports import LOOPBACK


def places_of(plan: Plan) -> dict[int, Place]:
    """On this machine, each at a port of its own."""
    ids = [process.process_id for process in plan.processes]
    return {p: Place(address=LOOPBACK, port=20000 + number) for number, p in enumerate(ids)}
