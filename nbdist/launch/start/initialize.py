"""Initialization of the framework on all processes, and the coordination service of JAX that they join.

Each process gets its own arguments. The service runs beside process 0, not in it; each repair starts a new one.
With TensorFlow, all join again, at new addresses, after some were replaced (`meet_again`, `rebuild_strategy`).
"""

from __future__ import annotations

import socket
import time
from collections.abc import Collection, Mapping
from contextlib import closing
from dataclasses import replace
from typing import Any

from msgspec import structs

from nbdist.contract.calls.engine import Initialize, Initialized, StrategyStage
from nbdist.contract.events import Coordinating, Relaying
from nbdist.contract.orders import (
    COORDINATOR,
    SERVES_SECONDS,
    Coordinate,
    EndCoordination,
    Relay,
)
from nbdist.contract.wire import encode
from nbdist.errors import GoneError, LaunchError, NbdistError
from nbdist.launch.model.framework import Rendezvous, framework_named, meet
from nbdist.launch.model.happenings import POLL_SECONDS, StartProgress, silent, with_words
from nbdist.launch.model.plan import Plan
from nbdist.launch.start.cluster import Cluster
from nbdist.launch.start.hosts import answers, check_hosts, host_of, new_places
from nbdist.launch.start.pending import Pending, ask
from nbdist.machine.ports import LOOPBACK
from nbdist.notation import processes_text
from nbdist.spelling import option


def needs_service(cluster: Cluster) -> bool:
    """Return whether nbdist must start a coordination service, which the processes join.

    Some frameworks have none, and a single process needs none. Engines that somebody else has started have no
    agent that could serve, so process 0 serves.
    """
    plan = cluster.plan
    return (
        framework_named(plan.framework).joins_a_service
        and plan.initialize
        and len(plan.processes) > 1
        and bool(cluster.agents.all)
    )


def ask_for_service(cluster: Cluster, *, again: bool = False) -> int:
    """Order the agent of process 0 to start a service; do not wait.

    Args:
      cluster: The session's processes; they need not run yet.
      again: Whether an earlier service has been used. The new one then gets another port, even if a person chose
        the first port, since the earlier service runs until all processes have left it.

    Returns:
      The service's number, for `wait_for_service` and `end`.
    """
    first = cluster.plan.processes[0].process_id
    # Counted by the agent's events, so that a kernel that attaches later continues the numbers.
    number = COORDINATOR - len(cluster.agents.of(first).numbers(Coordinating))
    host, _, port = cluster.rendezvous.coordinator.rpartition(":")
    bound = cluster.plan.jax.get("coordinator_bind_address")
    if bound is not None:
        host = bound.rpartition(":")[0]
    cluster.agents.of(first).order(
        Coordinate(
            number=number,
            process_id=first,
            host=host,
            port=None if again else int(port),
            processes=len(cluster.plan.processes),
        )
    )
    return number


def wait_for_service(cluster: Cluster, number: int) -> None:
    """Wait until a service listens, and set it as the address that the processes join.

    If another program has taken the first service's port in the meantime, a second service chooses its own port,
    unless a person has chosen the port.

    Raises:
      LaunchError: The service does not listen; the text has its last lines.
      HostError: The service's host is lost.
    """
    if (
        _service_answer(cluster, number).address is None
        and number == COORDINATOR
        and not _chosen(cluster)
    ):
        number = ask_for_service(cluster, again=True)
    found = _service_answer(cluster, number)
    if found.address is None:
        host = cluster.plan.processes[0].host
        text = f"JAX's coordination service does not listen on host {host}:"
        raise LaunchError(with_words(text, found.last_lines))
    host = cluster.rendezvous.coordinator.rpartition(":")[0]
    port = found.address.rpartition(":")[2]
    served = f"{host}:{port}"
    relays = _relays(cluster, number, served)
    cluster.rendezvous = replace(cluster.rendezvous, coordinator=served, served=True, relays=relays)


def _relays(cluster: Cluster, number: int, address: str) -> dict[int, str]:
    """Return where each process reaches a service: at its host's agent, whose connection outlives the service.

    Raises:
      LaunchError: An agent cannot listen, or does not know the host of the service.
      HostError: A host is lost.
    """
    hosts = {p: host_of(cluster.agents, p) for p in cluster.plan.hosts}
    for agent in dict.fromkeys(agent for agent, _ in hosts.values()):
        agent.order(Relay(number=number, address=address))
    relaying = answers(
        cluster,
        Relaying,
        number,
        dict.fromkeys(hosts.values()),
        within_s=SERVES_SECONDS + cluster.plan.start_timeout_s,
        late="does not lead its processes to JAX's coordination service",
    )
    for p, host in hosts.items():
        if relaying[host].port is None:
            raise LaunchError(
                f"Host {cluster.plan.hosts[p]} cannot lead its processes to JAX's coordination service at "
                f"{address}: {relaying[host].error}"
            )
    return {p: f"{LOOPBACK}:{relaying[host].port}" for p, host in hosts.items()}


