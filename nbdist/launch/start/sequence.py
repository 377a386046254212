"""Sequence of a start, from a plan to connected engines: each knows its id and has the kernel's version."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import ipyparallel

from nbdist.errors import LaunchError
from nbdist.launch.agents.job_agent import JobAgent
from nbdist.launch.model.progress import POLL_SECONDS, StartProgress
from nbdist.launch.start import coordination
from nbdist.launch.start.client import Client
from nbdist.launch.start.cluster import Cluster
from nbdist.launch.start.connect import check, connect
from nbdist.launch.start.handover import Handover
from nbdist.launch.start.launchers import Controller, Engines
from nbdist.launch.start.spawn import CLUSTER_ID, Spawned
from nbdist.launch.start.wait_for_hosts import gather, info_by_host
from nbdist.machine.folder import engine_connection, read_whole
from nbdist.spelling import option

ANSWER_SECONDS = 5
"""Seconds that each request to the controller waits; between two, it is checked that the start can succeed."""


def start(spawned: Spawned, *, progress: StartProgress) -> Cluster:
    """Start the processes of the plan and wait until every engine has answered.

    Args:
      spawned: The agents, which may still be importing.
      progress: Called with the progress of the start.

    Raises:
      LaunchError: An engine ended, could not import its framework, or did not come up in time; everything
        that had been started is stopped again.
      HostError: As `LaunchError`, for a whole host.
      VersionError: An engine's nbdist is another version.
      KeyboardInterrupt: As raised by the user; also then everything is stopped.
    """
    try:
        gather(spawned, progress=progress)
        running = _engines(spawned)
        with contextlib.ExitStack() as handovers:
            _open_client(running, progress, handovers)
            connect(running, spawned.plan.hosts, progress=progress)
    except BaseException:
        spawned.stop()
        raise
    return running


def _engines(spawned: Spawned) -> Cluster:
    """Start the controller and all engines."""
    plan, agents = spawned.plan, spawned.agents
    assert spawned.rendezvous is not None
    cluster = ipyparallel.Cluster(
        controller=Controller,
        engines=Engines,
        profile_dir=spawned.folder,
        cluster_id=CLUSTER_ID,
        cluster_file="",
        load_profile=False,
        send_engines_connection_env=False,
        shutdown_atexit=False,
        parent=None,
        log_level=40,
    )
    running = Cluster(
        plan=plan,
        folder=spawned.folder,
        agents=agents,
        cluster=cluster,
        rendezvous=spawned.rendezvous,
        info=info_by_host(spawned),
        warnings=spawned.warnings,
    )
    _run(cluster.start_controller, agents=agents)
    processes = running.planned(plan.processes)
    if coordination.wanted(running):
        coordination.ask_for_service(running)
    _run(cluster.start_engines, n=len(processes), agents=agents, processes=processes)
    return running


def _run(work: Callable[..., Coroutine[Any, Any, object]], **options: Any) -> None:
    """Run a coroutine of ipyparallel's to its end, on a thread of its own.

    In a notebook, where a loop runs, `start_…_sync` would leave a thread and three descriptors for each start.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="nbdist-start") as thread:
        thread.submit(lambda: asyncio.run(work(**options))).result()


def _open_client(
    running: Cluster, progress: StartProgress, handovers: contextlib.ExitStack
) -> None:
    """Wait for the controller, connect to it, and send the other hosts its address.

    `handovers` gets the servers that must be open until all processes are connected.
    """
    deadline = time.monotonic() + running.plan.start_timeout_s
    progress("starting", 0, len(running.plan.processes))
    running.client_file = running.cluster.controller.connection_files["client"]
    client = Path(running.client_file)
    engine = engine_connection(running.folder, CLUSTER_ID)
    while (connection := read_whole(engine)) is None or read_whole(client) is None:
        check(running, running.plan.hosts, deadline=math.inf)
        if time.monotonic() > deadline:
            raise LaunchError(_no_controller(running, "was not ready"))
        time.sleep(POLL_SECONDS)
    running.own_agents.connect(connection)
    for agent in running.agents.others.values():
        if isinstance(agent, JobAgent):
            handover = handovers.enter_context(Handover(connection, agent.public_keys))
            agent.order(handover.order)
    running.client = _connected(running, client, deadline)


def _connected(running: Cluster, connection_file: Path, deadline: float) -> Client:
    """Return ipyparallel's client; wait for a controller on a busy machine, and raise if it has ended.

    Raises:
      LaunchError: The controller ended, or did not answer in time.
    """
    while True:
        check(running, running.plan.hosts, deadline=math.inf)
        try:
            return Client(str(connection_file), cluster=running.cluster, timeout=ANSWER_SECONDS)
        except TimeoutError as error:
            if time.monotonic() > deadline:
                raise LaunchError(_no_controller(running, "did not answer")) from error


def _no_controller(running: Cluster, what: str) -> str:
    """Return the text about a controller that runs but does not work; it is on this machine."""
    home = running.own_agents.home
    words = "\n".join(f"  {line}" for line in home.controller_words())
    return (
        f"The controller (host {home.reach.name}) {what} within {running.plan.start_timeout_s:g} s. Give it "
        f"longer with {option('start_timeout_s')}.\n{words}"
    ).rstrip()
