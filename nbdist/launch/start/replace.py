"""Replacement of ended processes, or of the controller, while the other processes go on.

Engines connect to a new controller by themselves.
"""

from __future__ import annotations

import dataclasses
import signal
import time
from collections.abc import Collection

from nbdist.contract.calls.engine import Complete, Initialized, StrategyStage
from nbdist.contract.orders import CONTROLLER, RestartController
from nbdist.errors import LaunchError
from nbdist.launch.model.framework import framework_named
from nbdist.launch.model.happenings import POLL_SECONDS, StartProgress, silent
from nbdist.launch.model.rendezvous import meet
from nbdist.launch.start.client import Client
from nbdist.launch.start.cluster import Cluster
from nbdist.launch.start.connect import connect
from nbdist.launch.start.hosts import new_places
from nbdist.launch.start.initialize import broadcast
from nbdist.launch.start.pending import Repeated
from nbdist.notation import processes_text
from nbdist.spelling import command

END_SECONDS = 5.0
"""Seconds a process may take to be gone after SIGKILL."""


def end_processes(cluster: Cluster, process_ids: Collection[int]) -> None:
    """End processes that no longer answer; wait until they are gone.

    Raises:
      LaunchError: A process still exists.
    """
    cluster.agents.signal(signal.SIGKILL, sorted(process_ids))
    deadline = time.monotonic() + END_SECONDS
    while left := set(process_ids) - set(cluster.exits):
        if time.monotonic() > deadline:
            raise LaunchError(
                f"{processes_text(left)} cannot be ended. {command('restart')} stops all."
            )
        time.sleep(POLL_SECONDS)


def replace_processes(
    cluster: Cluster, process_ids: Collection[int], *, progress: StartProgress
) -> None:
    """Start these processes of the plan again, each on its host and with its id.

    Raises:
      LaunchError: One of them did not come up; all other processes are unchanged.
    """
    again = [p for p in cluster.plan.processes if p.process_id in process_ids]
    known = {*cluster.engines.values(), *cluster.client.ids}
    cluster.forget(process_ids)
    cluster.agents.start(cluster.planned(again))
    connect(cluster, process_ids, known=known, progress=progress)


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
        p: dataclasses.replace(found[1], again=p not in replaced)
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


START_SECONDS = 30.0
"""Seconds a new controller may take to answer; on a quiet machine it takes half a second."""

ANSWER_SECONDS = 1
"""Seconds that each attempt to connect to a new controller waits for its answer."""

AGAIN_SECONDS = 0.5
"""Seconds until an engine is asked again, since a request sent before the engine has reconnected is lost."""


def restart_controller(cluster: Cluster) -> None:
    """Start the controller again, unless another kernel has, and connect this kernel to it.

    Raises:
      LaunchError: The controller did not come up; the text says why. The engines go on.
    """
    home = cluster.own_agents.home
    before = home.exits.get(CONTROLLER)
    home.order(RestartController())
    deadline = time.monotonic() + START_SECONDS
    # The new controller may have ended already: then its end differs from the first one's.
    while before is not None and home.exits.get(CONTROLLER) == before:
        if home.poll() is not None or time.monotonic() > deadline:
            raise LaunchError("its agent does not start it again")
        time.sleep(POLL_SECONDS)
    client = _connected(cluster, deadline)
    if cluster.client is not None:
        # What the earlier client has not sent must not be sent later.
        cluster.client.close(linger=0)
    cluster.client = client


def _connected(cluster: Cluster, deadline: float) -> Client:
    home = cluster.own_agents.home
    while True:
        end = home.exits.get(CONTROLLER) or home.end_of_all()
        if end is not None:
            last = "".join(f": {line}" for line in end.last_lines[-1:])
            raise LaunchError(f"started again, it {end}{last}")
        try:
            return Client(cluster.client_file, timeout=ANSWER_SECONDS)
        except TimeoutError as error:
            if time.monotonic() > deadline:
                raise LaunchError(
                    f"started again, it did not answer within {START_SECONDS:g} s"
                ) from error


def unanswered(cluster: Cluster, process_ids: Collection[int], *, within_s: float) -> set[int]:
    """Return the idle processes that do not answer through the controller, except ended ones.

    Args:
      cluster: The engines.
      process_ids: The idle processes.
      within_s: How many seconds they may take.
    """
    deadline = time.monotonic() + within_s
    nothing = Complete(code="", cursor=0)
    left = {
        p: Repeated(cluster.client, cluster.engines[p], nothing, again_s=AGAIN_SECONDS)
        for p in process_ids
    }
    while left and time.monotonic() < deadline:
        left = {
            p: asked
            for p, asked in left.items()
            if asked.answer(within_s=POLL_SECONDS) is None and p not in cluster.exits
        }
    return set(left)