def _chosen(cluster: Cluster) -> bool:
    """Return whether a person has chosen the port of the first service."""
    plan = cluster.plan
    return bool(
        plan.addresses
        or ":" in (plan.coordinator or "")
        or plan.jax.get("coordinator_bind_address") is not None
    )


def _service_answer(cluster: Cluster, number: int) -> Coordinating:
    """Wait for the agent's answer about a service that it starts, and return it."""
    host = host_of(cluster.agents, cluster.plan.processes[0].process_id)
    within_s = SERVES_SECONDS + cluster.plan.start_timeout_s
    late = "has started no coordination service"
    return answers(cluster, Coordinating, number, [host], within_s=within_s, late=late)[host]


def end_service(cluster: Cluster, number: int) -> None:
    """End a service that no process uses any more."""
    first = cluster.plan.processes[0].process_id
    cluster.agents.of(first).order(EndCoordination(number=number))


MARGIN_SECONDS = 15.0
"""Seconds to wait beyond JAX's own timeout, so that its error text arrives."""

LISTENS_SECONDS = 0.5
TRY_SECONDS = 0.2
"""Seconds for the wait and for each attempt to connect; a firewall may drop attempts, which does no harm."""

GONE_SECONDS = 5.0
"""Seconds an agent may take to report how a process ended, after ipyparallel's hub has reported the end."""

JAX_INITIALIZATION_TIMEOUT = 300
"""Default of `jax.distributed.initialize`, in seconds."""


def join(cluster: Cluster, *, progress: StartProgress) -> dict[int, Initialized]:
    """Make all processes join one cluster and start their back ends.

    Returns:
      The last answer of each process (see `nbdist.engine.frameworks`), by process id.

    Raises:
      LaunchError: A process failed, ended, or did not connect in time; all of them are named.
      HostError: As `LaunchError`, for a whole host.
    """
    plan = cluster.plan
    if needs_service(cluster):
        wait_for_service(cluster, COORDINATOR)
    framework = framework_named(plan.framework)
    stages = {p.process_id: framework.stages(plan, p, cluster.rendezvous) for p in plan.processes}
    answers: dict[int, Initialized] = {}
    last_step = max(map(len, stages.values())) - 1
    for step in range(last_step + 1):
        now = {process_id: calls[step] for process_id, calls in stages.items()}
        last = broadcast(cluster, now, progress=progress if step == last_step else silent)
        answers = {p: answer.after(answers.get(p, answer)) for p, answer in last.items()}
        framework.check(plan, answers)
    return answers


def rebuild_strategy(
    cluster: Cluster, replaced: Collection[int], *, workers: bool, progress: StartProgress
) -> dict[int, Initialized]:
    """Create the framework's strategy anew, with the workers at new addresses.

    On the remaining processes, TensorFlow first forgets the old cluster; their Python variables stay.

    Args:
      cluster: Engines of which none is in a cell.
      replaced: Processes that have just been started.
      workers: Whether the workers take part; an evaluator can be replaced without them.
      progress: Called with how many have joined.

    Returns:
      The answer of each process, by process id.

    Raises:
      LaunchError: A process failed, ended, or did not connect in time.
    """
    plan = cluster.plan
    framework = framework_named(plan.framework)
    stages = {p.process_id: framework.stages(plan, p, cluster.rendezvous) for p in plan.processes}
    new = {p: calls[0] for p, calls in stages.items() if p in replaced}
    if new:
        broadcast(cluster, new, progress=silent)
    # An evaluator takes part in no collective: one that was not replaced goes on as it is.
    taking_part = {w.process_id for w in plan.workers if workers} | set(replaced)
    calls: dict[int, StrategyStage] = {
        p: structs.replace(found[1], again=p not in replaced)
        for p, found in stages.items()
        if p in taking_part
    }
    return broadcast(cluster, calls, progress=progress)


def meet_again(cluster: Cluster) -> None:
    """Choose new ports at which the processes meet: the remaining processes still hold the old ones.

    Raises:
      LaunchError: The agent of this machine has ended.
      HostError: A host is lost.
    """
    cluster.rendezvous = meet(cluster.plan, new_places(cluster), again=True)


