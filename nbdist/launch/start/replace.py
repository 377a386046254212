"""New processes in place of ended ones, while the others go on."""

from __future__ import annotations

import dataclasses
import signal
import time
from collections.abc import Collection

from nbdist.contract.calls.engine import Initialized
from nbdist.contract.stages import StrategyStage
from nbdist.errors import LaunchError
from nbdist.launch.model.framework import framework_named
from nbdist.launch.model.meet import meet
from nbdist.launch.model.progress import POLL_SECONDS, StartProgress, silent
from nbdist.launch.start.cluster import Cluster
from nbdist.launch.start.connect import check_hosts, connect
from nbdist.launch.start.initialize import broadcast
from nbdist.launch.start.places import new_places
from nbdist.launch.start.wait_for_hosts import check_home
from nbdist.quantities import processes_text
from nbdist.spelling import command

END_SECONDS = 5.0
"""Seconds a process may take to be gone after SIGKILL."""


def end(running: Cluster, process_ids: Collection[int]) -> None:
    """End processes that no longer answer; wait until they are gone.

    Raises:
      LaunchError: A process still exists.
    """
    running.signal(signal.SIGKILL, sorted(process_ids))
    deadline = time.monotonic() + END_SECONDS
    while left := set(process_ids) - set(running.exits):
        if time.monotonic() > deadline:
            raise LaunchError(
                f"{processes_text(left)} cannot be ended. {command('restart')} stops all."
            )
        time.sleep(POLL_SECONDS)


def replace(running: Cluster, process_ids: Collection[int], *, progress: StartProgress) -> None:
    """Start these processes of the plan again, each on its host and with its id.

    Raises:
      LaunchError: One of them did not come up; the others are as they were.
    """
    again = [p for p in running.plan.processes if p.process_id in process_ids]
    known = {*running.engines.values(), *running.client.ids}
    running.forget(process_ids)
    running.agents.start(running.planned(again))
    connect(running, process_ids, known=known, progress=progress)


def rebuild_strategy(
    running: Cluster, replaced: Collection[int], *, workers: bool, progress: StartProgress
) -> dict[int, Initialized]:
    """Make the framework's strategy anew, on the workers at new addresses.

    TensorFlow first forgets the old cluster on earlier processes; their Python variables stay.

    Args:
      running: Engines of which none is in a cell.
      replaced: Processes that have just been started.
      workers: Whether the workers take part; an evaluator can be replaced without them.
      progress: Called with how many have joined.

    Returns:
      The answer of each process, by process id.

    Raises:
      LaunchError: A process failed, ended, or did not connect in time.
    """
    plan = running.plan
    framework = framework_named(plan.framework)
    stages = {p.process_id: framework.stages(plan, p, running.rendezvous) for p in plan.processes}
    new = {p: calls[0] for p, calls in stages.items() if p in replaced}
    if new:
        broadcast(running, new, progress=silent)
    # An evaluator takes part in no collective: one that was not replaced goes on as it is.
    taking_part = {w.process_id for w in plan.workers if workers} | set(replaced)
    calls: dict[int, StrategyStage] = {
        p: dataclasses.replace(found[1], again=p not in replaced)
        for p, found in stages.items()
        if p in taking_part
    }
    return broadcast(running, calls, progress=progress)


def meet_again(running: Cluster) -> None:
    """Choose new ports at which the processes meet: the old servers of those that live on still exist.

    Raises:
      LaunchError: The agent of this machine has ended.
      HostError: A host is lost.
    """

    def check() -> None:
        check_hosts(running)
        check_home(running.own_agents.home)

    places = new_places(running.plan, running.agents, check=check)
    running.rendezvous = meet(running.plan, places, again=True)
