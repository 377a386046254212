"""Initialization of the framework on all processes, each with its own arguments."""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping
from contextlib import closing
from typing import Any

from nbdist.contract.calls.engine import Initialize, Initialized
from nbdist.contract.orders import COORDINATOR
from nbdist.contract.wire import encode
from nbdist.errors import GoneError, LaunchError, NbdistError
from nbdist.launch.model.framework import framework_named
from nbdist.launch.model.plan import Plan
from nbdist.launch.model.progress import POLL_SECONDS, StartProgress, silent
from nbdist.launch.model.rendezvous import Rendezvous
from nbdist.launch.start import coordination
from nbdist.launch.start.cluster import Cluster
from nbdist.launch.start.connect import check_hosts
from nbdist.launch.start.request import Request, ask
from nbdist.quantities import processes_text
from nbdist.spelling import option

MARGIN_SECONDS = 15.0
"""Seconds to wait longer than JAX's own timeout, so that its error text arrives."""

LISTENS_SECONDS = 0.5
TRY_SECONDS = 0.2
"""Seconds for the wait and for each attempt to connect; a firewall may drop attempts, which does no harm."""

GONE_SECONDS = 5.0
"""Seconds its agent may take to report how a process ended, after the hub has reported the end."""

JAX_INITIALIZATION_TIMEOUT = 300
"""Source: the default of `jax.distributed.initialize`, in seconds."""


def join(running: Cluster, *, progress: StartProgress) -> dict[int, Initialized]:
    """Make all processes join one cluster and start their back ends.

    Returns:
      The last answer of each process (see `initialize` of its framework's module), by process id.

    Raises:
      LaunchError: A process failed, ended, or did not connect in time; all of them are named.
      HostError: As `LaunchError`, for a whole host.
    """
    plan = running.plan
    if coordination.wanted(running):
        coordination.until_it_serves(running, COORDINATOR)
    framework = framework_named(plan.framework)
    stages = {p.process_id: framework.stages(plan, p, running.rendezvous) for p in plan.processes}
    answers: dict[int, Initialized] = {}
    last_step = max(map(len, stages.values())) - 1
    for step in range(last_step + 1):
        now = {process_id: calls[step] for process_id, calls in stages.items()}
        last = broadcast(running, now, progress=progress if step == last_step else silent)
        answers = {p: answer.after(answers.get(p, answer)) for p, answer in last.items()}
        framework.check(plan, answers)
    return answers


def broadcast(
    running: Cluster, stages: Mapping[int, Any], *, progress: StartProgress
) -> dict[int, Initialized]:
    """Call `initialize` on processes, each with its own `nbdist.contract.stages`, and wait for all answers.

    Raises:
      LaunchError: As for `join`.
    """
    asked = {}
    for process_id, stage in stages.items():
        asked[process_id] = ask(
            running.client,
            running.engines[process_id],
            Initialize(stage=encode(stage)),
            where=f"process {process_id} (host {running.plan.hosts[process_id]})",
        )
        if process_id == 0 and len(stages) > 1 and _process_0_serves(running):
            until_it_listens(running.rendezvous)
    return _collect(running, asked, progress)


def _process_0_serves(running: Cluster) -> bool:
    return running.plan.initialize and not running.rendezvous.served


def until_it_listens(rendezvous: Rendezvous) -> None:
    """Wait a moment for process 0's coordinator: a process that finds none tries again only a second later."""
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
    running: Cluster, asked: Mapping[int, Request[Initialized]], progress: StartProgress
) -> dict[int, Initialized]:
    plan = running.plan
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
                    running, process_id, request, set(asked) - set(answers)
                )
            except GoneError as error:
                # ipyparallel's hub knows of the end first; a moment later the agent reports how it ended.
                if time.monotonic() - gone.setdefault(process_id, time.monotonic()) > GONE_SECONDS:
                    raise LaunchError(
                        f"{error} The processes were joining their cluster."
                    ) from error
                continue
            progress("joined", len(answers), len(asked))
        check_hosts(running)
        if running.exits:
            raise LaunchError(_ended(running, set(asked) - set(answers)))
        if time.monotonic() > deadline:
            raise LaunchError(_missing(plan, set(asked) - set(answers)))
        time.sleep(POLL_SECONDS / 2)
    return answers


def _ended(running: Cluster, unanswered: set[int]) -> str:
    """Return the text for a process that ended while all were joining; JAX ends those that wait too long."""
    plan = running.plan
    process_id, end = next(iter(running.exits.items()))
    lines = "\n".join(f"  {line}" for line in end.last_lines)
    text = (
        f"Process {process_id} (host {plan.hosts[process_id]}, pid {end.pid}) {end} while the "
        f"processes joined their cluster.\n{lines}".rstrip()
    )
    waited_for = unanswered - set(running.exits)
    if "DEADLINE_EXCEEDED" in text and waited_for:
        return f"{_missing(plan, waited_for)}\n{text}"
    return text


def _answer(
    running: Cluster, process_id: int, request: Request[Initialized], missing: set[int]
) -> Initialized:
    try:
        return request.get()[0]
    except GoneError:
        raise
    except NbdistError as error:
        text = str(error)
        if "DEADLINE_EXCEEDED" in text or "timed out" in text.lower():
            others = missing - {process_id}
            text = f"{_missing(running.plan, others)}\n{text}" if others else text
        raise LaunchError(
            f"Process {process_id} (host {running.plan.hosts[process_id]}) could not initialize "
            f"{running.plan.framework}: {text}"
        ) from error


def _missing(plan: Plan, ids: set[int]) -> str:
    hosts = ", ".join(sorted({plan.hosts[process_id] for process_id in ids}))
    return (
        f"{processes_text(ids)} (host {hosts}) did not connect to the coordinator in time. Give them longer "
        f"with {option('initialization_timeout_s')}."
    )
