"""Choosing where the processes of a plan find each other."""

from __future__ import annotations

from collections.abc import Mapping

from nbdist.launch.model.framework import framework_named
from nbdist.launch.model.plan import Plan
from nbdist.launch.model.rendezvous import Place, Rendezvous, ThisMachine
from nbdist.machine.ports import LOOPBACK, free_ports


def meet(
    plan: Plan, places: Mapping[int, Place] | None = None, *, again: bool = False
) -> Rendezvous:
    """The addresses of a plan, with free ports where none were asked for.

    Args:
      plan: What is to be started.
      places: The host of each process, by process id; ports are taken from it. None: all are on this machine.
      again: The ports of the first time are still in use; hosts stay, other ports are chosen.
    """
    ids = [process.process_id for process in plan.processes]
    here = places is None
    if places is None:
        machine = ThisMachine(ports=free_ports(len(ids)))
        places = dict.fromkeys(ids, machine)

    def serves(process_id: int, host: str | None = None) -> str:
        place = places[process_id]
        return f"{host or place.address or LOOPBACK}:{place.ports.pop()}"

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
    # Who chooses an address of this machine chooses it for gloo as well.
    mine = {} if here and not chosen.startswith(LOOPBACK) else own
    return Rendezvous(coordinator=chosen, tasks={}, own=mine)