def broadcast(
    cluster: Cluster, stages: Mapping[int, Any], *, progress: StartProgress
) -> dict[int, Initialized]:
    """Call `initialize` on processes, each with its own arguments, and wait for all answers.

    Raises:
      LaunchError: As for `join`.
    """
    asked = {}
    for process_id, stage in stages.items():
        asked[process_id] = ask(
            cluster.client,
            cluster.engines[process_id],
            Initialize(stage=encode(stage)),
            where=f"process {process_id} (host {cluster.plan.hosts[process_id]})",
        )
        if process_id == 0 and len(stages) > 1 and _process_0_serves(cluster):
            wait_for_coordinator(cluster.rendezvous)
    return _collect(cluster, asked, progress)


def _process_0_serves(cluster: Cluster) -> bool:
    return cluster.plan.initialize and not cluster.rendezvous.served


def wait_for_coordinator(rendezvous: Rendezvous) -> None:
    """Wait a moment for process 0's coordinator: a process that misses it tries again only a second later."""
    if rendezvous.tasks:
        return
    host, _, port = rendezvous.coordinator.rpartition(":")
    deadline = time.monotonic() + LISTENS_SECONDS
    while time.monotonic() < deadline:
        with closing(socket.socket()) as probe:
            probe.settimeout(TRY_SECONDS)
            if probe.connect_ex((host, int(port))) == 0:
                return
        time.sleep(POLL_SECONDS / 2)


def _collect(
    cluster: Cluster, asked: Mapping[int, Pending[Initialized]], progress: StartProgress
) -> dict[int, Initialized]:
    plan = cluster.plan
    answers: dict[int, Initialized] = {}
    limit = plan.jax.get("initialization_timeout", JAX_INITIALIZATION_TIMEOUT) + MARGIN_SECONDS
    deadline = time.monotonic() + limit
    gone: dict[int, float] = {}
    while len(answers) < len(asked):
        for process_id, request in asked.items():
            if process_id in answers or not request.ready():
                continue
            try:
                answers[process_id] = _answer(
                    cluster, process_id, request, set(asked) - set(answers)
                )
            except GoneError as error:
                # ipyparallel's hub knows of the end first; a moment later the agent reports how it ended.
                if time.monotonic() - gone.setdefault(process_id, time.monotonic()) > GONE_SECONDS:
                    raise LaunchError(
                        f"{error} The processes were joining their cluster."
                    ) from error
                continue
            progress("joined", len(answers), len(asked))
        check_hosts(cluster)
        if cluster.exits:
            raise LaunchError(_ended(cluster, set(asked) - set(answers)))
        if time.monotonic() > deadline:
            raise LaunchError(_missing(plan, set(asked) - set(answers)))
        time.sleep(POLL_SECONDS / 2)
    return answers


def _ended(cluster: Cluster, unanswered: set[int]) -> str:
    """Return the text for a process that ended while all were joining; JAX ends processes that wait too long."""
    plan = cluster.plan
    process_id, end = next(iter(cluster.exits.items()))
    who = f"Process {process_id} (host {plan.hosts[process_id]}, pid {end.pid})"
    text = with_words(f"{who} {end} while the processes joined their cluster.", end.last_lines)
    waited_for = unanswered - set(cluster.exits)
    if _waited_too_long(text) and waited_for:
        return f"{_missing(plan, waited_for)}\n{text}"
    return text


def _answer(
    cluster: Cluster, process_id: int, request: Pending[Initialized], missing: set[int]
) -> Initialized:
    try:
        return request.get()[0]
    except GoneError:
        raise
    except NbdistError as error:
        text = str(error)
        if _waited_too_long(text):
            others = missing - {process_id}
            text = f"{_missing(cluster.plan, others)}\n{text}" if others else text
        raise LaunchError(
            f"Process {process_id} (host {cluster.plan.hosts[process_id]}) could not initialize "
            f"{cluster.plan.framework}: {text}"
        ) from error


def _waited_too_long(error: str) -> bool:
    """Return whether an error says that other processes did not join; JAX tells that only by this text.

    Source: the status of gRPC, and the text of Python's `TimeoutError`, in jax 0.10.0 to 0.12.0.1.
    """
    return "DEADLINE_EXCEEDED" in error or "timed out" in error.lower()


def _missing(plan: Plan, ids: set[int]) -> str:
    hosts = ", ".join(sorted({plan.hosts[process_id] for process_id in ids}))
    return (
        f"{processes_text(ids)} (host {hosts}) did not connect to the coordinator in time. Give them longer "
        f"with {option('initialization_timeout_s')}."
    )
