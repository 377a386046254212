"""Choice of the addresses at which the processes of a plan find each other."""

from __future__ import annotations

from collections.abc import Mapping

from nbdist.launch.model.framework import framework_named
from nbdist.launch.model.plan import Plan
from nbdist.launch.model.rendezvous import Place, Rendezvous
from nbdist.machine.ports import LOOPBACK


def meet(plan: Plan, places: Mapping[int, Place], *, again: bool = False) -> Rendezvous:
    """Return the addresses for a plan, at reserved ports where none were asked for.

    Args:
      plan: The processes to be started.
      places: Where each process can serve, by process id.
      again: Whether the first ports are still in use: hosts stay, ports that a person has chosen do not.
    """
    ids = [process.process_id for process in plan.processes]

    def serves(process_id: int, host: str | None = None) -> str:
        place = places[process_id]
        return f"{host or place.address or LOOPBACK}:{place.port}"

    own = {p: place.address for p, place in places.items() if place.address is not None}
    if framework_named(plan.framework).each_serves:
        addresses = list(plan.addresses)
        if again or not addresses:
            hosts: list[str | None] = [address.rpartition(":")[0] for address in addresses]
            hosts = hosts or [None] * len(ids)
            addresses = [serves(p, host) for p, host in zip(ids, hosts, strict=True)]
        tasks = dict(zip(ids, addresses, strict=True))
        return Rendezvous(coordinator=tasks[ids[0]], tasks=tasks, own=own)
    asked = plan.addresses[0] if plan.addresses else plan.coordinator
    if asked is not None and ":" not in asked:
        asked = serves(ids[0], asked)
    chosen = asked or serves(ids[0])
    # An address of this machine that a person has chosen is also used for gloo.
    here = set(own.values()) == {LOOPBACK}
    mine = {} if here and not chosen.startswith(LOOPBACK) else own
    return Rendezvous(coordinator=chosen, tasks={}, own=mine)
