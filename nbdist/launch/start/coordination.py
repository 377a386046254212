"""JAX's coordination service: started beside process 0, not in it, and anew for each repair."""

from __future__ import annotations

import time
from dataclasses import replace

from nbdist.contract.events import Coordinating
from nbdist.contract.orders import (
    COORDINATOR,
    SERVES_SECONDS,
    Coordinate,
    EndCoordination,
    Relay,
)
from nbdist.errors import LaunchError
from nbdist.launch.agents.job_agent import JobAgent
from nbdist.launch.model.framework import framework_named
from nbdist.launch.model.progress import POLL_SECONDS
from nbdist.launch.start.cluster import Cluster
from nbdist.launch.start.connect import check_hosts
from nbdist.machine.ports import LOOPBACK
from nbdist.spelling import command


def wanted(running: Cluster) -> bool:
    """Return whether the processes join a service of ours; some frameworks have none, a single process needs none.

    Engines that somebody else has started have no agent to serve beside them: there process 0 serves.
    """
    plan = running.plan
    return (
        framework_named(plan.framework).joins_a_service
        and plan.initialize
        and len(plan.processes) > 1
        and bool(running.agents.all)
    )


def ask_for_service(running: Cluster, *, again: bool = False) -> int:
    """Order the agent of process 0 to start a service; do not wait.

    Args:
      running: The engines, or those that are about to be.
      again: Whether the first has been used; the next then gets its own port, even if a person chose the port of
        the first, which serves until all have left it.

    Returns:
      Its number, for `until_it_serves` and `end`.
    """
    first = running.plan.processes[0].process_id
    # Counted by the agent's events, so that a kernel that attaches later continues the numbers.
    number = COORDINATOR - len(running.agents.of(first).services)
    host, _, port = running.rendezvous.coordinator.rpartition(":")
    bound = running.plan.jax.get("coordinator_bind_address")
    if bound is not None:
        host = bound.rpartition(":")[0]
    running.agents.of(first).order(
        Coordinate(
            number=number,
            process_id=first,
            host=host,
            port=None if again else int(port),
            processes=len(running.plan.processes),
        )
    )
    return number


def until_it_serves(running: Cluster, number: int) -> None:
    """Wait until a service listens, and set it as the address that the processes join.

    If another program has taken the first service's port meanwhile, a second service chooses its own port; this
    does not happen if a person has chosen the port.

    Raises:
      LaunchError: It does not listen; the text has its last lines.
      HostError: Its host is lost.
    """
    if _answer(running, number).address is None and number == COORDINATOR and not _chosen(running):
        number = ask_for_service(running, again=True)
    found = _answer(running, number)
    if found.address is None:
        words = "\n".join(f"  {line}" for line in found.last_lines)
        raise LaunchError(
            f"JAX's coordination service does not listen on host {running.plan.processes[0].host}:\n{words}"
        )
    host = running.rendezvous.coordinator.rpartition(":")[0]
    port = found.address.rpartition(":")[2]
    served = f"{host}:{port}"
    relays = _relays(running, number, served)
    running.rendezvous = replace(running.rendezvous, coordinator=served, served=True, relays=relays)


def _relays(running: Cluster, number: int, address: str) -> dict[int, str]:
    """Return where each process reaches a service: at its host's agent, whose connection outlives the service.

    Raises:
      LaunchError: An agent cannot listen, or does not know the host of the service.
      HostError: A host is lost.
    """
    agents = {p: running.agents.of(p) for p in running.plan.hosts}
    for agent in dict.fromkeys(agents.values()):
        agent.order(Relay(number=number, address=address))
    found: dict[int, str] = {}
    deadline = time.monotonic() + SERVES_SECONDS + running.plan.start_timeout_s
    while missing := sorted(agents.keys() - found.keys()):
        check_hosts(running)
        for process_id in missing:
            agent = agents[process_id]
            task = process_id if isinstance(agent, JobAgent) else None
            relaying = agent.relays.get((task, number))
            if relaying is not None and relaying.port is None:
                raise LaunchError(
                    f"Host {running.plan.hosts[process_id]} cannot lead its processes to JAX's coordination "
                    f"service at {address}: {relaying.error}"
                )
            if relaying is not None:
                found[process_id] = f"{LOOPBACK}:{relaying.port}"
            elif agent.poll() is not None or time.monotonic() > deadline:
                raise LaunchError(
                    f"The agent of host {running.plan.hosts[process_id]} does not lead its processes to JAX's "
                    f"coordination service. {command('restart')} starts everything afresh."
                )
        if missing:
            time.sleep(POLL_SECONDS / 4)
    return found


def _chosen(running: Cluster) -> bool:
    """Return whether a person has chosen the port of the first service."""
    plan = running.plan
    return bool(
        plan.addresses
        or ":" in (plan.coordinator or "")
        or plan.jax.get("coordinator_bind_address") is not None
    )


def _answer(running: Cluster, number: int) -> Coordinating:
    """Wait for the agent's answer about a service that it starts, and return it."""
    agent = running.agents.of(running.plan.processes[0].process_id)
    deadline = time.monotonic() + SERVES_SECONDS + running.plan.start_timeout_s
    while number not in agent.services:
        check_hosts(running)
        if agent.poll() is not None or time.monotonic() > deadline:
            raise LaunchError(
                f"The parent process of host {running.plan.processes[0].host} has started no coordination "
                f"service. {command('restart')} starts everything afresh."
            )
        time.sleep(POLL_SECONDS / 4)
    return agent.services[number]


def end(running: Cluster, number: int) -> None:
    """End a service that nobody uses any more."""
    first = running.plan.processes[0].process_id
    running.agents.of(first).order(EndCoordination(number=number))
